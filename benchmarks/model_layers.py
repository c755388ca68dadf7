"""The linear layers of twelve public models, as `make gpu-contest` multiplies them.

Each number comes from the `config.json` that `source` names, on Hugging Face. Weights are [n, k]: n outputs, k inputs. q, k and v
are one weight, and so are gate and up. An expert-parallel group splits the experts over `ranks` GPUs, so that those of one GPU fit
in 2 GB.
"""

from __future__ import annotations

from typing import NamedTuple


class Attention(NamedTuple):
    """num_attention_heads, num_key_value_heads, head_dim."""

    heads: int
    kv_heads: int
    size: int


class Latent(NamedTuple):
    """DeepSeek's attention: q_lora_rank, kv_lora_rank, qk_rope_head_dim, qk_nope_head_dim, v_head_dim, num_attention_heads."""

    q_rank: int
    kv_rank: int
    rope: int
    nope: int
    value: int
    heads: int


class Experts(NamedTuple):
    """num_experts (n_routed_experts, num_local_experts), num_experts_per_tok, moe_intermediate_size."""

    count: int
    top_k: int
    inner: int
    ranks: int


class Model(NamedTuple):
    name: str
    source: str
    hidden: int  # hidden_size
    attention: Attention | Latent
    inner: int = 0  # intermediate_size of dense layers; 0: there are none
    experts: Experts | None = None


class Layer(NamedTuple):
    """A weight of a model, and the experts that have one, if it is theirs."""

    name: str
    n: int
    k: int
    experts: Experts | None = None


MODELS = (
    Model("DeepSeek-V3", "deepseek-ai/DeepSeek-V3", 7168, Latent(1536, 512, 64, 128, 128, 128), 18432, Experts(256, 8, 2048, 8)),
    Model("Kimi-K2", "moonshotai/Kimi-K2-Instruct", 7168, Latent(1536, 512, 64, 128, 128, 64), 18432, Experts(384, 8, 2048, 8)),
    Model("Qwen3-235B-A22B", "Qwen/Qwen3-235B-A22B", 4096, Attention(64, 4, 128), 0, Experts(128, 8, 1536, 4)),
    Model("Qwen3-30B-A3B", "Qwen/Qwen3-30B-A3B", 2048, Attention(32, 4, 128), 0, Experts(128, 8, 768, 1)),
    Model("gpt-oss-120b", "openai/gpt-oss-120b", 2880, Attention(64, 8, 64), 0, Experts(128, 4, 2880, 2)),
    Model("gpt-oss-20b", "openai/gpt-oss-20b", 2880, Attention(64, 8, 64), 0, Experts(32, 4, 2880, 1)),
    Model("GLM-4.5", "zai-org/GLM-4.5", 5120, Attention(96, 8, 128), 12288, Experts(160, 8, 1536, 4)),
    Model("Llama-4-Maverick", "meta-llama/Llama-4-Maverick-17B-128E", 5120, Attention(40, 8, 128), 16384, Experts(128, 1, 8192, 8)),
    Model("Mixtral-8x22B", "mistralai/Mixtral-8x22B-v0.1", 6144, Attention(48, 8, 128), 0, Experts(8, 2, 16384, 1)),
    Model("Hunyuan-A13B", "tencent/Hunyuan-A13B-Instruct", 4096, Attention(32, 8, 128), 0, Experts(64, 8, 3072, 1)),
    Model("Llama-3.1-70B", "meta-llama/Llama-3.1-70B", 8192, Attention(64, 8, 128), 28672),
    Model("Qwen3-32B", "Qwen/Qwen3-32B", 5120, Attention(64, 8, 128), 25600),
)


def attention_layers(model: Model) -> list[Layer]:
    of = model.attention
    if isinstance(of, Attention):
        return [Layer("q, k, v", (of.heads + 2 * of.kv_heads) * of.size, model.hidden), Layer("attention's output", model.hidden, of.heads * of.size)]
    return [
        Layer("latents", of.q_rank + of.kv_rank + of.rope, model.hidden),
        Layer("q", of.heads * (of.nope + of.rope), of.q_rank),
        Layer("k, v", of.heads * (of.nope + of.value), of.kv_rank),
        Layer("attention's output", model.hidden, of.heads * of.value),
    ]


def feed_forward_layers(model: Model, inner: int, experts: Experts | None) -> list[Layer]:
    return [Layer("gate and up", 2 * inner, model.hidden, experts), Layer("down", model.hidden, inner, experts)]


def layers(model: Model) -> list[Layer]:
    """The distinct weights of a model: attention, dense feed-forward, experts."""
    found = attention_layers(model)
    if model.inner:
        found += feed_forward_layers(model, model.inner, None)
    if model.experts:
        found += feed_forward_layers(model, model.experts.inner, model.experts)
    return found
