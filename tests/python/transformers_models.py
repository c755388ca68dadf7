"""Tiny random models of transformers, one per family of experts, their blocks of experts, and what these compute in float32."""

import json

import tilewright as tw
import torch
from safetensors.torch import save_file
from torch_layers import normal
from transformers import AutoModelForCausalLM, DeepseekV3Config, Glm4MoeConfig, GptOssConfig, MixtralConfig, Qwen3MoeConfig
from transformers.integrations.finegrained_fp8 import ALL_FP8_EXPERTS_FUNCTIONS, FP8Experts
from transformers.integrations.moe import use_experts_implementation

EXPERTS, HIDDEN, INNER, TOP, VOCABULARY = 6, 64, 96, 2, 32
LIMITS = {"1x128": 0.08, "row": 0.08, "1x128:mxfp4": 0.25, "bf16:mxfp4": 0.25}  # relative errors by recipe
FAMILIES = {
    "qwen3_moe": Qwen3MoeConfig,
    "deepseek_v3": DeepseekV3Config,
    "mixtral": MixtralConfig,
    "glm4_moe": Glm4MoeConfig,
    "gpt_oss": GptOssConfig,
}
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "moe_intermediate_size": INNER,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_experts_per_tok": TOP,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
OWN = {
    "qwen3_moe": {"num_experts": EXPERTS},
    "deepseek_v3": {"n_routed_experts": EXPERTS, "n_group": 1, "topk_group": 1, "q_lora_rank": 16, "kv_lora_rank": 16,
                    "qk_rope_head_dim": 16, "head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 32, "first_k_dense_replace": 0},
    "mixtral": {"num_local_experts": EXPERTS},
    "glm4_moe": {"n_routed_experts": EXPERTS, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 0},
    "gpt_oss": {"num_local_experts": EXPERTS, "layer_types": [],
                "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
}  # fmt: skip


def config_of(family, layers=2, **more):
    own = {**OWN[family], "num_hidden_layers": layers}
    if "layer_types" in own:
        own["layer_types"] = ["full_attention"] * layers
    return FAMILIES[family](**{**SIZES, **own, **more})


def model_of(family, dtype=torch.float32, device="cpu", experts="eager", **more):
    """A model whose experts, and whose routers' logits, matter to the result."""
    config = config_of(family, **more)
    config._experts_implementation = experts
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".mlp." in name:
                columns = HIDDEN if "gate" in name else INNER
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * columns**-0.5)
    return model.to(device)


def blocks_of(model):
    """The names and modules of experts."""
    return [(name, module) for name, module in model.named_modules() if name.endswith(".experts")]


def words(device="cpu"):
    return torch.randint(3, VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(2)).to(device)


def tokens(count=24, dtype=torch.float32, device="cpu", seed=0):
    """x, ids and weights. The last choice is the expert after the last, as expert parallelism marks those that are elsewhere."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.stack([torch.randperm(EXPERTS, generator=generator)[:TOP] for _ in range(count)])
    ids[-1, -1] = EXPERTS
    weights = normal(count, TOP, seed=seed + 1, device=device).sigmoid()
    return normal(count, HIDDEN, seed=seed, dtype=dtype, device=device), ids.to(device), weights


def by_loop(module, x, ids, weights, gate=None):
    """The experts in float32, by the module's own gate and weights. With gradients."""
    stacks = [getattr(module, "gate_up_proj" if module.has_gate else "up_proj"), module.down_proj]
    up, down = (w.float().mT if module.is_transposed else w.float() for w in stacks)
    return looped(x, ids, weights, up, down, gate or (module._apply_gate if module.has_gate else module.act_fn),
                  *((module.gate_up_proj_bias, module.down_proj_bias) if module.has_bias else ()))  # fmt: skip


def looped(x, ids, weights, up, down, gate, up_bias=None, down_bias=None):
    out = torch.zeros_like(x, dtype=torch.float32)
    for expert in range(len(up)):
        there = ids == expert
        h = gate(x.float() @ up[expert].T + (0 if up_bias is None else up_bias[expert].float()))
        y = h @ down[expert].T + (0 if down_bias is None else down_bias[expert].float())
        out = out + (there * weights.float()).sum(1, keepdim=True) * there.any(1, keepdim=True) * y
    return out


def fp8_experts(config, form="128x128", device="cpu", **more):
    """A module as transformers' quantizer makes it, with quantized numbers, and its real up and down."""
    kind = type("FP8Experts", (FP8Experts,), {})
    kind = use_experts_implementation(experts_class=kind, experts_interface=ALL_FP8_EXPERTS_FUNCTIONS)
    if form == "fp4":
        more |= {"scale_fmt": "ue8m0"}
        config.expert_dtype = "fp4"  # where 5.17 has it
        if "expert_dtype" in FP8Experts.__init__.__code__.co_varnames:
            more["expert_dtype"] = "fp4"
    if form == "ue8m0":
        more["scale_fmt"] = "ue8m0"
    module = kind(config, **{"block_size": (128, 128), **more})
    real = []
    for i, name in enumerate(("gate_up_proj", "down_proj")):
        w, scale = getattr(module, name), getattr(module, f"{name}_scale_inv")
        columns = w.shape[2] * (2 if form == "fp4" else 1)
        numbers = normal(*w.shape[:2], columns, seed=7 + i) * columns**-0.5
        q = tw.quantize(numbers, "mxfp4" if form == "fp4" else "128x128", round_up=True)
        w.data = q.values.view(w.dtype).clone()
        scale.data = q.scales.view(scale.dtype) if form == "fp4" else q.scales.to(scale.dtype)
        real.append(q.dequantize().to(device))
    return module.to(device), *real


def mxfp4_checkpoint(folder):
    """A checkpoint of gpt-oss with MXFP4 experts, as it is published. Returns its blocks and scales."""
    model = model_of("gpt_oss", torch.bfloat16)
    state, quantized = {k: v.clone() for k, v in model.state_dict().items()}, {}
    for name, module in blocks_of(model):
        for side in ("gate_up_proj", "down_proj"):
            q = tw.quantize(state.pop(f"{name}.{side}").mT.contiguous(), "mxfp4")
            scales = q.scales.view(torch.uint8)
            quantized |= {f"{name}.{side}_blocks": q.values.view(*scales.shape, 16), f"{name}.{side}_scales": scales}
    folder.mkdir(parents=True, exist_ok=True)
    config = model.config.to_dict() | {"quantization_config": {"quant_method": "mxfp4"}, "architectures": ["GptOssForCausalLM"]}
    (folder / "config.json").write_text(json.dumps(config))
    save_file(state | quantized, folder / "model.safetensors", {"format": "pt"})
    return quantized
