"""`tilewright convert --as fp8` writes what transformers loads: the names, the shapes, the scales and the modules without scales."""

import json
import os
import pathlib
import subprocess

import pytest

torch = pytest.importorskip("torch", reason="needs torch: tools/setup torch=yes, or pip install torch")
pytest.importorskip("transformers", reason="needs transformers: tools/setup torch=yes")

from torch_layers import error, one_thread  # noqa: E402, F401
from transformers import AutoModelForCausalLM, FineGrainedFP8Config, Qwen3MoeConfig  # noqa: E402

BUILD = pathlib.Path(os.environ.get("TILEWRIGHT_BUILD", pathlib.Path(__file__).parents[2] / "build/release"))
PROGRAM = BUILD / "src/cli/tilewright"
MODEL = {"hidden_size": 128, "intermediate_size": 128, "moe_intermediate_size": 256, "vocab_size": 64, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64, "num_experts": 4, "num_experts_per_tok": 2}


def run(*words):
    return subprocess.run([PROGRAM, *words], check=True, capture_output=True, text=True).stdout


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
def test_transformers_loads_a_converted_checkpoint(tmp_path):
    """With `dequantize`, which it takes for granted without a GPU, it multiplies values and scales."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(Qwen3MoeConfig(**MODEL, **HEADS)).to(torch.bfloat16)
    model.save_pretrained(tmp_path / "bf16")
    own, fp8 = tmp_path / "own", tmp_path / "fp8"
    own.mkdir()
    (own / "config.json").write_text((tmp_path / "bf16/config.json").read_text())
    shard = "model.safetensors"
    run("quantize", tmp_path / "bf16" / shard, own / shard, "--recipe", "128x128", "--include", "experts|self_attn.*_proj")
    run("convert", own, fp8, "--as", "fp8")
    assert "engines with Tilewright: transformers, vLLM and SGLang" in run("inspect", fp8)
    described = json.loads((fp8 / "config.json").read_text())["quantization_config"]
    gates = [f"model.layers.{layer}.mlp.gate" for layer in range(2)]
    assert described["modules_to_not_convert"] == ["lm_head", "model.embed_tokens", *gates]
    options = {"quantization_config": FineGrainedFP8Config(dequantize=True), "output_loading_info": True}
    loaded, how = AutoModelForCausalLM.from_pretrained(fp8, dtype=torch.bfloat16, **options)
    assert not any(how.values()), how
    before, after = model.state_dict(), loaded.state_dict()
    assert before.keys() == after.keys()
    for name, w in before.items():
        quantized = "experts" in name or "_proj" in name
        assert error(after[name], w.double()) < 0.03 if quantized else torch.equal(after[name], w), name
