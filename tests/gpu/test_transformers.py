"""Experts of transformers' models on a Hopper GPU: against loops in float32, captured in a graph, and in batches of 1 and 8."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

import tilewright as tw  # noqa: E402
import tilewright.integrations.transformers as door  # noqa: E402
from tilewright.integrations import _transformers_plan  # noqa: E402
from torch_layers import error, same  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402
from transformers_models import (  # noqa: E402
    EXPERTS,
    FAMILIES,
    LIMITS,
    blocks_of,
    by_loop,
    config_of,
    fp8_experts,
    looped,
    model_of,
    mxfp4_checkpoint,
    tokens,
    words,
)


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    """Nothing falls back."""
    monkeypatch.setenv("TILEWRIGHT_STRICT", "1")


def on_gpu(count=24, seed=0):
    return tokens(count, torch.bfloat16, "cuda", seed)


@pytest.mark.parametrize("recipe", LIMITS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_prepared_model(family, recipe):
    model, x = model_of(family, torch.bfloat16, "cuda", layers=1), on_gpu()
    with torch.no_grad():
        logits = model(words("cuda")).logits
        expected = [by_loop(module, *x) for _, module in blocks_of(model)]
        door.prepare(model, recipe)
        assert error(model(words("cuda")).logits, logits.double().cpu()) < LIMITS[recipe]
        for (_, module), exact in zip(blocks_of(model), expected, strict=True):
            assert 0.001 < error(module(*x), exact.double().cpu()) < LIMITS[recipe]


@pytest.mark.parametrize("family", ["qwen3_moe", "gpt_oss"])
def test_training(family):
    model = model_of(family, torch.bfloat16, "cuda")
    door.register("1x128")
    model.set_experts_implementation("tilewright")
    module = blocks_of(model)[0][1]
    gradients = []
    for call in (module, lambda *x: by_loop(module, *x)):
        x, ids, weights = on_gpu()
        given = [x.requires_grad_(), weights.requires_grad_(), *module.parameters()]
        gradients.append(torch.autograd.grad(call(x, ids, weights).float().square().sum(), given))
    for ours, exact in zip(*gradients, strict=True):
        assert 0.001 < error(ours, exact.double().cpu()) < 0.12


@pytest.mark.parametrize("form", ["128x128", "ue8m0", "fp4"])
def test_fp8_modules(form):
    config = config_of("qwen3_moe")
    config._experts_implementation = "tilewright"
    module, up, down = fp8_experts(config, form, "cuda")
    _transformers_plan.prepare_module(module, "experts", None, True)
    x = on_gpu()
    with torch.no_grad():
        assert 0.001 < error(module(*x), looped(*x, up, down, module._apply_gate).double().cpu()) < 0.08


def test_an_mxfp4_checkpoint(tmp_path):
    """Loaded on the GPU by a device map, where accelerate is installed, and else moved there."""
    mxfp4_checkpoint(tmp_path)
    door.register()
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16, experts_implementation="tilewright")
    x = tokens(dtype=torch.bfloat16)
    with torch.no_grad():
        expected = [module(*x).double() for _, module in blocks_of(model)]
        model.cuda()
        for (_, module), exact in zip(blocks_of(model), expected, strict=True):
            assert error(module(*on_gpu()), exact) < 0.01


@pytest.mark.parametrize("recipe", ["1x128", "1x128:mxfp4", "bf16:mxfp4"])
def test_a_block_is_captured_and_replayed(recipe):
    """Replays follow other tokens and another routing, with the bits of eager calls. So the call reads nothing on the host."""
    model = model_of("gpt_oss", torch.bfloat16, "cuda")
    door.prepare(model, recipe)
    module, given = blocks_of(model)[0][1], [tensor.clone() for tensor in on_gpu()]
    with torch.no_grad():
        module(*given)
        torch.cuda.synchronize()
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream), torch.cuda.graph(graph, stream=stream):
            made = module(*given)
        for seed in (1, 2):
            new = on_gpu(seed=seed)
            for tensor, value in zip(given, new, strict=True):
                tensor.copy_(value)
            graph.replay()
            torch.cuda.synchronize()
            assert same([made.cpu()], [module(*new).cpu()])


@pytest.mark.parametrize("recipe", ["1x128", "1x128:mxfp4", "bf16:mxfp4"])
def test_invariant_tokens_do_not_depend_on_the_batch(recipe):
    model = model_of("qwen3_moe", torch.bfloat16, "cuda")
    door.prepare(model, recipe)
    module, (x, ids, weights) = blocks_of(model)[0][1], on_gpu(8)
    with torch.no_grad(), tw.options(invariant=True):
        parts = [module(x[i : i + 1], ids[i : i + 1], weights[i : i + 1]) for i in range(8)]
        assert same([module(x, ids, weights).cpu()], [torch.cat(parts).cpu()])


def test_a_model_moves_after_it_was_prepared():
    model = model_of("qwen3_moe", torch.bfloat16)
    door.prepare(model, "1x128")
    module = blocks_of(model)[0][1]
    with torch.no_grad():
        before = module(*tokens(dtype=torch.bfloat16))
        model.cuda()
        assert error(module(*on_gpu()), before.double()) < 0.01
    assert module.num_experts == EXPERTS


def test_no_call_waits_for_the_gpu():
    model = model_of("qwen3_moe", torch.bfloat16, "cuda")
    door.prepare(model, "1x128")
    module, x = blocks_of(model)[0][1], on_gpu()
    with torch.no_grad():
        module(*x)
        torch.cuda.set_sync_debug_mode("error")
        try:
            module(*x)
        finally:
            torch.cuda.set_sync_debug_mode("default")
