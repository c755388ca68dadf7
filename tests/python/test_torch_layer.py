"""tilewright.torch: gradients against float64, groups of any size, messages."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: tools/setup torch=yes, or pip install torch")

import tilewright as tw  # noqa: E402
from tilewright.torch import RECIPES, GroupedLinear, Linear, grouped_linear, linear  # noqa: E402
from tilewright.torch import _operators  # noqa: E402
from tilewright.torch._sums import aligned_rows, sums_of_groups  # noqa: E402
from torch_layers import DEVICES, error, exact_grouped, lost_without_promotion, normal  # noqa: E402

# relative errors of fp8 products of normal numbers: 2^-4 / sqrt(3) a side, less where most numbers are small
LIMITS = {"e4m3": 0.05, "e5m2": 0.08}  # e5m2: a bit less on one side
LIMIT = LIMITS["e4m3"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("gradient_format", LIMITS)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("sizes", [(1, 0, 127, 129), (0, 0, 5), (256,), (0, 40, 0)])
def test_gradients_of_groups(recipe, gradient_format, sizes, dtype, device):
    tokens, k, n = sum(sizes) + 3, 160, 144  # three tokens of no group
    ends = np.cumsum(sizes).tolist()
    x = normal(tokens, k, dtype=dtype, device=device).requires_grad_()
    w = normal(len(sizes), n, k, seed=1, device=device).requires_grad_()
    dy = normal(tokens, n, seed=2, dtype=dtype, device=device)
    y = grouped_linear(x, w, torch.tensor(ends, device=device), recipe=recipe, gradient_format=gradient_format)
    y.backward(dy)
    assert y.dtype == x.grad.dtype == dtype and w.grad.dtype == torch.float32
    limits = (LIMIT, LIMITS[gradient_format], LIMITS[gradient_format])
    for given, exact, limit in zip((y, x.grad, w.grad), exact_grouped(x, w, ends, dy), limits):
        assert error(given.detach(), exact) < limit
    assert not y[ends[-1] :].any() and not x.grad[ends[-1] :].any()
    assert not w.grad[[i for i, size in enumerate(sizes) if size == 0]].any()


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_in_e5m2_reach_further_down(device):
    """One scale for all: of tokens, and of features, 2^-20 times the largest e4m3 keeps nothing, e5m2 does."""
    x = normal(64, 96, device=device)

    def errors_of(gradient_format):
        layer = Linear(96, 80, bias=False, recipe="tensor", gradient_format=gradient_format, device=device)
        w, given = layer.weight.detach().cpu().double(), x.clone().requires_grad_()
        by_tokens, by_features = normal(64, 80, seed=1, device=device), normal(64, 80, seed=1, device=device)
        by_tokens[32:] *= 2.0**-20
        by_features[:, 40:] *= 2.0**-20
        layer(given).backward(by_tokens)
        dx, layer.weight.grad = given.grad.clone(), None
        layer(given).backward(by_features)
        exact_dw = by_features[:, 40:].cpu().double().T @ x.cpu().double()
        return error(dx[32:], by_tokens[32:].cpu().double() @ w), error(layer.weight.grad[40:], exact_dw)

    assert min(errors_of("e4m3")) > 0.9 and max(errors_of("e5m2")) < 0.2


@pytest.mark.parametrize("device", DEVICES)
def test_folded_scales_keep_tokens_whose_gradient_is_small_where_x_is_large(device):
    """Their parts of dW are alike, dY's sizes are not: a scale for all tokens of a column leaves none of the small ones."""
    tokens, k, n = 1000, 96, 144
    sizes = torch.exp(3 * normal(tokens, 1, seed=3, device=device))
    x, dy = normal(tokens, k, device=device) * sizes, normal(tokens, n, seed=1, device=device) / sizes

    def error_of(recipe):
        w = normal(2, n, k, seed=2, device=device).requires_grad_()
        grouped_linear(x, w, torch.tensor([300, 1000], device=device), recipe=recipe).backward(dy)
        return error(w.grad, exact_grouped(x, w, [300, 1000], dy)[2])

    assert error_of("fold") < LIMIT and error_of("row") > 2 * LIMIT


@pytest.mark.parametrize("ends", [[0, 5, 5, 130, 300], [300], [128, 256]])
def test_codes_of_tokens_are_moved_to_where_groups_begin_in_columns(ends):
    codes = torch.arange(300 * 2).remainder(251).add(1).to(torch.uint8).view(300, 2)
    given = aligned_rows(codes, torch.tensor(ends))
    expected = torch.zeros((300 + 127 * len(ends)) // 128 * 128, 2, dtype=torch.uint8)
    begin = place = 0
    for end in ends:
        expected[place : place + end - begin] = codes[begin:end]
        place, begin = place + -(-(end - begin) // 128) * 128, end
    assert torch.equal(given, expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("ends", [[0, 5, 5, 130, 300], [300], [128, 256]])
def test_codes_of_tokens_become_columns_as_they_are(ends, device):
    """All 256 of them, NaN and zeros of either sign too, in the place that rows would have, with zeros in between."""
    codes = torch.arange(300 * 130, device=device).remainder(256).to(torch.uint8).view(300, 130)
    groups = torch.tensor(ends, device=device)
    columns = tw.transpose_codes(tw.Quantized(codes, "e4m3"), groups)
    begins = [0, *ends]
    last = sum(-(-(end - begin) // 128) * 128 for begin, end in zip(begins, ends))
    assert columns.recipe == "e4m3" and columns.scales is None
    assert torch.equal(columns.values[:, :last].view(torch.uint8), aligned_rows(codes, groups)[:last].T)


def test_ends_that_no_one_should_trust_move_nothing_out_of_bounds():
    codes = torch.ones(300, 2, dtype=torch.uint8)
    for ends in [[700, -5], [200, 100, 300], [-1, -1]]:
        assert aligned_rows(codes, torch.tensor(ends)).shape == ((300 + 127 * len(ends)) // 128 * 128, 2)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("recipe", RECIPES)
def test_gradients_of_a_dense_layer_with_bias(recipe, device):
    layer = Linear(96, 80, recipe=recipe, device=device)
    x = normal(3, 50, 96, device=device).requires_grad_()
    dy = normal(3, 50, 80, seed=1, device=device)
    y = layer(x)
    y.backward(dy)
    flat, dflat = x.detach().cpu().double().view(-1, 96), dy.cpu().double().view(-1, 80)
    w, b = layer.weight.detach().cpu().double(), layer.bias.detach().cpu().double()
    assert error(y.detach(), (flat @ w.T + b).view(3, 50, 80)) < LIMIT
    assert error(x.grad, (dflat @ w).view(3, 50, 96)) < LIMIT
    assert error(layer.weight.grad, dflat.T @ flat) < LIMIT
    assert error(layer.bias.grad, dflat.sum(0)) < 1e-6


@pytest.mark.parametrize("device", DEVICES)
def test_bias_of_groups(device):
    layer = GroupedLinear(3, 32, 48, bias=True, recipe="row", device=device)
    x, ends = normal(70, 32, device=device), torch.tensor([30, 30, 64], dtype=torch.int32, device=device)
    y = layer(x, ends)
    with torch.no_grad():
        without = grouped_linear(x, layer.weight, ends, recipe="row")
    added = (y - without).detach()
    expected = layer.bias.detach()[[0] * 30 + [2] * 34]
    assert error(added[:64], expected.cpu().double()) < 1e-5 and not y[64:].any()
    y.sum().backward()
    assert layer.bias.grad[:, 0].tolist() == [30, 0, 34]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_the_bias_of_groups(dtype, device):
    """Each group's own, rounded once; zeros where it has no tokens."""
    layer = GroupedLinear(4, 32, 48, bias=True, dtype=dtype, device=device)
    x, ends = normal(70, 32, dtype=dtype, device=device), torch.tensor([30, 30, 64, 64], device=device)
    dy = normal(70, 48, seed=1, dtype=dtype, device=device)
    layer(x, ends).backward(dy)
    exact = torch.stack([dy[begin:end].cpu().double().sum(0) for begin, end in zip([0, 30, 30, 64], ends.tolist())])
    assert layer.bias.grad.dtype == dtype and error(layer.bias.grad, exact) < (1e-6 if dtype == torch.float32 else 2**-8)
    assert not layer.bias.grad[[1, 3]].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(1, 0, 127, 129), (0, 0, 5), (1300,), (0, 40, 0), (128, 128, 513, 1), (300, 0, 700), (0,), ()])
def test_sums_of_groups_are_rounded_once_and_spoil_no_other_group(sizes, dtype):
    """Tokens of no group have no effect, and a NaN affects only its own group."""
    ends, n = np.cumsum(sizes, dtype=int).tolist(), 33
    dy = normal(sum(sizes) + 3, n, dtype=dtype)
    dy[:2] *= 2.0**20
    for kind in (torch.int32, torch.int64):
        given = sums_of_groups(dy, torch.tensor(ends, dtype=kind))
        exact = [dy[end - size : end].double().sum(0) for size, end in zip(sizes, ends)]
        assert torch.equal(given, torch.stack(exact).float() if exact else torch.zeros(0, n))
    dy[-3:] = float("nan")
    for group, end in enumerate(ends):
        spoiled = dy.clone()
        spoiled[end - sizes[group] : end] = float("inf")
        others = [g for g in range(len(sizes)) if g != group]
        made = sums_of_groups(spoiled, torch.tensor(ends))
        assert torch.equal(made[others], given[others]) and bool(made[group].isinf().all()) == (sizes[group] > 0)


def test_sums_of_groups_are_no_product_that_torch_may_round_to_tf32():
    from torch.utils._python_dispatch import TorchDispatchMode

    names = []

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            names.append(str(function))
            return function(*args, **(kwargs or {}))

    with Names():
        sums_of_groups(normal(300, 48), torch.tensor([30, 30, 290]))
    assert names and not any(product in name for name in names for product in ("mm", "mv", "matmul", "dot"))


def test_ends_that_no_one_should_trust_read_nothing_out_of_bounds():
    for ends in [[700, -5], [200, 100, 300], [-1, -1], [300, 0, 300, 0, 300]]:
        assert sums_of_groups(normal(300, 8), torch.tensor(ends)).shape == (len(ends), 8)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("grouped", [False, True])
def test_a_bias_is_added_before_the_one_rounding(grouped, device):
    """A sum of 257 would be 256 in bf16, and 256 + 1 as well; 258 is a number of bf16. (448: scales of 1.)"""
    x = torch.tensor([[448.0, 0, 256, 1]], dtype=torch.bfloat16, device=device)
    w, bias = torch.tensor([[0.0, 448, 1, 1]], device=device), torch.ones(1, device=device)
    if grouped:
        y = grouped_linear(x, w[None], torch.tensor([1], device=device), recipe="row", bias=bias[None])
    else:
        y = linear(x, w, recipe="row", bias=bias)
    assert y.dtype == torch.bfloat16 and y.item() == 258


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("recipe", ["row", "tensor"])
def test_all_three_sums_are_left_to_the_tensor_core(monkeypatch, recipe, grouped, watched):
    """Its 14 bits, which `bit_exact` has on a CPU, lose up to 1.6e-5 for each of 512 products that have one sign (docs/numerics.md)."""
    monkeypatch.setattr(_operators, "is_watched", lambda *given: watched and _operators.AVAILABLE)
    with tw.options(invariant=True):  # on a CPU it has the tensor core's sums
        assert all(1e-3 < lost < 1e-2 for lost in lost_without_promotion(recipe, grouped, "cpu"))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("recipe", RECIPES)
def test_the_same_bits_again(recipe, device):
    def run():
        x = normal(200, 64, device=device).requires_grad_()
        w = normal(2, 96, 64, seed=1, device=device).requires_grad_()
        y = grouped_linear(x, w, torch.tensor([77, 200], device=device), recipe=recipe)
        y.backward(normal(200, 96, seed=2, device=device))
        return y.detach(), x.grad, w.grad

    for first, second in zip(run(), run()):
        assert torch.equal(first, second)


def test_no_gradient_is_made_that_nobody_wants():
    x, w = normal(8, 32).requires_grad_(), normal(16, 32, seed=1)
    linear(x, w).sum().backward()
    assert w.grad is None and x.grad.any()
    x, w = normal(8, 32), normal(16, 32, seed=1).requires_grad_()
    linear(x, w).sum().backward()
    assert x.grad is None and w.grad.any()


X, W, ENDS = normal(6, 32), normal(2, 16, 32, seed=1), torch.tensor([2, 6])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"recipe": "mxfp4"}, "recipe: got 'mxfp4'; expected one of row, tensor, 1x128, 1x128:128x128, fold."),
        ({"gradient_format": "e3m4"}, "gradient_format: got 'e3m4'; expected one of e4m3, e5m2."),
        ({"promoted": False}, "promoted: got False; expected True with recipe '1x128', because block scales"),
        ({"promoted": False, "recipe": "fold"}, "promoted: got False; expected True with recipe 'fold'"),
        ({"promoted": "no"}, "promoted: got 'no'; expected True or False."),
        ({"x": X[:, :31]}, "x: got [6, 31]; expected [tokens, 32], because w has 32 columns."),
        ({"x": X.int()}, "x: got torch.int32; expected a tensor of float32, bfloat16 or float16."),
        ({"x": X.view(2, 3, 32)}, "x: got [2, 3, 32]; expected [tokens, 32]."),
        ({"w": W[0]}, "w: got [16, 32]; expected [groups, N, K]."),
        ({"w": W.half()}, "w: got torch.float16; expected a tensor of float32 or bfloat16."),
        ({"ends": [2, 6]}, "ends: got list; expected a tensor of int32 or int64."),
        ({"ends": ENDS.float()}, "ends: got torch.float32; expected a tensor of int32 or int64."),
        ({"ends": ENDS[:1]}, "ends: got [1]; expected [2], one per group of w."),
        ({"ends": torch.tensor([4, 3])}, "ends: got [4, 3]; expected ends that do not decrease and are at least 0. Pass cumulative ends"),
        ({"ends": torch.tensor([4, 7])}, "ends: got [4, 7]; expected ends of at most 6, the number of tokens in x."),
        ({"bias": torch.zeros(16)}, "bias: got [16]; expected [2, 16]."),
        ({"bias": torch.zeros(2, 16).half()}, "bias: got torch.float16; expected a tensor of float32 or bfloat16."),
        ({"bias": [0.0]}, "bias: got list; expected a tensor of float32 or bfloat16."),
        ({"bias": torch.zeros(2, 16, device="meta")}, "bias: got a tensor on meta; expected one on cpu, the device of w."),
        ({"main_grad": torch.zeros(2, 16, 31)}, "main_grad: got torch.float32 [2, 16, 31] on cpu; expected torch.float32 or torch.bfloat16 [2, 16, 32] on cpu, like w."),
    ],
)
def test_mistakes_are_named(changed, message):
    arguments = {"x": X, "w": W, "ends": ENDS, **changed}
    with pytest.raises(ValueError) as raised:
        grouped_linear(arguments.pop("x"), arguments.pop("w"), arguments.pop("ends"), **arguments)
    assert str(raised.value).startswith(message)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_sizes_stay_on_the_gpu():
    """No synchronisation: torch reports each one as an error."""
    layer = GroupedLinear(3, 256, 128, bias=True, device="cuda")
    x = normal(300, 256, dtype=torch.bfloat16, device="cuda").requires_grad_()
    ends = torch.tensor([100, 100, 300], device="cuda")
    layer(x, ends).sum().backward()  # what is done once
    torch.cuda.set_sync_debug_mode("error")
    try:
        layer(x, ends).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
