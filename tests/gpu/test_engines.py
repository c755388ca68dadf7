"""The doors to vLLM and SGLang on a Hopper GPU, against stand-ins: results, and graphs that are replayed with other tokens."""

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

import engine_layers
import sglang_stand_in
import tilewright as tw
import vllm_stand_in
from engine_layers import EXPERTS, HIDDEN, expected, halves, layer, numbers, row, swiglu, tokens
from engine_stand_ins import TOOL
from tilewright.integrations import sglang as sglang_door
from tilewright.integrations import vllm as vllm_door

SILU = halves(swiglu)
LIMIT = 0.05  # relative, of a token: sums in another order let a few codes of fp8 fall to the other side
RECIPES = ["128x128", "mxfp4"]


def on_gpu(weights):
    return weights._replace(**{name: value.cuda() for name, value in weights._asdict().items() if value is not None})


def close(given, wanted):
    return engine_layers.close(given, wanted, LIMIT)


def captured(function):
    """The function's result tensor, written again at each replay."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = function()
    return graph, out


def replayed(graph, out, static, given):
    for tensor, value in zip(static, given):
        tensor.copy_(value)
    graph.replay()
    torch.cuda.synchronize()
    return out.cpu()


@pytest.fixture(params=TOOL.versions("vllm"))
def vllm(request, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_ENGINE", "1")
    with vllm_stand_in.stand_in(request.param).place(monkeypatch) as made:
        vllm_door.register()
        yield made


@pytest.fixture(params=TOOL.versions("sglang"))
def sglang(request, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_ENGINE", "1")
    monkeypatch.setattr(sglang_door, "_registered", False)
    with sglang_stand_in.stand_in(request.param).place(monkeypatch) as made:
        sglang_door.register()
        sglang_stand_in.start(made)
        yield made


def kernel(made, name, weights, **more):
    from tilewright.integrations import _vllm_experts

    config = vllm_stand_in.quant_config(made, weights)
    return getattr(_vllm_experts, name)(moe_config=vllm_stand_in.moe_config(made), quant_config=config, **more)


@pytest.mark.parametrize("recipe", RECIPES)
def test_vllm_tokens(vllm, recipe):
    """Global numbers of experts with a map, some elsewhere, and -1."""
    host = layer(recipe)
    weights = on_gpu(host)
    experts = kernel(vllm, {"128x128": "TilewrightFp8Experts", "mxfp4": "TilewrightGptOssExperts"}[recipe], weights)
    if recipe == "mxfp4":
        held = torch.nn.Module()
        for name, tensor in zip(("w13_weight", "w2_weight", "w13_weight_scale", "w2_weight_scale"), weights[:4]):
            held.register_parameter(name, torch.nn.Parameter(tensor, requires_grad=False))
        experts.quant_config.w1_scale, experts.quant_config.w2_scale = held.w13_weight_scale, held.w2_weight_scale
        experts.process_weights_after_loading(held)
        weights = weights._replace(w1=held.w13_weight, w2=held.w2_weight)
    expert_map = torch.full((2 * EXPERTS,), -1, dtype=torch.int32, device="cuda")
    expert_map[[1, 2, 5, 7]] = torch.arange(4, dtype=torch.int32, device="cuda")
    static = [tensor.cuda() for tensor in tokens(experts=2 * EXPERTS)]
    graph, out = captured(lambda: vllm_stand_in.run(vllm, experts, weights, *static, expert_map=expert_map))
    for seed in (10, 30, 50):
        x, w, ids = tokens(seed, experts=2 * EXPERTS)
        ids[0, 0] = -1
        local = torch.where(ids < 0, -1, expert_map.cpu()[ids.clamp(0).long()])
        wanted = expected(host, x, w, local, SILU, recipe == "128x128")
        eager = vllm_stand_in.run(vllm, experts, weights, x.cuda(), w.cuda(), ids.cuda(), expert_map=expert_map).cpu()
        assert close(eager, wanted)
        assert torch.equal(replayed(graph, out, static, (x, w, ids)), eager)
    none = [tensor[:0] for tensor in static]
    assert vllm_stand_in.run(vllm, experts, weights, *none).shape == (0, HIDDEN)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("recipe", RECIPES)
def test_vllm_rows_of_each_expert(vllm, recipe, columns):
    host = layer(recipe)
    weights = on_gpu(host)
    name = {"128x128": "TilewrightFp8BatchedExperts", "mxfp4": "TilewrightMxfp4BatchedExperts"}[recipe]
    experts = kernel(vllm, name, weights, max_num_tokens=3, num_dispatchers=2)
    _, w, ids = (tensor.cuda() for tensor in tokens())
    x = torch.zeros(EXPERTS, 6, HIDDEN, dtype=torch.bfloat16, device="cuda")
    counts = torch.zeros(EXPERTS, dtype=torch.int32, device="cuda")
    graph, out = captured(lambda: vllm_stand_in.run(vllm, experts, weights, x, w, ids, counts=counts, columns=columns))
    for seed, sizes in ((5, [0, 6, 2, 1]), (6, [6, 0, 0, 3])):
        given = numbers(seed, EXPERTS, 6, HIDDEN).bfloat16()
        y = replayed(graph, out, (x, counts), (given, torch.tensor(sizes)))
        for e, count in enumerate(sizes):
            assert close(y[e, :count], row(host, given[e, :count], e, SILU, recipe == "128x128"))


def test_vllm_linear_layers(vllm):
    from tilewright.integrations._vllm_linear import TilewrightFp8BlockLinearKernel

    b = tw.quantize(numbers(1, 384, HIDDEN), "128x128")
    product = TilewrightFp8BlockLinearKernel(vllm_stand_in.linear_config(vllm)).apply_block_scaled_mm
    a = [tensor.cuda() for tensor in vllm_stand_in.quantized(numbers(2, 9, HIDDEN))]
    values, scales = b.values.cuda(), b.scales.cuda()
    graph, out = captured(lambda: product(A=a[0], B=values, As=a[1], Bs=scales))
    for seed in (2, 3):
        operand = tw.quantize(numbers(seed, 9, HIDDEN), "1x128")
        y = replayed(graph, out, a, (operand.values, operand.scales))
        assert close(y, operand.dequantize() @ b.dequantize().T)


@pytest.mark.parametrize("kind", ["fp8", "fp4", "mxfp4"])
def test_sglang(sglang, kind):
    recipe = "128x128" if kind == "fp8" else "mxfp4"
    host = layer(recipe)
    weights = on_gpu(host)
    if kind == "fp4":
        floats = [scales.view(torch.float8_e8m0fnu).float() for scales in (weights.s1, weights.s2)]
        weights = weights._replace(w1=weights.w1.view(torch.int8), w2=weights.w2.view(torch.int8), s1=floats[0], s2=floats[1])
    method = sglang_stand_in.method_of(sglang, kind)
    module = sglang_stand_in.Layer(sglang, method, weights, routed_scaling_factor=2.5).load()
    static = [tensor.cuda() for tensor in tokens()]
    graph, out = captured(lambda: module(*static).hidden_states)
    for seed in (10, 30, 50):
        x, w, ids = tokens(seed)
        ids[0] = -1
        y = replayed(graph, out, static, (x, w, ids))
        assert close(y[1:], 2.5 * expected(host, x, w, ids, SILU, kind == "fp8")[1:]) and not y[0].any()
        assert torch.equal(module(x.cuda(), w.cuda(), ids.cuda()).hidden_states.cpu(), y)
