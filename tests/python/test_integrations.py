"""The common parts of `tilewright.integrations`: what fits, an engine's weights as operands, its unit, and the calls on them."""

import logging
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="needs torch: tools/setup torch=yes, or pip install torch")

import tilewright as tw  # noqa: E402
from test_torch_moe import activated  # noqa: E402
from tilewright.integrations import _experts, _fit, _holding, _units  # noqa: E402
from tilewright.integrations._experts import ExpertLayer, fp8_blocks, gated_unit, mxfp4  # noqa: E402
from tilewright.integrations._fit import Unfit, check_device, decline  # noqa: E402
from tilewright.integrations._units import SWIGLU, same_unit  # noqa: E402
from tilewright.torch import RECIPES  # noqa: E402
from torch_layers import error, normal, same  # noqa: E402

EXPERTS, HIDDEN, INNER, TOKENS, K = 4, 128, 96, 24, 2


def weights(dtype=torch.bfloat16):
    up = normal(EXPERTS, 2 * INNER, HIDDEN, seed=2, dtype=dtype) / 8
    return up, normal(EXPERTS, HIDDEN, INNER, seed=3, dtype=dtype) / 8


def tokens(dtype=torch.bfloat16):
    """x, ids and the weights of the choices. One choice names the expert after the last, as expert parallelism does."""
    ids = torch.randint(EXPERTS, (TOKENS, K), generator=torch.Generator().manual_seed(0))
    ids[3, 1] = EXPERTS
    return normal(TOKENS, HIDDEN, dtype=dtype), ids, normal(TOKENS, K, seed=1).sigmoid()


def exact(x, ids, shares, up, down, up_bias=0, down_bias=0, unit=SWIGLU):
    """The layer in float64."""
    out = torch.zeros(x.shape, dtype=torch.float64)
    for expert in range(len(up)):
        share = ((ids == expert) * shares.double()).sum(1, keepdim=True)
        there = (ids == expert).any(1, keepdim=True)
        bias = (b if isinstance(b, int) else b[expert].double() for b in (up_bias, down_bias))
        gate_up = x.double() @ up[expert].double().T + next(bias)
        if unit.interleaved:
            gate_up = torch.cat([gate_up[:, 0::2], gate_up[:, 1::2]], dim=1)
        h = activated(gate_up, *unit[:-1])
        out += share * (h @ down[expert].double().T + next(bias)) * there
    return out


# Fitting.


def test_no_engine_is_imported_before_it_is_asked_for():
    code = (
        "import sys, tilewright.integrations, tilewright.integrations._experts, tilewright.integrations.transformers;"
        "print([m for m in ('transformers', 'vllm', 'sglang', 'torchtitan', 'megatron') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_declined_layer_is_one_line_of_the_log(caplog):
    for _ in range(3):
        decline("an engine", "layer 1", Unfit("x: got 1; expected 2"), "its own code")
    decline("an engine", "layer 2", "x: got 1; expected 2", "its own code")
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [f"tilewright does not run layer {i}: x: got 1; expected 2. its own code runs instead." for i in (1, 2)]
    assert caplog.records[0].name == "tilewright.integrations.an engine" and caplog.records[0].levelno == logging.WARNING


def test_the_line_is_an_error_when_strict(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_STRICT", "1")
    with pytest.raises(RuntimeError, match="layer 1: x: got 1; expected 2. .* TILEWRIGHT_STRICT=1"):
        decline("an engine", "layer 1", "x: got 1; expected 2", "its own code")


def test_an_engine_is_enabled_by_the_environment(monkeypatch):
    monkeypatch.delenv("TILEWRIGHT_ENGINE", raising=False)
    assert not _fit.enabled()
    monkeypatch.setenv("TILEWRIGHT_ENGINE", "1")
    assert _fit.enabled()


@pytest.mark.parametrize("installed", ["1.2.3", "1.2.3+cu130"])
def test_tested_versions_pass(installed, monkeypatch):
    monkeypatch.setattr(_fit.metadata, "version", lambda package: installed)
    _fit.tested_version("An engine", "package", ("1.2.0", "1.2.3"))


def test_other_versions_are_named(monkeypatch):
    monkeypatch.setattr(_fit.metadata, "version", lambda package: "1.2.30")
    with pytest.raises(Unfit, match=r"An engine: got package 1.2.30; expected 1.2.0 or 1.2.3, the tested versions"):
        _fit.tested_version("An engine", "package", ("1.2.0", "1.2.3"))
    monkeypatch.undo()
    with pytest.raises(Unfit, match="got no installation; expected no-such-package 1.2.0"):
        _fit.tested_version("An engine", "no-such-package", ("1.2.0",))


def test_cards_that_are_no_hopper_are_named(monkeypatch):
    check_device(torch.device("cpu"))
    with pytest.raises(Unfit, match="device: got meta"):
        check_device(torch.device("meta"))
    monkeypatch.setattr(_fit, "_card", lambda index: ("A100", (8, 0)))
    with pytest.raises(Unfit, match="A100 of compute capability 8.0; expected 9.0"):
        check_device(torch.device("cuda", 0))
    monkeypatch.setattr(_fit, "_card", lambda index: ("H100", (9, 0)))
    check_device(torch.device("cuda", 0))


# Units.


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("silu", {}, SWIGLU),
        ("silu", {"limit": 7.0}, SWIGLU._replace(limit=7.0)),
        ("swigluoai", {"interleaved": True}, SWIGLU._replace(alpha=1.702, beta=1.0, limit=7.0, interleaved=True)),
        ("swigluoai", {"alpha": 1.5, "limit": 5}, SWIGLU._replace(alpha=1.5, beta=1.0, limit=5.0)),
        ("gelu_pytorch_tanh", {}, SWIGLU._replace(kind="geglu")),
        ("relu2_no_mul", {}, SWIGLU._replace(kind="relu_squared")),
        ("relu2", {"gated": False}, SWIGLU._replace(kind="relu_squared")),
        ("situ", {"up_bound": 9}, SWIGLU._replace(kind="situ", up_bound=9.0)),
    ],
)
def test_units_by_name(name, given, expected):
    assert gated_unit(name, **given) == expected


@pytest.mark.parametrize(
    ("name", "given"), [("gelu", {}), ("relu2", {}), ("silu_no_mul", {}), ("geglu", {"limit": 7.0}), ("mish", {})]
)
def test_units_that_the_library_lacks(name, given):
    with pytest.raises(Unfit, match="activation: got"):
        gated_unit(name, **given)


CANDIDATES = [
    SWIGLU,
    SWIGLU._replace(alpha=1.702, beta=1.0, limit=7.0),
    SWIGLU._replace(limit=7.0),
    SWIGLU._replace(kind="geglu"),
    SWIGLU._replace(kind="situ", gate_bound=3.0, up_bound=5.0),
]
CANDIDATES += [unit._replace(interleaved=True) for unit in CANDIDATES]


def halves(gate_up, interleaved):
    return (gate_up[..., ::2], gate_up[..., 1::2]) if interleaved else gate_up.chunk(2, -1)


FUNCTIONS = {
    0: lambda g, u: torch.nn.functional.silu(g) * u,
    1: lambda g, u: g.clamp(max=7) * torch.sigmoid(1.702 * g.clamp(max=7)) * (u.clamp(-7, 7) + 1),
    2: lambda g, u: torch.nn.functional.silu(g.clamp(max=7)) * u.clamp(-7, 7),
    3: lambda g, u: torch.nn.functional.gelu(g, approximate="tanh") * u,
    4: lambda g, u: torch.tanh(g / 3) * 3 * torch.sigmoid(g) * torch.tanh(u / 5) * 5,
}


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("which", FUNCTIONS)
def test_a_unit_is_found_by_its_numbers(which, interleaved):
    found = same_unit(lambda gate_up: FUNCTIONS[which](*halves(gate_up, interleaved)), CANDIDATES)
    assert found == CANDIDATES[which + interleaved * len(FUNCTIONS)]


OTHERS = {
    "gelu by erf": lambda g, u: torch.nn.functional.gelu(g) * u,
    "limit after silu": lambda g, u: torch.nn.functional.silu(g).clamp(max=7) * u.clamp(-7, 7),
    "limit of gates only": lambda g, u: torch.nn.functional.silu(g.clamp(max=7)) * u,
    "another alpha": lambda g, u: g.clamp(max=7) * torch.sigmoid(1.7 * g.clamp(max=7)) * (u.clamp(-7, 7) + 1),
    "a limit that is not named": lambda g, u: torch.nn.functional.silu(g.clamp(max=400)) * u.clamp(-400, 400),
    "ups first": lambda g, u: torch.nn.functional.silu(u) * g,
    "squared": lambda g, u: g.relu().square() * u,
    "one feature less": lambda g, u: (torch.nn.functional.silu(g) * u)[:, 1:],
    "an error": lambda g, u: g @ g,
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_function_is_no_unit(name):
    assert same_unit(lambda gate_up: OTHERS[name](*halves(gate_up, False)), CANDIDATES) is None


def test_functions_without_gates():
    unit = SWIGLU._replace(kind="relu_squared")
    assert same_unit(lambda h: h.relu() ** 2, [unit]) == unit
    assert same_unit(torch.nn.functional.silu, [unit]) is None


# Weights.


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e8m0fnu])
@pytest.mark.parametrize("shape", [(256, 128), (200, 300)])
def test_fp8_blocks_are_taken_as_they_are(shape, dtype):
    q = tw.quantize(normal(3, *shape), "128x128", round_up=True)
    taken = fp8_blocks(q.values, q.scales.to(dtype), [128, 128])
    assert taken.values.data_ptr() == q.values.data_ptr()
    assert same([taken.dequantize()], [q.dequantize()])


def test_fp8_blocks_that_do_not_fit():
    q = tw.quantize(normal(3, 256, 128), "128x128")
    for values, scales, block, what in (
        (q.values, q.scales, [64, 128], "block_size: got"),
        (q.values, q.scales, None, "block_size: got None"),
        (q.values, q.scales[:, :1], [128, 128], r"scales: got \[3, 1, 1\]; expected \[3, 2, 1\]"),
        (q.values, q.scales.half(), [128, 128], "scales: got torch.float16"),
        (q.values.float(), q.scales, [128, 128], "weights: got float32"),
    ):
        with pytest.raises(Unfit, match=what):
            fp8_blocks(values, scales, block)


@pytest.mark.parametrize("activations", ["bf16", "fp8"])
@pytest.mark.parametrize("form", ["rows", "blocks", "int8", "e8m0"])
def test_mxfp4_codes_are_packed_exactly(form, activations):
    q = tw.quantize(normal(3, 64, 96), "mxfp4")
    scales = q.scales.view(torch.uint8)
    codes = {"rows": q.values, "blocks": q.values.view(3, 64, 3, 16), "int8": q.values.view(torch.int8), "e8m0": q.values}[form]
    packed = mxfp4(codes, scales.view(torch.float8_e8m0fnu) if form == "e8m0" else scales, activations)
    assert packed.activations == activations
    assert same([packed.dequantize()], [q.dequantize()])


def test_mxfp4_that_does_not_fit():
    q = tw.quantize(normal(3, 64, 96), "mxfp4")
    with pytest.raises(Unfit, match=r"scales: got uint8 \[3, 64, 2\]; expected uint8 or float8_e8m0fnu \[3, 64, 3\]"):
        mxfp4(q.values, q.scales.view(torch.uint8)[..., :2], "bf16")
    with pytest.raises(Unfit, match="codes: got float32"):
        mxfp4(q.values.float(), q.scales, "bf16")


@pytest.mark.parametrize(
    ("recipe", "training", "w", "what"),
    [
        ("2x2", False, torch.zeros(1, 2, 2), "recipe: got '2x2'; expected one of row, "),
        ("bf16:mxfp4", True, torch.zeros(1, 2, 2), "recipe: got 'bf16:mxfp4' with gradients; expected one of row"),
        ("row", True, torch.zeros(1, 2, 2).half(), "up: got float16"),
        ("row", True, torch.zeros(1, 2, 2).to_sparse(), "up: got a Tensor that is sharded, sparse"),
    ],
)
def test_real_weights_that_do_not_fit(recipe, training, w, what):
    with pytest.raises(Unfit, match=what):
        _experts.check_real("up", w, recipe, training)


# Calls.

LIMITS = {"row": 0.07, "tensor": 0.08, "1x128": 0.07, "1x128:128x128": 0.07, "fold": 0.07, "1x128:mxfp4": 0.25, "bf16:mxfp4": 0.25}


@pytest.mark.parametrize("recipe", LIMITS)
def test_quantized_once_is_quantized_at_each_call(recipe):
    up, down = weights()
    x, ids, shares = tokens()
    layer = ExpertLayer(up, down, recipe=recipe)
    once = layer.quantized()
    assert not once.is_real and layer.is_real and once.quantized() is once
    y = once.tokens(x, ids, shares)
    assert y.dtype == x.dtype
    assert 0.001 < error(y, exact(x, ids, shares, up, down)) < LIMITS[recipe]
    if recipe in RECIPES:
        assert same([y], [layer.tokens(x, ids, shares)])


UNIT = gated_unit("swigluoai", interleaved=True)


@pytest.mark.parametrize("once", [False, True])
def test_biases_a_unit_and_transposed_weights(once):
    up, down = weights(torch.float32)
    x, ids, shares = tokens(torch.float32)
    biases = normal(EXPERTS, 2 * INNER, seed=4) / 4, normal(EXPERTS, HIDDEN, seed=5) / 4
    stored = up.mT.contiguous(), down.mT.contiguous()
    layer = ExpertLayer(*(w.mT for w in stored), *biases, unit=UNIT)
    y = (layer.quantized() if once else layer).tokens(x, ids, shares)
    assert error(y, exact(x, ids, shares, up, down, *biases, UNIT)) < 0.07


def test_transposed_weights_have_gradients():
    up, down = weights(torch.float32)
    x, ids, shares = tokens(torch.float32)
    made = []
    for transposed in (False, True):
        given = [w.mT.contiguous() if transposed else w.clone() for w in (up, down)]
        given = [tensor.requires_grad_() for tensor in (*given, x.clone(), shares.clone())]
        layer = ExpertLayer(*(w.mT if transposed else w for w in given[:2]))
        layer.tokens(given[2], ids, given[3]).square().sum().backward()
        made.append([w.grad.mT if transposed and i < 2 else w.grad for i, w in enumerate(given)])
    assert same(made[0], [grad.contiguous() for grad in made[1]])


def test_an_addend_a_map_and_out():
    up, down = weights()
    x, ids, shares = tokens()
    layer = ExpertLayer(up, down).quantized()
    out, addend = torch.empty_like(x), torch.ones_like(x)
    everywhere = torch.tensor([1, -1, 0, 3, 2], dtype=torch.int32)
    y = layer.tokens(x, ids, shares, expert_map=everywhere, addend=addend, out=out)
    assert y is out
    there = torch.tensor([1, EXPERTS, 0, 3, 2])[ids]
    assert same([out], [layer.tokens(x, there, shares, addend=addend)])
    assert error(out.float() - 1, exact(x, there, shares, up, down)) < 0.08


def sorted_rows(x, ids):
    """The rows of all choices by expert, and their ends."""
    order = torch.argsort(ids.flatten(), stable=True)
    ends = torch.bincount(ids.flatten(), minlength=EXPERTS + 1).cumsum(0)[:EXPERTS]
    return x[order // K], order, ends


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("given_out", [False, True])
def test_rows_are_tokens_with_one_choice(once, given_out):
    x, ids, shares = tokens()
    layer = ExpertLayer(*weights())
    layer = layer.quantized() if once else layer
    rows, order, ends = sorted_rows(x, ids)
    out = torch.zeros_like(rows) if given_out else None
    y = layer.rows(rows, ends, shares.flatten()[order], out=out)
    assert out is None or y is out
    expected = layer.tokens(rows, ids.flatten()[order][:, None], shares.flatten()[order][:, None])
    assert same([y], [expected]) and not y[ends[-1] :].any()


def test_rows_train():
    x, ids, shares = tokens(torch.float32)
    up, down = (w.requires_grad_() for w in weights(torch.float32))
    rows, _, ends = sorted_rows(x, ids)
    ExpertLayer(up, down).rows(rows, ends).sum().backward()
    assert up.grad.abs().sum() > 0 and down.grad.abs().sum() > 0


def test_masked_rows():
    up, down = weights()
    counts = torch.tensor([3, 0, 5, 1])
    x = normal(EXPERTS, 5, HIDDEN, dtype=torch.bfloat16)
    for layer in (ExpertLayer(up, down), ExpertLayer(up, down).quantized()):
        y = layer.masked(x, counts)
        for expert, count in enumerate(counts.tolist()):
            ids = torch.full((count, 1), expert)
            assert same([y[expert, :count]], [layer.tokens(x[expert, :count].contiguous(), ids, None)])


def test_tokens_that_are_quantized():
    x, ids, shares = tokens()
    layer = ExpertLayer(*weights()).quantized()
    y = layer.tokens(tw.quantize(x, "1x128"), ids, shares)
    assert same([y], [layer.tokens(x, ids, shares)])


def test_invariant_tokens_do_not_depend_on_the_batch():
    x, ids, shares = tokens()
    layer = ExpertLayer(*weights()).quantized()
    whole = layer.tokens(x, ids, shares, invariant=True)
    parts = [layer.tokens(x[i : i + 1], ids[i : i + 1], shares[i : i + 1], invariant=True) for i in range(TOKENS)]
    assert same([whole], [torch.cat(parts)])


def test_compiled_calls_have_the_bits_of_eager_ones():
    x, ids, shares = tokens()
    torch._dynamo.reset()
    layers = [ExpertLayer(*weights(), recipe=recipe) for recipe in ("1x128", "1x128", "bf16:mxfp4")]
    for layer in (layers[0], layers[1].quantized(), layers[2].quantized()):
        compiled = torch.compile(layer.tokens, backend="aot_eager", fullgraph=True)
        assert same([compiled(x, ids, shares)], [layer.tokens(x, ids, shares)])


def test_quantized_weights_refuse_gradients():
    x, ids, shares = tokens()
    layer = ExpertLayer(*weights()).quantized()
    for given in ((x.requires_grad_(), ids, shares), (x.detach(), ids, shares.requires_grad_())):
        with pytest.raises(ValueError, match="requires a gradient|requires_grad"):
            layer.tokens(*given)


def test_probes_are_large_enough_to_see_limits():
    """A limit that no probe reaches would not be seen."""
    assert _units._probes(2).abs().max() > 5000


def test_held_weights_keep_their_strides_and_memory():
    """A quantizer's scales may be padded, as a kernel wants them."""
    q = tw.quantize(normal(EXPERTS, 2 * INNER, HIDDEN), "row")
    padded = torch.zeros(EXPERTS, 2 * INNER + 8)[:, : 2 * INNER]
    padded.copy_(q.scales.view(padded.shape))
    up = tw.Quantized(q.values, "row", padded.view(q.scales.shape) if q.scales.dim() == 2 else padded[..., None])
    layer = ExpertLayer(up, tw.quantize(normal(EXPERTS, HIDDEN, INNER), "row"), activations="row")
    module = torch.nn.Module()
    _holding.hold(module, layer)
    held = _holding.held(module.half(), layer)
    assert held.up.scales.stride() == up.scales.stride() and held.up.values.data_ptr() == up.values.data_ptr()
    assert same([held.up.dequantize()], [q.dequantize()])
    x, ids, shares = tokens()
    assert same([held.tokens(x, ids, shares)], [layer.tokens(x, ids, shares)])
    assert not module.state_dict()
    _holding.drop(module)
    assert not list(module.buffers())
