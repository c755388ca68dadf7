"""Usual calls of a layer, which go by a plan of their shapes, have the bits of the general way, and give way to it."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch: tools/setup torch=yes, or pip install torch")

from tilewright import _core  # noqa: E402
from tilewright.torch import RECIPES, GroupedLinear, Linear, _linear, grouped_linear, linear  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch_layers import normal, one_thread, same, watch_planned  # noqa: E402, F401

if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("needs a torch whose tensors can be lent (2.9)", allow_module_level=True)

N, K, TOKENS = 144, 160, 40


@pytest.fixture
def seen(monkeypatch):
    """The directions of calls that went by a plan."""
    directions = []
    watch_planned(monkeypatch, lambda direction, _: directions.append(direction))
    return directions


def general(monkeypatch):
    monkeypatch.setattr(_linear, "planned_linear", lambda *_: None)


class Observer(TorchDispatchMode):
    """Sees operators."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def results(layer, x, dy, *ends, observed=False):
    """Y and all gradients; `observed`: of an observer that comes between forward and backward."""
    x = x.detach().clone().requires_grad_()
    for parameter in layer.parameters():
        parameter.grad = None
    if getattr(layer.weight, "main_grad", None) is not None:
        layer.weight.main_grad.zero_()
    y = layer(x, *ends)
    if observed:
        with Observer():
            y.backward(dy)
    else:
        y.backward(dy)
    of_buffer = [] if getattr(layer.weight, "main_grad", None) is None else [layer.weight.main_grad.clone()]
    return [y.detach(), x.grad, *(parameter.grad for parameter in layer.parameters()), *of_buffer]


@pytest.mark.parametrize("with_main_grad", [False, True])
@pytest.mark.parametrize("keep", ["copy", "weight"])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("recipe", RECIPES)
def test_the_bits_are_those_of_the_general_way(monkeypatch, seen, recipe, grouped, keep, with_main_grad):
    """Also where an observer comes between, so that only forward goes by a plan."""
    how = {"recipe": recipe, "keep": keep, "gradient_format": "e5m2"}
    layer = GroupedLinear(3, K, N, bias=True, **how) if grouped else Linear(K, N, dtype=torch.bfloat16, **how)
    if with_main_grad:
        layer.weight.main_grad = torch.zeros(layer.weight.shape)
    ends = [torch.tensor([7, 7, 37], dtype=torch.int32)] * grouped
    x = normal(TOKENS, K, dtype=layer.weight.dtype)
    dy = normal(TOKENS, N, seed=1, dtype=layer.weight.dtype)
    ours = results(layer, x, dy, *ends)
    between = results(layer, x, dy, *ends, observed=True)
    assert seen == ([] if recipe == "row" else ["forward", "backward", "forward"])
    general(monkeypatch)
    expected = results(layer, x, dy, *ends)
    assert same(ours, expected) and same(between, expected)


@pytest.mark.parametrize("shape", [(K,), (1, K), (5, 8, K), (2, 1, 4, 5, K)], ids=str)
def test_leading_dimensions(monkeypatch, seen, shape):
    layer, x, dy = Linear(K, N, recipe="fold"), normal(*shape), normal(*shape[:-1], N, seed=1)
    ours = results(layer, x, dy)
    assert seen == ["forward", "backward"] and ours[0].shape == dy.shape and ours[1].shape == shape
    assert same(ours, results(layer, x, dy, observed=True))
    general(monkeypatch)
    assert same(ours, results(layer, x, dy))


def test_strides(monkeypatch, seen):
    """x may have gaps between rows. dY is copied where it has other strides than Y."""
    layer = Linear(K, N, recipe="1x128")
    cases = [(normal(TOKENS, 2 * K)[:, :K], normal(TOKENS, N, seed=1)), (normal(K, TOKENS).T, normal(N, TOKENS, seed=1).T)]
    cases.append((normal(TOKENS, K), torch.ones(1, 1).expand(TOKENS, N)))
    found = []
    for x, dy in cases:
        w, x = layer.weight, x.requires_grad_()
        found.append(torch.autograd.grad(layer(x), (x, w), dy))
    assert seen == ["forward", "backward"] * 3
    general(monkeypatch)
    for (x, dy), ours in zip(cases, found):
        assert same(ours, torch.autograd.grad(layer(x), (x, layer.weight), dy))


@pytest.mark.parametrize("wants", [(), ("x",), ("w",), ("bias",), ("x", "bias")], ids=str)
@pytest.mark.parametrize("recipe", RECIPES)
def test_only_what_is_wanted_is_kept_and_computed(monkeypatch, seen, recipe, wants):
    given = {"x": normal(TOKENS, K), "w": normal(N, K, seed=1), "bias": normal(N, seed=2)}
    for name in wants:
        given[name].requires_grad_()
    dy = normal(TOKENS, N, seed=3)

    def found():
        y = linear(**given, recipe=recipe)
        return [y.detach(), *(torch.autograd.grad(y, [given[name] for name in wants], dy) if wants else ())]

    ours = found()
    planned = recipe != "row" or "x" not in wants
    assert seen == (["forward", "backward"][: 1 + bool(wants)] if planned else [])
    general(monkeypatch)
    assert same(ours, found())


def test_calls_that_are_not_usual_go_the_general_way(seen):
    x, w, ends = normal(8, 32), normal(16, 32, seed=1), torch.tensor([3, 8])
    groups = normal(2, 16, 32, seed=2)
    with Observer():
        linear(x, w)
    linear(x.as_subclass(type("Special", (torch.Tensor,), {})), w)
    linear(x[:0], w)
    with torch.autograd.forward_ad.dual_level():
        linear(x, w)
    torch.func.vmap(lambda rows: linear(rows, w))(x[None])
    for wrong in (x[:, :31], x.double(), torch._neg_view(normal(8, 64)[:, ::2][:, :32])):
        with pytest.raises(ValueError, match="^x: got"):
            linear(wrong, w)
    for wrong in (torch.tensor([8, 3]), torch.tensor([3, 9]), torch.tensor([-1, 8]), torch.tensor([3]), ends.float()):
        with pytest.raises(ValueError, match="^ends: got"):
            grouped_linear(x, groups, wrong)
    with pytest.raises(ValueError, match="^promoted: got 1"):
        linear(x, w, promoted=1)
    assert seen == []
    assert torch.equal(grouped_linear(x, groups, ends)[:3], linear(x[:3], groups[0])) and seen == ["forward"] * 2


def test_backward_says_what_is_not_supported(seen):
    x, w = normal(8, 32).requires_grad_(), normal(16, 32, seed=1).requires_grad_()
    y = linear(x, w)
    with pytest.raises(ValueError, match="^dy: got a batch of gradients"):
        torch.autograd.grad(y, x, torch.ones(2, *y.shape), is_grads_batched=True, retain_graph=True)
    with pytest.raises(RuntimeError, match="second derivative"):
        torch.autograd.grad(y.sum(), x, create_graph=True)
    assert seen == ["forward"]


def test_saved_tensors_that_a_hook_replaces(monkeypatch, seen):
    """Hooks may store bytes elsewhere and bring them back as another tensor."""
    x, w = normal(TOKENS, K).requires_grad_(), normal(N, K, seed=1).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.numpy().copy(), torch.from_numpy):
        y = linear(x, w)
    ours = torch.autograd.grad(y.sum(), (x, w))
    assert seen == ["forward", "backward"]
    general(monkeypatch)
    assert same(ours, torch.autograd.grad(linear(x, w).sum(), (x, w)))


def test_a_plan_serves_calls_of_its_kind_only(seen):
    """Sizes, element types and strides of one layer's calls in turn."""
    w = normal(N, K, seed=1)
    for x in (normal(8, K), normal(9, K), normal(8, K).bfloat16(), normal(8, 2 * K)[:, :K], normal(8, K), normal(2, 4, K)):
        assert torch.equal(linear(x, w).reshape(-1, N), linear(x.reshape(-1, K).clone(), w.clone()))
    calls = _core.LinearCalls("1x128", "e4m3", True, False, "00automatic")
    assert calls.call(x, w, None, None, None).forward()[0].shape == (2, 4, N)
    assert calls.call(x, w.T, None, None, None) is None
