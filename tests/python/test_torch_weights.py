"""When a weight of tilewright.torch is quantised, by one pass; and weights that have no memory."""

import copy
import io

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install torch")

import tilewright as tw  # noqa: E402
from tilewright import _core  # noqa: E402
from tilewright.torch import RECIPES, GroupedLinear, Linear, _checks, _weights, grouped_linear, linear, reuse_weights  # noqa: E402
from torch_layers import DEVICES, normal, one_thread, same, step, watch_planned  # noqa: E402, F401


def written(layer, how):
    """Doubles the weight, so that torch counts it or not."""
    with torch.no_grad():
        if how == "counted":
            layer.weight.mul_(2)
        elif how == "data":
            layer.weight.data.mul_(2)
        elif how == "numpy":
            layer.weight.detach().numpy()[:] *= 2
        elif how == "address":
            layer.weight.data = layer.weight.data * 2
        elif how == "storage":
            layer.weight.untyped_storage().copy_((layer.weight.detach() * 2).untyped_storage())
        elif how == "parameter":
            layer._parameters["weight"] = torch.nn.Parameter(layer.weight * 2)
        else:
            layer.weight = torch.nn.Parameter(layer.weight * 2)


@pytest.mark.parametrize("how", ["counted", "data", "numpy", "address", "storage", "parameter", "module"])
@pytest.mark.parametrize("grouped", [False, True])
def test_forward_is_a_function_of_the_weight_that_is_there(grouped, how):
    layer = GroupedLinear(2, 32, 32, recipe="row") if grouped else Linear(32, 32, bias=False, recipe="row")
    x, ends = normal(8, 32), [torch.tensor([3, 8])] * grouped
    first = layer(x, *ends)
    written(layer, how)
    assert torch.equal(layer(x, *ends), 2 * first)
    given = x.clone().requires_grad_()
    layer(given, *ends).sum().backward()
    fresh = x.clone().requires_grad_()
    (grouped_linear if grouped else linear)(fresh, layer.weight.detach().clone(), *ends, recipe="row").sum().backward()
    assert torch.equal(given.grad, fresh.grad)


def test_backward_uses_the_copy_of_its_own_forward():
    """The results of microbatches in flight, each with the weights of its call."""
    layer, x, dy = Linear(64, 64, bias=False, recipe="row"), normal(8, 64), normal(8, 64, seed=1)
    before = [x.clone().requires_grad_() for _ in range(3)]
    results = []
    for given in before:
        results.append(layer(given))
        layer.weight.data.mul_(2)
    for y in reversed(results):
        y.backward(dy)
    assert torch.equal(2 * before[0].grad, before[1].grad) and torch.equal(4 * before[0].grad, before[2].grad)
    assert torch.equal(4 * results[0], results[2])


@pytest.mark.parametrize("recipe", ["row", "1x128"])
def test_a_weight_that_is_kept_may_not_change_before_backward(recipe):
    """As torch.nn.Linear's. With a copy there is nothing to refuse."""
    for keep in ("copy", "weight"):
        layer, x = Linear(32, 32, recipe=recipe, keep=keep), normal(8, 32).requires_grad_()
        y = layer(x)
        with torch.no_grad():
            layer.weight.mul_(2)
        if keep == "copy":
            y.sum().backward()
        else:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.sum().backward()


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("x_wants", [False, True])
def test_only_what_is_wanted_is_quantised(monkeypatch, recipe, x_wants):
    """One pass over W, which makes dgrad's copy where x wants a gradient and the recipe has one."""
    calls = []
    for name in ("_pair", "quantize_tokens"):
        real = getattr(_weights, name)
        monkeypatch.setattr(_weights, name, lambda *a, real=real, name=name, **k: calls.append(name) or real(*a, **k))
    forward = _core.linear_forward
    monkeypatch.setattr(_core, "linear_forward", lambda *a: calls.extend(["forward"] * (a[2] is None)) or forward(*a))
    watch_planned(monkeypatch, lambda direction, _: calls.extend(["forward"] * (direction == "forward")))
    layer, x = Linear(64, 64, recipe=recipe), normal(8, 64).requires_grad_(x_wants)
    layer(x).sum().backward()
    assert calls == ["quantize_tokens" if recipe == "row" and x_wants else "forward"]


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(144, 160), (1, 3), (3, 1024, 64), (2, 1000, 48), (3, 144, 160), (1, 5, 7), (4, 64, 128)], ids=str)
def test_one_pass_has_the_bits_of_two(shape, dtype, device):
    """And where groups would be padded too much, there are two."""
    w = normal(*shape, dtype=dtype, device=device) * torch.exp(3 * normal(shape[-2], 1, seed=1, device=device)).to(dtype)
    forward, dgrad = _weights.copies_of(w, "row", True, True)
    for (values, scales), expected in ((forward, tw.quantize(w, "row")), (dgrad, tw.quantize(w.mT, "row"))):
        assert values.shape == expected.values.shape and torch.equal(bits(values), bits(expected.values))
        assert torch.equal(scales, expected.scales)
    assert _weights.in_one_pass(w) == (len(shape) == 2 or shape[1] >= 1000)
    assert not _weights.in_one_pass(torch.zeros(3, 64, 128).mT) and not _weights.in_one_pass(torch.zeros(3, 0, 4))


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
        other = torch.load(file, weights_only=False)
    assert torch.equal(other(x, ends), first)
    with torch.no_grad():
        other.weight.zero_()
    assert not other(x, ends).any() and torch.equal(layer(x, ends), first)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n", [1008, 1024, 1040])
def test_products_of_copies_of_one_pass(n, device):
    """dgrad reads groups that are parts of one matrix; backward that quantises W again makes a matrix of each."""
    made, ends = [], torch.tensor([3, 3, 30], device=device)
    for keep in ("copy", "weight"):
        torch.manual_seed(0)
        layer = GroupedLinear(3, 96, n, recipe="row", keep=keep, device=device)
        assert _weights.in_one_pass(layer.weight)
        made.append(step(layer, normal(32, 96, device=device), normal(32, n, seed=1, device=device), ends))
    assert same(*made)


@pytest.mark.parametrize("recipe", RECIPES)
def test_weights_that_are_quantised_again_in_backward(recipe):
    """FSDP: freed after forward, there again, elsewhere perhaps, before backward. The bits are those of copies that are kept."""
    x, dy, ends = normal(200, 160), normal(200, 144, seed=2), torch.tensor([77, 77, 190])
    layer = GroupedLinear(3, 160, 144, recipe=recipe)
    expected = step(layer, x, dy, ends)

    given = x.clone().requires_grad_()
    w = layer.weight.detach().clone().requires_grad_()
    y = grouped_linear(given, w, ends, recipe=recipe, keep="weight")
    values, storage = w.detach().clone(), _checks.storage(w)
    storage.resize_(0)
    with pytest.raises(ValueError, match=r"^w: got a tensor \[3, 144, 160\] whose storage was freed; expected a tensor with memory\. FSDP"):
        y.backward(dy, retain_graph=True)
    taken = torch.empty_like(values)  # the old address, if the allocator gives it
    storage.resize_(4 * values.numel())
    w.data.copy_(values)
    y.backward(dy)
    assert same([y.detach(), given.grad, w.grad], expected) and taken.shape == w.shape


@pytest.mark.parametrize("name", ["x", "w", "bias", "main_grad"])
@pytest.mark.parametrize("reused", [False, True])
def test_a_storage_that_is_freed_is_named(name, reused):
    given = {"x": normal(8, 32), "w": normal(16, 32).requires_grad_(), "bias": normal(16), "main_grad": torch.zeros(16, 32)}
    with reuse_weights() if reused else torch.enable_grad():
        linear(**given)
        _checks.storage(given[name]).resize_(0)
        with pytest.raises(ValueError, match=rf"^{name}: got a tensor .* whose storage was freed; expected a tensor with memory\. FSDP"):
            linear(**given).sum().backward()


class DTensor(torch.Tensor):
    device_mesh = placements = ()

    """Of another library, by its name: the real one is in test_torch_fsdp.py."""


@pytest.mark.parametrize("name", ["x", "w", "ends", "bias", "main_grad"])
def test_a_shard_is_named(name):
    given = {"x": normal(6, 32), "w": normal(2, 16, 32), "ends": torch.tensor([2, 6])}
    given.update(bias=normal(2, 16), main_grad=torch.zeros(2, 16, 32))
    given[name] = given[name].as_subclass(DTensor)
    with pytest.raises(ValueError, match=rf"^{name}: got a sharded DTensor .*; expected a full local tensor\. Call the FSDP-wrapped"):
        grouped_linear(**given)


@pytest.mark.parametrize("name", ["x", "w", "bias", "main_grad"])
def test_tensors_that_are_not_one_array_are_named(name):
    given = {"x": normal(6, 32), "w": normal(16, 32), "bias": normal(16), "main_grad": torch.zeros(16, 32)}
    dense = given[name]
    for special, words in (
        (dense.to_sparse(), "a tensor of layout sparse_coo"),
        (dense.to_mkldnn(), "a tensor of layout mkldnn"),
        (torch.nested.nested_tensor([dense, dense[1:]]), "a nested tensor"),
    ):
        with pytest.raises(ValueError, match=f"^{name}: got {words}; expected (a|one) dense"):
            linear(**{**given, name: special})


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
