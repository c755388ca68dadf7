"""The memory that a call of tilewright.torch holds until backward is what docs/torch.md states."""

import gc

import pytest

torch = pytest.importorskip("torch", reason="needs torch: tools/setup torch=yes, or pip install torch")

from tilewright.torch import RECIPES, grouped_linear, linear  # noqa: E402
from torch_layers import kept_of_w, kept_of_x, kept_together, normal, one_thread  # noqa: E402, F401


@pytest.fixture(autouse=True, scope="module")
def only_new_objects_are_collected():
    """torch and the tests before have a million objects, which take gc.collect() most of a second."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("x_wants", "w_wants"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("keep", ["copy", "weight"])
def test_bytes_that_are_kept(recipe, x_wants, w_wants, keep):
    """As docs/torch.md states them."""
    groups, tokens, n, k = 3, 300, 80, 160
    x, w = normal(tokens, k).requires_grad_(x_wants), normal(groups, n, k, seed=1).requires_grad_(w_wants)
    ends, kept = torch.tensor([100, 100, 300]), []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        y = grouped_linear(x, w, ends, recipe=recipe, keep=keep)
    operands = kept_of_x(recipe, groups, tokens, k) if w_wants else ()
    if keep == "copy" and x_wants:
        operands += kept_of_w(recipe, groups, n, k)
    if keep == "weight":  # w itself, which is there anyhow
        assert sum(tensor is w for tensor in kept) == x_wants
    kept = [tensor.numel() * tensor.element_size() for tensor in kept if tensor is not w]
    assert sum(kept) == sum(kept_together(recipe, x_wants, *operands)) + ends.numel() * 8
    y.sum().backward()


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("x_wants", "w_wants"), [(True, True), (True, False), (False, True)])
def test_nothing_else_is_held(grouped, recipe, x_wants, w_wants):
    """All that torch's allocator gave and did not get back, whether autograd knows of it or not. (A GPU's: tests/gpu.)"""
    groups, tokens, n, k = 3 if grouped else 1, 300, 80, 160
    x = normal(tokens, k).requires_grad_(x_wants)
    w = normal(*[groups] * grouped, n, k, seed=1).requires_grad_(w_wants)
    ends = [torch.tensor([100, 100, 300])] * grouped
    call = grouped_linear if grouped else linear
    call(x, w, *ends, recipe=recipe)
    gc.collect()
    with torch.autograd.profiler.profile(profile_memory=True, use_kineto=False) as seen:
        y = call(x, w, *ends, recipe=recipe)
        gc.collect()
    field = "self_cpu_memory_usage" if hasattr(seen.function_events[0], "self_cpu_memory_usage") else "cpu_memory_usage"
    held = sum(getattr(event, field) for event in seen.function_events)
    operands = kept_of_x(recipe, groups, tokens, k) if w_wants else ()
    operands += kept_of_w(recipe, groups, n, k) if x_wants else ()
    assert held == y.numel() * y.element_size() + sum(kept_together(recipe, x_wants, *operands))
