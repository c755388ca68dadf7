"""Units other than SwiGLU in training: the library's unit and gradient against float64, and the bits of whole steps."""

import math

import pytest

torch = pytest.importorskip("torch", reason="needs torch: tools/setup torch=yes, or pip install torch")

from test_torch_moe import HIDDEN, INNER, UNITS, activated, gradients_of, ids_of, tensors  # noqa: E402
from tilewright import _core  # noqa: E402
from tilewright.torch import RECIPES, _operators, moe  # noqa: E402
from torch_layers import DEVICES, normal, one_thread, same  # noqa: E402, F401

ROWS, EXISTING = 40, 33
FORMS = [*UNITS.items(), ("swiglu", {}), ("situ", {}), ("situ", {"gate_bound": 0.5, "up_bound": math.inf})]
OTHERS = [kind for kind in UNITS if kind != "swiglu"]


def gates_of(kind):
    return 1 if kind == "relu_squared" else 2


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("inner", [INNER, 50])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("kind, numbers", FORMS)
def test_units_and_their_gradients_are_those_of_float64(kind, numbers, interleaved, inner, device):
    """Within 2^-16 of the size of the inputs, as the gates of docs/numerics.md widen the range of h."""
    columns = gates_of(kind) * inner
    gate_up = (3 * normal(ROWS, columns)).bfloat16()
    gate_up[0, :4] = torch.tensor([0.0, -0.0, 100.0, -100.0])
    d_h = normal(ROWS, inner, seed=1).bfloat16()
    order = torch.arange(columns).view(2, inner).T.flatten() if interleaved and kind != "relu_squared" else torch.arange(columns)
    exact = gate_up.double().requires_grad_()
    h = activated(exact, kind, **numbers)
    h.backward(d_h.double())
    gate, up = exact.detach().abs().chunk(2, dim=-1) if kind != "relu_squared" else (exact.detach().abs(), exact.detach().abs())
    size = (1 + gate) * (1 + up) * 2.0**-16
    unit = {"activation": kind, "interleaved": interleaved, **numbers}
    ends = torch.tensor([5, 5, EXISTING], dtype=torch.int32, device=device)
    given, there = gate_up[:, order].contiguous().to(device), slice(0, EXISTING)
    made = _core.activate(given, ends, unit)
    assert made.dtype == torch.float32 and made.shape == (ROWS, inner)
    assert ((made.cpu().double() - h.detach()).abs() <= size)[there].all()
    gradient = _core.unit_gradient(given, d_h.to(device), ends, unit)
    assert gradient.dtype == torch.float32 and gradient.shape == given.shape
    far = (gradient.cpu().double() - exact.grad[:, order]).abs()
    limit = (size * d_h.double().abs()).repeat(1, gates_of(kind))[:, order]
    assert (far <= limit)[there].all(), (far / limit)[there].max()
    assert torch.equal(_core.activate(given, None, unit)[there], made[there])
    assert torch.equal(_core.unit_gradient(given, d_h.to(device), None, unit)[there], gradient[there])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", OTHERS)
def test_special_numbers_stay_special(kind, device):
    """Infinite gates have the limit of the slope; NaN stays NaN, always the same one."""
    gate_up = torch.ones(4, gates_of(kind) * 8, dtype=torch.bfloat16)
    gate_up[:3, 0] = torch.tensor([math.inf, -math.inf, math.nan])
    d_h = torch.ones(4, 8, dtype=torch.bfloat16)
    d_h[3, 1] = math.nan
    made = _core.unit_gradient(gate_up.to(device), d_h.to(device), None, {"activation": kind}).cpu()
    assert made[0, 0] == (1 if kind == "geglu" else math.inf) or (kind == "situ" and 0 <= made[0, 0] < 1e-30)
    assert abs(made[1, 0]) < 1e-30
    codes = made[[2, 3], [0, 1]].view(torch.int32)
    assert codes.tolist() == [0x7FFFFFFF] * 2 and int(made.isnan().sum()) == 2 * gates_of(kind)


@pytest.mark.parametrize("device", DEVICES)
def test_a_gate_of_minus_zero_is_zero_for_relu(device):
    """A GPU's maximum of -0 and 0 is 0."""
    gate_up, d_h = -torch.zeros(1, 8, dtype=torch.bfloat16), torch.ones(1, 8, dtype=torch.bfloat16)
    made = _core.unit_gradient(gate_up.to(device), d_h.to(device), None, {"activation": "relu_squared"}).cpu()
    assert made.view(torch.int32).tolist() == [[0] * 8]


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("kind", OTHERS)
def test_training_has_the_bits_of_the_one_call(kind, recipe):
    for at in ("combine", "activation"):
        x, weights, up, down, up_bias, down_bias = tensors(gates=gates_of(kind), biases=True)
        options = {"activation": kind, "recipe": recipe, "weights_at": at, "up_bias": up_bias, "down_bias": down_bias, **UNITS[kind]}
        made = moe(x, ids_of(), weights, up, down, **options)
        with torch.no_grad():
            assert torch.equal(moe(x, ids_of(), weights, up, down, **options), made)


@pytest.mark.parametrize("kind", UNITS)
def test_each_gradient_of_a_unit_alone_has_the_bits_of_all(kind):
    given, d_out = tensors(gates=gates_of(kind), biases=True), normal(len(ids_of()), HIDDEN, seed=9)

    def call(x, weights, up, down, up_bias, down_bias):
        return moe(x, ids_of(), weights, up, down, activation=kind, up_bias=up_bias, down_bias=down_bias, **UNITS[kind])

    whole = gradients_of(lambda: call(*given), given, d_out)
    for wanted in range(len(given)):
        own = [tensor.detach().requires_grad_(i == wanted) for i, tensor in enumerate(given)]
        call(*own).backward(d_out)
        assert torch.equal(own[wanted].grad, whole[1 + wanted])


@pytest.mark.skipif(not _operators.AVAILABLE, reason="needs torch 2.4 or newer")
@pytest.mark.parametrize("kind", OTHERS)
def test_compiled_steps_of_a_unit_have_the_bits_of_eager_ones(kind):
    torch._dynamo.reset()
    given, ids, d_out = tensors(gates=gates_of(kind), biases=True), ids_of(), normal(len(ids_of()), HIDDEN, seed=9)

    def call(x, weights, up, down, up_bias, down_bias):
        return moe(x, ids, weights, up, down, activation=kind, up_bias=up_bias, down_bias=down_bias, **UNITS[kind])

    compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
    assert same(gradients_of(lambda: compiled(*given), given, d_out), gradients_of(lambda: call(*given), given, d_out))


def test_wrong_calls_name_the_operand():
    gate_up, d_h = torch.zeros(4, 16, dtype=torch.bfloat16), torch.zeros(4, 8, dtype=torch.bfloat16)
    ends = torch.tensor([4], dtype=torch.int32)
    unit = {"activation": "geglu"}
    wrong = [
        (lambda: _core.activate(gate_up.float(), ends, unit), "^gate_up: got f32; expected bf16"),
        (lambda: _core.activate(gate_up[0], ends, unit), r"^gate_up: got \[16\]"),
        (lambda: _core.activate(gate_up[:, :15].contiguous(), ends, unit), "^gate_up: got"),
        (lambda: _core.activate(gate_up, ends.long(), unit), "^ends: got i64; expected i32"),
        (lambda: _core.activate(gate_up, ends[:0], unit), r"^ends: got .*; expected \[experts\]"),
        (lambda: _core.activate(gate_up, ends, {"activation": "situ", "gate_bound": 0.0}), "^unit.gate_bound"),
        (lambda: _core.unit_gradient(gate_up, d_h.float(), ends, unit), "^gradient: got f32; expected bf16"),
        (lambda: _core.unit_gradient(gate_up, d_h[:, :7].contiguous(), ends, unit), "^gate_up: got .*the gates and ups of gradient's features"),
        (lambda: _core.unit_gradient(gate_up, d_h, ends, {"activation": "relu_squared"}), "^gate_up: got"),
        (lambda: _core.unit_gradient(gate_up.T.contiguous().T, d_h, ends, unit), "^gate_up.strides"),
    ]
    for call, text in wrong:
        with pytest.raises(ValueError, match=text):
            call()
    assert _core.unit_gradient(gate_up[:0], d_h[:0], ends, unit).shape == (0, 16)
