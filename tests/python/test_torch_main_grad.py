"""tilewright.torch adds dW to main_grad, and tells Megatron-LM's hooks so."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: tools/setup torch=yes, or pip install torch")

from tilewright.torch import RECIPES, GroupedLinear, Linear, grouped_linear  # noqa: E402
from torch_layers import DEVICES, error, normal, one_thread  # noqa: E402, F401


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("recipe", RECIPES)
def test_main_grad_is_added_to(recipe, dtype, device):
    """In one rounding; an empty group leaves its part as it is."""
    sizes, k, n = (40, 0, 90), 64, 64
    ends = torch.tensor(np.cumsum(sizes).tolist(), device=device)
    x, dy = normal(130, k, device=device), normal(130, n, seed=2, device=device)
    alone = normal(3, n, k, seed=1, device=device).requires_grad_()
    grouped_linear(x, alone, ends, recipe=recipe).backward(dy)
    w = alone.detach().clone().requires_grad_()
    before = normal(3, n, k, seed=3, dtype=dtype, device=device)
    main_grad = before.clone()
    grouped_linear(x, w, ends, recipe=recipe, main_grad=main_grad).backward(dy)
    assert not w.grad.any() and torch.equal(main_grad[1], before[1])
    exact = before.cpu().double() + alone.grad.cpu().double()
    assert main_grad.dtype == dtype and error(main_grad, exact) < (1e-6 if dtype == torch.float32 else 1.9e-3)


@pytest.mark.parametrize("grouped", [False, True])
def test_modules_find_main_grad_and_say_that_it_was_added_to(grouped):
    """As Megatron-LM's hooks ask: they add `grad` to main_grad where `grad_added_to_main_grad` is not set, and want a `grad`."""
    layer, ends = (GroupedLinear(2, 32, 32), [torch.tensor([10, 20])]) if grouped else (Linear(32, 32), [])
    layer(normal(20, 32), *ends).sum().backward()
    assert not hasattr(layer.weight, "grad_added_to_main_grad"), "without main_grad nothing was added to it"
    expected, layer.weight.grad = layer.weight.grad, None

    def hook():
        if not layer.weight.grad_added_to_main_grad:
            layer.weight.main_grad.add_(layer.weight.grad)
        layer.weight.grad = None

    layer.weight.main_grad = torch.zeros_like(layer.weight)
    for passes in (1, 2):
        layer.weight.grad_added_to_main_grad = False
        y = layer(normal(20, 32), *ends)
        assert not layer.weight.grad_added_to_main_grad, "not yet"
        y.sum().backward()
        assert layer.weight.grad_added_to_main_grad is True and not layer.weight.grad.any()
        hook()
        assert torch.equal(layer.weight.main_grad, passes * expected)


def test_main_grad_of_a_frozen_weight_is_left_alone():
    layer = Linear(32, 32)
    layer.weight.main_grad = torch.zeros_like(layer.weight)
    layer.weight.requires_grad_(False)
    layer(normal(20, 32).requires_grad_()).sum().backward()
    assert not layer.weight.main_grad.any() and not hasattr(layer.weight, "grad_added_to_main_grad")


@pytest.mark.skipif(not hasattr(torch.library, "register_autograd"), reason="needs torch 2.4 or newer")
def test_compiled_layers_say_it_too():
    layer = Linear(32, 32)
    layer.weight.main_grad, layer.weight.grad_added_to_main_grad = torch.zeros_like(layer.weight), False
    torch.compile(layer, backend="aot_eager", fullgraph=True)(normal(20, 32)).sum().backward()
    assert layer.weight.grad_added_to_main_grad is True and layer.weight.main_grad.any()
