"""fp8 copies of weights in tilewright.torch: when they are kept, when they are made anew, and weights that have no memory."""

import copy
import io

import pytest

torch = pytest.importorskip("torch", reason="needs torch: apt-get install python3-torch, or pip install torch")

from tilewright.torch import RECIPES, GroupedLinear, Linear, _checks, _weights, grouped_linear, linear  # noqa: E402
from tilewright.torch._weights import WeightCache  # noqa: E402
from torch_layers import normal, same, step  # noqa: E402


def test_copies_of_weights_follow_the_version_counter():
    layer = Linear(32, 32, bias=False, recipe="row")
    x = normal(8, 32)
    first = layer(x)
    made = layer._cache._forward
    assert torch.equal(layer(x), first) and layer._cache._forward is made
    with torch.no_grad():
        layer.weight.mul_(2)
    assert torch.equal(layer(x), 2 * first)
    layer.weight.data.mul_(2)  # not counted
    assert torch.equal(layer(x), 2 * first)
    layer.refresh()
    assert torch.equal(layer(x), 4 * first)
    layer.weight.data = layer.weight.data / 4  # another address
    assert torch.equal(layer(x), first)


def test_copies_for_dgrad_are_made_when_x_wants_a_gradient():
    layer = Linear(32, 32, bias=False, recipe="row")
    layer(normal(8, 32))
    forward = layer._cache._forward
    assert layer._cache._dgrad is None
    x = normal(8, 32).requires_grad_()
    layer(x).sum().backward()
    assert x.grad.any() and layer._cache._dgrad is not None and layer._cache._forward is forward


def test_another_weight_at_the_same_address():
    """Versions count from 0 in each tensor, and allocators give an address again."""
    x, cache, seen = normal(8, 64), WeightCache(), set()
    for factor in range(1, 20):
        w = normal(64, 64, seed=1) * factor
        seen.add(w.data_ptr())
        assert torch.equal(linear(x, w, recipe="row", cache=cache), linear(x, w, recipe="row"))
        del w
    assert len(seen) < 19  # else nothing was tried


def test_a_weight_that_is_put_in_its_place():
    """FSDP: the same tensor again, of which the values were written without counting."""
    layer = Linear(32, 32, bias=False, recipe="row")
    x, whole = normal(8, 32), layer.weight
    first = layer(x)
    version = whole._version
    layer.weight = torch.nn.Parameter(whole.detach()[:1])
    whole.data.mul_(2)
    layer.weight = whole
    assert whole._version == version and torch.equal(layer(x), 2 * first)


def test_a_recipe_of_its_own_for_each_use_of_a_cache():
    x, w, cache = normal(8, 256), normal(64, 256, seed=1), WeightCache()
    for recipe in [*RECIPES, *RECIPES]:
        assert torch.equal(linear(x, w, recipe=recipe, cache=cache), linear(x, w, recipe=recipe))


@pytest.mark.parametrize("in_inference", [False, True])
def test_copies_of_inference_mode_serve_training(in_inference):
    with torch.inference_mode(in_inference):
        layer = Linear(32, 32, bias=False, recipe="tensor")
    x = normal(8, 32)
    with torch.inference_mode():
        first = layer(x)
        if in_inference:
            layer.weight.mul_(2)
            assert torch.equal(layer(x), 2 * first)
    if not in_inference:
        given = x.clone().requires_grad_()
        y = layer(given)
        y.sum().backward()
        assert torch.equal(y, first) and given.grad.any()


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_copies_of_layers_have_weights_of_their_own(how):
    layer = GroupedLinear(2, 32, 16)
    x, ends = normal(8, 32), torch.tensor([3, 8])
    first = layer(x, ends)
    if how == "deepcopy":
        other = copy.deepcopy(layer)
    else:
        file = io.BytesIO()
        torch.save(layer, file)
        assert len(file.getvalue()) < 4 * layer.weight.numel() + 5000  # no fp8
        file.seek(0)
        other = torch.load(file, **({"weights_only": False} if hasattr(torch, "compile") else {}))
    assert other._cache is not layer._cache and torch.equal(other(x, ends), first)
    with torch.no_grad():
        other.weight.zero_()
    assert not other(x, ends).any() and torch.equal(layer(x, ends), first)


def test_graphs_that_are_captured_make_copies_of_their_own(monkeypatch):
    """A replay runs no Python: the quantiser has to be in the graph, and what a replay writes is not counted."""
    layer = Linear(32, 32, bias=False, recipe="row")
    x = normal(8, 32)
    first = layer(x)
    made, calls = layer._cache._forward, []
    counted = lambda *given: calls.append(given) or copy_of(*given)
    copy_of = _weights.copy_of
    monkeypatch.setattr(_weights.forward_copy, "__defaults__", (counted,))
    assert torch.equal(layer(x), first) and layer._cache._forward is made and not calls
    monkeypatch.setattr(_weights, "is_captured", lambda w: True)
    for count in (1, 2):
        assert torch.equal(layer(x), first) and layer._cache._forward is None and len(calls) == count
    monkeypatch.setattr(_weights, "is_captured", lambda w: False)
    layer.weight.data.mul_(2)  # as a replay does
    assert torch.equal(layer(x), 2 * first)


@pytest.mark.parametrize("recipe", RECIPES)
def test_weights_that_are_quantised_again_in_backward(recipe):
    """FSDP: freed after forward, there again, elsewhere perhaps, before backward. The bits are those of copies that are kept."""
    x, dy, ends = normal(200, 160), normal(200, 144, seed=2), torch.tensor([77, 77, 190])
    layer = GroupedLinear(3, 160, 144, recipe=recipe)
    expected = step(layer, x, dy, ends)

    given = x.clone().requires_grad_()
    w = layer.weight.detach().clone().requires_grad_()
    y = grouped_linear(given, w, ends, recipe=recipe, requantize=True)
    values, storage = w.detach().clone(), _checks.storage(w)
    storage.resize_(0)
    with pytest.raises(ValueError, match=r"^w: a tensor \[3, 144, 160\] whose storage was freed given, one with memory expected; FSDP"):
        y.backward(dy, retain_graph=True)
    taken = torch.empty_like(values)  # the old address, if the allocator gives it
    storage.resize_(4 * values.numel())
    w.data.copy_(values)
    y.backward(dy)
    assert same([y.detach(), given.grad, w.grad], expected) and taken.shape == w.shape


@pytest.mark.parametrize("name", ["x", "w", "bias", "main_grad"])
@pytest.mark.parametrize("cached", [False, True])
def test_a_storage_that_is_freed_is_named(name, cached):
    given = {"x": normal(8, 32), "w": normal(16, 32).requires_grad_(), "bias": normal(16), "main_grad": torch.zeros(16, 32)}
    cache = WeightCache() if cached else None
    linear(**given, cache=cache)
    _checks.storage(given[name]).resize_(0)
    with pytest.raises(ValueError, match=f"^{name}: a tensor .* whose storage was freed given, one with memory expected; FSDP"):
        linear(**given, cache=cache).sum().backward()


class DTensor(torch.Tensor):
    device_mesh = placements = ()

    """Of another library, by its name: the real one needs torch 2.4 and is in test_torch_fsdp.py."""


@pytest.mark.parametrize("name", ["x", "w", "ends", "bias", "main_grad"])
def test_a_shard_is_named(name):
    given = {"x": normal(6, 32), "w": normal(2, 16, 32), "ends": torch.tensor([2, 6])}
    given.update(bias=normal(2, 16), main_grad=torch.zeros(2, 16, 32))
    given[name] = given[name].as_subclass(DTensor)
    with pytest.raises(ValueError, match=rf"^{name}: a DTensor, .* in shards given, a tensor that is whole and here expected; FSDP"):
        grouped_linear(**given)


def test_a_module_of_which_the_weight_was_sharded_keeps_no_copies_for_backward():
    layer = Linear(32, 16, bias=False)
    whole = layer.weight
    del layer.weight
    layer.weight = torch.nn.Parameter(whole.detach()).as_subclass(DTensor)
    del layer.weight
    layer.weight = whole
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        layer(normal(8, 32).requires_grad_())
    assert any(tensor is whole for tensor in kept) and not any(tensor.shape == (16, 32) for tensor in kept if tensor is not whole)
