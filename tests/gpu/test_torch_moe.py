"""`tilewright.torch.Experts` on a Hopper GPU: captured steps, training's bits against the one call, bytes held, the CPU's gradients and units."""

import gc

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

from tilewright import _core  # noqa: E402
from tilewright.torch import RECIPES, Experts  # noqa: E402
from torch_layers import error, kept_of_w, kept_of_x, normal, same  # noqa: E402

EXPERTS, K, HIDDEN, INNER, TOKENS = 6, 2, 256, 384, 300
OTHERS = ["situ", "geglu", "relu_squared"]
CALLS = [*((recipe, "swiglu") for recipe in RECIPES), *(("1x128", kind) for kind in OTHERS), ("fold", "situ")]


def layer_of(recipe, **options):
    torch.manual_seed(0)
    return Experts(EXPERTS, HIDDEN, INNER, recipe=recipe, device="cuda", **options)


def inputs(seed=0):
    """x, experts, weights and the gradient of the result. Some choices name no expert, and one expert is hot."""
    random = torch.Generator().manual_seed(seed)
    chosen = torch.randint(-1, EXPERTS + 1, (TOKENS, K), generator=random)
    chosen[: TOKENS // 2, 0] = seed % EXPERTS
    x, d_y = normal(TOKENS, HIDDEN, seed=seed), normal(TOKENS, HIDDEN, seed=seed + 1)
    weights = normal(TOKENS, K, seed=seed + 2).sigmoid()
    return x.cuda().bfloat16(), chosen.cuda(), weights.cuda(), d_y.cuda().bfloat16()


def step(layer, x, chosen, weights, d_y):
    x, weights = x.detach().clone().requires_grad_(), weights.detach().clone().requires_grad_()
    for parameter in layer.parameters():
        parameter.grad = None
    y = layer(x, chosen, weights)
    y.backward(d_y)
    return [y.detach(), x.grad, weights.grad, *(parameter.grad for parameter in layer.parameters())]


@pytest.mark.parametrize("with_main_grad", [False, True])
@pytest.mark.parametrize("recipe, activation", CALLS)
def test_a_step_is_captured_and_replayed(recipe, activation, with_main_grad):
    """Replays follow other tokens, another routing and other weights, with the bits of eager calls."""
    layer = layer_of(recipe, activation=activation)
    if with_main_grad:
        layer.up.main_grad, layer.down.main_grad = torch.zeros_like(layer.up), torch.zeros_like(layer.down)
    given = [tensor.clone() for tensor in inputs()]
    given[0].requires_grad_()
    given[2].requires_grad_()

    def captured():
        for tensor in (given[0], given[2], *layer.parameters()):
            tensor.grad = None
        y = layer(*given[:3])
        y.backward(given[3])
        return [y.detach(), given[0].grad, given[2].grad, *(parameter.grad for parameter in layer.parameters())]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        captured()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = captured()
    for seed in (10, 21, 32):
        new = inputs(seed)
        with torch.no_grad():
            for tensor, value in zip(given, new):
                tensor.copy_(value)
            layer.up.mul_(0.9)
        for weight in (layer.up, layer.down) if with_main_grad else ():
            weight.main_grad.zero_()
        graph.replay()
        torch.cuda.synchronize()
        ours = [tensor.clone() for tensor in made]
        main_grads = [weight.main_grad.clone() for weight in (layer.up, layer.down)] if with_main_grad else []
        for weight in (layer.up, layer.down) if with_main_grad else ():
            weight.main_grad.zero_()
        assert same(ours, step(layer, *new))
        assert all(map(torch.equal, main_grads, (layer.up.main_grad, layer.down.main_grad) if with_main_grad else ()))


@pytest.mark.parametrize("at", ["combine", "activation", "input"])
@pytest.mark.parametrize("recipe, activation", CALLS)
def test_training_has_the_bits_of_the_one_call(recipe, activation, at):
    layer = layer_of(recipe, activation=activation, weights_at=at, dtype=torch.bfloat16)
    x, chosen, weights, d_y = inputs()
    made = step(layer, x, chosen, weights, d_y)
    with torch.no_grad():
        assert torch.equal(layer(x, chosen, weights), made[0])
        layer.freeze()
        assert torch.equal(layer(x, chosen, weights), made[0])


@pytest.mark.parametrize("recipe, activation", CALLS)
def test_gradients_are_near_those_of_the_cpu(recipe, activation):
    layer, given = layer_of(recipe, activation=activation, bias=True), inputs()
    made = step(layer, *given)
    expected = step(layer.cpu(), *(tensor.cpu() for tensor in given))
    assert all(error(mine, other.double()) < 0.03 for mine, other in zip(made, expected))


@pytest.mark.parametrize("inner", [INNER, 50, 2500])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("kind", ["swiglu", *OTHERS])
def test_units_and_their_gradients_have_the_bits_of_the_cpu(kind, interleaved, inner):
    gate_up = (3 * normal(TOKENS, inner * (1 if kind == "relu_squared" else 2))).bfloat16()
    gate_up[:4, 0] = torch.tensor([float("inf"), -float("inf"), float("nan"), -0.0])
    d_h, existing = normal(TOKENS, inner, seed=1).bfloat16(), TOKENS - 9
    ends = torch.tensor([7, 7, existing], dtype=torch.int32)
    for numbers in ({}, {"alpha": 1.702, "beta": 1.0, "limit": 0.5, "gate_bound": 1.5, "up_bound": float("inf")}):
        unit = {"activation": kind, "interleaved": interleaved, **numbers}
        for call in (lambda *given: _core.activate(given[0], given[2], unit), lambda *given: _core.unit_gradient(*given, unit)):
            ours, expected = call(gate_up.cuda(), d_h.cuda(), ends.cuda()), call(gate_up, d_h, ends)
            assert torch.equal(ours.cpu().view(torch.int32)[:existing], expected.view(torch.int32)[:existing])


@pytest.mark.parametrize("recipe", RECIPES)
def test_bytes_that_a_call_holds(recipe):
    """Between forward and backward, as docs/torch.md states them and torch's allocator counts them: in steps of 512 bytes."""
    layer, (x, chosen, weights, d_y) = layer_of(recipe), inputs()
    x.requires_grad_()
    layer(x, chosen, weights).backward(d_y)
    x.grad, layer.up.grad, layer.down.grad = None, None, None
    rows = TOKENS * K
    parts = [2 * TOKENS * HIDDEN, 2 * rows * 2 * INNER, 4 * rows, 4 * rows, 4 * rows, 4 * EXPERTS]
    parts += [*kept_of_x(recipe, EXPERTS, rows, HIDDEN), *kept_of_x(recipe, EXPERTS, rows, INNER)]
    parts += [*kept_of_w(recipe, EXPERTS, 2 * INNER, HIDDEN), *kept_of_w(recipe, EXPERTS, HIDDEN, INNER)]
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    y = layer(x, chosen, weights)
    held = torch.cuda.memory_allocated() - before
    expected = sum((part + 511) // 512 * 512 for part in parts)
    assert abs(held - expected) <= 512 * len(parts) and y.shape == x.shape
