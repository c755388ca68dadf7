"""tilewright.torch inside of torch.func: right, or refused in its own words."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install torch")

from tilewright.torch import RECIPES, GroupedLinear, Linear, linear, reuse_weights  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch_layers import DEVICES, normal, one_thread  # noqa: E402, F401

K, N, ENDS = 48, 32, [3, 8]


def layer_of(grouped, recipe="row", device="cpu"):
    torch.manual_seed(0)
    return GroupedLinear(2, K, N, bias=True, recipe=recipe, device=device) if grouped else Linear(K, N, recipe=recipe, device=device)


def loss_of(grouped, layer, device="cpu"):
    ends = [torch.tensor(ENDS, device=device)] * grouped
    return lambda parameters, x: functional_call(layer, parameters, (x, *ends)).square().sum()


def gradients_of(layer, loss, x):
    """By backward."""
    parameters = {name: parameter.detach().clone().requires_grad_() for name, parameter in layer.named_parameters()}
    x = x.clone().requires_grad_()
    loss(parameters, x).backward()
    return {name: parameter.grad for name, parameter in parameters.items()}, x.grad


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("grouped", [False, True])
def test_grad_and_gradients_of_each_sample(grouped, recipe, device):
    layer, x = layer_of(grouped, recipe, device), normal(3, 8, K, device=device)
    loss, parameters = loss_of(grouped, layer, device), {name: p.detach() for name, p in layer.named_parameters()}
    each = vmap(grad(loss, (0, 1)), (None, 0))(parameters, x)
    for i, one in enumerate(x):
        expected = gradients_of(layer, loss, one)
        for given in (grad(loss, (0, 1))(parameters, one), ({name: g[i] for name, g in each[0].items()}, each[1][i])):
            assert torch.equal(given[1], expected[1])
            assert all(torch.equal(given[0][name], expected[0][name]) for name in parameters)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_vmap_calls_for_each_entry(grouped, frozen):
    """Also where a scale is of all numbers of an entry."""
    layer, x, ends = layer_of(grouped, "tensor"), normal(3, 8, K), [torch.tensor(ENDS)] * grouped
    expected = torch.stack([layer(one, *ends) for one in x])
    with torch.no_grad() if frozen else torch.enable_grad():
        if frozen:
            layer.freeze()
        assert torch.equal(vmap(lambda one: layer(one, *ends))(x), expected)
        with reuse_weights():
            assert torch.equal(vmap(lambda one: layer(one, *ends))(x), expected)
    weights = torch.stack([layer.weight.detach() * factor for factor in (1, 2)])
    ours = vmap(lambda w: functional_call(layer, {"weight": w}, (x[0], *ends)))(weights)
    with torch.no_grad():
        assert torch.equal(ours[0], layer(x[0], *ends))
        layer.weight.mul_(2)
        layer.unfreeze()
        assert torch.equal(ours[1], layer(x[0], *ends))


def test_backward_through_vmap_and_rows_of_a_jacobian():
    x, w, dy = normal(2, 4, K).requires_grad_(), normal(N, K, seed=1).requires_grad_(), normal(2, 4, N, seed=2)
    vmap(lambda one: linear(one, w, recipe="row"))(x).backward(dy)
    found, x.grad, w.grad = (x.grad, w.grad), None, None
    for one, of in zip(x, dy):
        linear(one, w, recipe="row").backward(of)
    assert torch.equal(found[0], x.grad) and torch.allclose(found[1], w.grad, rtol=1e-5, atol=1e-6)
    y, pull = vjp(lambda x: linear(x, w.detach(), recipe="row"), x[0].detach())
    rows = jacrev(lambda x: linear(x, w.detach(), recipe="row"))(x[0].detach())
    unit = torch.zeros_like(y)
    unit[1, 2] = 1
    assert torch.equal(pull(unit)[0], rows[1, 2])


@pytest.mark.parametrize("of", ["x", "w", "bias"])
def test_no_forward_mode_gradients(of):
    given = {"x": normal(8, K), "w": normal(N, K, seed=1), "bias": normal(N)}

    def call(tensor):
        return linear(**{**given, of: tensor})

    message = rf"^({of}|x, w or bias): got a tensor with a tangent \(torch.func.jvp, jacfwd, hessian( or forward_ad)?\); expected a tensor without a tangent"
    for attempt in (lambda: jvp(call, (given[of],), (given[of],)), lambda: jacfwd(call)(given[of])):
        with pytest.raises(ValueError, match=message):
            attempt()
    with forward_ad.dual_level(), pytest.raises(ValueError, match=message):
        call(forward_ad.make_dual(given[of], given[of]))
    with pytest.raises(ValueError, match="a tensor with a tangent"):
        hessian(lambda tensor: call(tensor).square().sum())(given[of])
    with forward_ad.dual_level():
        assert call(given[of]).shape == (8, N), "without a tangent"


def test_no_second_derivatives():
    """Second derivatives are refused, and never silently zero."""
    x, w = normal(8, K), normal(N, K, seed=1)
    loss = lambda x, w: linear(x, w).square().sum()
    for second in (
        lambda: grad(lambda x: grad(loss)(x, w).sum())(x),
        lambda: grad(lambda w: grad(loss)(x, w).square().sum())(w),
        lambda: jacrev(jacrev(loss))(x, w),
        lambda: grad(loss)(x, w.clone().requires_grad_()).sum().backward(),
        lambda: grad(loss, 1)(x.clone().requires_grad_(), w).sum().backward(),
    ):
        with pytest.raises(RuntimeError, match="got a second derivative; expected first derivatives only"):
            second()


@pytest.mark.parametrize("kind", ["eager", "operator", "compiled"])
def test_no_second_derivatives_by_autograd_either(kind):
    """Also where torch would take a gradient of None for zero. Backward raises at once, because it is not differentiable."""
    torch._dynamo.reset()
    w, x = normal(N, K, seed=1).requires_grad_(), normal(8, K).requires_grad_()
    run = (lambda x: linear(x, w)) if kind != "compiled" else torch.compile(lambda x: linear(x, w), backend="eager", fullgraph=True)
    with FakeWatcher() if kind == "operator" else torch.enable_grad():
        for call in (
            lambda: torch.autograd.grad(run(x).square().sum(), x, create_graph=True),
            lambda: run(x).square().sum().backward(create_graph=True),
            lambda: torch.autograd.functional.hessian(lambda x: run(x).square().sum(), x),
            lambda: torch.autograd.functional.jvp(run, x.detach(), x.detach()),
            lambda: torch.autograd.functional.vhp(lambda x: run(x).square().sum(), x.detach(), x.detach()),
        ):
            with pytest.raises(RuntimeError, match="first derivatives only.*create_graph=True"):
                call()
        assert torch.autograd.grad(run(x).square().sum(), x)[0].any()


class FakeWatcher(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def test_many_gradients_at_once_are_named():
    x, layer = normal(8, K).requires_grad_(), layer_of(False)
    y = layer(x)
    for call in (
        lambda: torch.autograd.grad(y, x, normal(3, 8, N), is_grads_batched=True),
        lambda: torch.autograd.functional.jacobian(layer, x, vectorize=True),
    ):
        with pytest.raises(ValueError, match=r"^dy: got a batch of gradients \(is_grads_batched=True or vectorize=True\); expected one gradient\."):
            call()
    assert torch.autograd.functional.jacobian(layer, x).shape == (8, N, 8, K)


def test_what_torch_func_has_no_place_for_is_named():
    x, w = normal(8, K), normal(N, K, seed=1)
    with pytest.raises(ValueError, match=r"^main_grad: got a buffer; expected None inside of torch\.func\."):
        grad(lambda w: linear(x, w, main_grad=torch.zeros(N, K)).sum())(w)
    with pytest.raises(ValueError, match=r"^w: got \[32, 0\]; expected a weight with at least one element, inside of torch\.func\."):
        grad(lambda w: linear(x[:, :0], w).sum())(w[:, :0])
    layer = layer_of(False)
    layer.freeze()
    with pytest.raises(ValueError, match=r"^x: got a tensor that requires a gradient; .* because the layer is frozen"):
        grad(lambda x: layer(x).sum())(x)


@pytest.mark.parametrize("transform", ["grad", "vmap"])
def test_compiled_transforms(transform):
    torch._dynamo.reset()
    x, w = normal(3, 8, K), normal(N, K, seed=1)
    if transform == "grad":
        call = grad(lambda x: linear(x, w, recipe="row").square().sum())
    else:
        call = vmap(lambda x: linear(x, w, recipe="row"))
    try:
        made = torch.compile(call, backend="aot_eager")(x)
    except Exception as error:  # noqa: BLE001: torch's own, if it can't
        assert "tilewright" in str(error), "says at least whose operator it is"
        return
    assert torch.equal(made, call(x))
