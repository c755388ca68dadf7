"""The modules of tilewright.torch are modules of torch: made, moved, copied, stored and parametrized as torch.nn.Linear is."""

import copy
import io
import pickle

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install torch")

from tilewright.torch import RECIPES, GroupedLinear, Linear, linear  # noqa: E402
from torch.nn.utils import parametrizations, parametrize, skip_init, weight_norm  # noqa: E402
from torch_layers import DEVICES, normal, one_thread, same, step  # noqa: E402, F401

K, N = 48, 32


def layer_of(grouped, recipe="row", **options):
    torch.manual_seed(0)
    return GroupedLinear(2, K, N, bias=True, recipe=recipe, **options) if grouped else Linear(K, N, recipe=recipe, **options)


def ends_of(grouped, device="cpu"):
    return [torch.tensor([3, 8], device=device)] * grouped


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("k", "n"), [(0, 64), (64, 0), (0, 0)])
def test_layers_without_elements(k, n, recipe, device):
    x, dy = normal(5, k, device=device), normal(5, n, seed=1, device=device)
    for dtype in (torch.float32, torch.bfloat16):
        ours, theirs = Linear(k, n, recipe=recipe, device=device, dtype=dtype), torch.nn.Linear(k, n, device=device, dtype=dtype)
        theirs.load_state_dict(ours.state_dict())
        made, expected = (step(layer, x.to(dtype), dy.to(dtype)) for layer in (ours, theirs))
        assert [part.shape for part in made] == [part.shape for part in expected]
        assert all(map(torch.allclose, made, expected)) and (n == 0 or torch.equal(made[0], expected[0]))
    for groups, ends in ((0, []), (2, [2, 4])):
        layer = GroupedLinear(groups, k, n, bias=True, recipe=recipe, device=device)
        with torch.no_grad():
            layer.bias.fill_(3)
        layer.weight.main_grad = torch.zeros_like(layer.weight)
        y, dx, dw, dbias = step(layer, x, dy, torch.tensor(ends, dtype=torch.int32, device=device))
        expected = torch.zeros(5, n, device=device)
        expected[: 4 if groups else 0] = 3
        assert torch.equal(y, expected) and not dx.any() and dx.shape == x.shape and dw.shape == layer.weight.shape
        assert groups == 0 or torch.allclose(dbias[1], dy[2:4].sum(0))
    assert Linear(k, n).bias.abs().max() == 0 if k == 0 and n else True


@pytest.mark.parametrize("compiled", [False, True])
def test_groups_and_tokens_that_are_none(compiled):
    torch._dynamo.reset()
    for layer, ends, x in ((GroupedLinear(0, K, N), [], normal(5, K)), (GroupedLinear(2, K, N), [0, 0], normal(0, K)), (Linear(0, N), None, normal(2, 3, 0))):
        call = torch.compile(layer, backend="aot_eager", fullgraph=True) if compiled else layer
        given = [] if ends is None else [torch.tensor(ends, dtype=torch.int64)]
        y, dx, dw, *rest = step(layer, x, torch.ones(*x.shape[:-1], N), *given, call=call)
        assert y.shape == (*x.shape[:-1], N) and dx.shape == x.shape and dw.shape == layer.weight.shape
        assert not dx.any() and not dw.any() and (ends is None or not y.any())


@pytest.mark.parametrize("grouped", [False, True])
def test_meta_tensors_have_shapes_and_gradients(grouped):
    for layer in (layer_of(grouped, device="meta"), layer_of(grouped).to("meta")):
        y, dx, *gradients = step(layer, torch.empty(8, K, device="meta"), torch.empty(8, N, device="meta"), *ends_of(grouped, "meta"))
        assert y.is_meta and (y.shape, dx.shape) == ((8, N), (8, K))
        assert [g.shape for g in gradients] == [p.shape for p in layer.parameters()]
    with pytest.raises(ValueError, match=r"^x: got a tensor on cpu; expected one on meta, the device of w\."):
        layer(normal(8, K), *ends_of(grouped))
    with pytest.raises(ValueError, match=r"^weight: got a tensor on meta; expected a tensor with memory\."):
        layer.freeze()


@pytest.mark.parametrize("grouped", [False, True])
def test_made_without_memory_and_filled_later(grouped):
    source, x = layer_of(grouped), normal(8, K)
    expected = source(x, *ends_of(grouped))
    frozen = layer_of(grouped)
    frozen.freeze()
    arguments = (2, K, N) if grouped else (K, N)
    made = skip_init(type(source), *arguments, True, recipe="row")
    for layer in (layer_of(grouped, device="meta"), made, frozen.to("meta"), layer_of(grouped, "row", dtype=torch.bfloat16).float()):
        layer.to_empty(device="cpu")
        assert "weight" in layer.state_dict() and len(layer.state_dict()) == 2
        layer.load_state_dict(source.state_dict())
        assert torch.equal(layer(x, *ends_of(grouped)), expected)
        assigned = layer_of(grouped, device="meta")
        assigned.load_state_dict(source.state_dict(), assign=True)
        assert torch.equal(assigned(x, *ends_of(grouped)), expected)


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "save", "state_dict"])
@pytest.mark.parametrize("frozen", [False, True])
def test_copies_go_their_own_ways(how, frozen):
    layer, x = layer_of(False), normal(8, K)
    if frozen:
        layer.freeze()
    with torch.no_grad():
        first = layer(x)
        if how == "deepcopy":
            other = copy.deepcopy(layer)
        elif how == "pickle":
            other = pickle.loads(pickle.dumps(layer))
        else:
            file = io.BytesIO()
            torch.save(layer if how == "save" else layer.state_dict(), file)
            file.seek(0)
            given = torch.load(file, weights_only=how == "state_dict")
            other = given if how == "save" else layer_of(False)
            if how == "state_dict":
                other.weight.zero_()
                if frozen:
                    other.freeze()
                other.load_state_dict(given)
        assert torch.equal(other(x), first) and other.is_frozen == layer.is_frozen == frozen
        other.weight.data.mul_(2)
        other.refresh()
        assert torch.equal(other(x) - other.bias, 2 * (first - layer.bias)) or torch.allclose(other(x), 2 * first - layer.bias, atol=1e-5)
        assert torch.equal(layer(x), first)
        if how != "state_dict":
            layer._parameters["weight"] = torch.nn.Parameter(layer.weight * 2)  # a copy that is stale is not taken along
            assert torch.equal(copy.deepcopy(layer)(x), layer(x)) and not copy.deepcopy(layer).is_frozen


@pytest.mark.parametrize("how", ["weight_norm", "old weight_norm", "spectral_norm", "own"])
def test_weights_that_are_computed(how):
    """With the gradients that torch finds for the same weight given to the function."""

    class Halved(torch.nn.Module):
        def forward(self, w):
            return w / 2

    layer, x, dy = layer_of(False), normal(8, K), normal(8, N, seed=1)
    if how == "old weight_norm":
        with pytest.warns(FutureWarning):
            layer = weight_norm(layer)
    elif how in ("weight_norm", "spectral_norm"):
        layer = getattr(parametrizations, how)(layer)
    else:
        parametrize.register_parametrization(layer, "weight", Halved())
    layer.eval()
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1, fused=True)
    for _ in range(3):
        ours = step(layer, x, dy)
        given = x.clone().requires_grad_()
        for parameter in layer.parameters():
            parameter.grad = None
        for hook in layer._forward_pre_hooks.values():  # of the old weight_norm
            hook(layer, ())
        y = linear(given, layer.weight, bias=layer.bias, recipe="row")
        y.backward(dy)
        expected = [y.detach(), given.grad, *(parameter.grad for parameter in layer.parameters())]
        assert same(ours, expected)
        optimizer.step()
    with torch.no_grad():
        before = layer(x)
        layer.freeze()
        assert torch.equal(layer(x), before)
        for parameter in layer.parameters():
            parameter.data.mul_(1.5)
        if how == "own":
            assert not torch.equal(layer(x), before), "computed anew, another weight than the frozen one"


def test_repr_says_what_differs():
    assert repr(Linear(32, 16)) == "Linear([16, 32], recipe=1x128, bias=True)"
    text = repr(GroupedLinear(2, 32, 16, recipe="row", gradient_format="e5m2", promoted=False, keep="weight"))
    assert text == "GroupedLinear([2, 16, 32], recipe=row, gradient_format=e5m2, promoted=False, keep=weight, bias=False)"
    with pytest.raises(ValueError, match=r"^keep: got 'both'; expected 'copy' or 'weight'\."):
        Linear(32, 16, keep="both")


def test_a_wrong_module_is_not_made():
    for make, text in (
        (lambda: Linear(-1, N), "in_features: got -1; expected an integer of at least 0."),
        (lambda: Linear(K, 2.0), "out_features: got 2.0; expected an integer of at least 0."),
        (lambda: GroupedLinear(True, K, N), "groups: got True; expected an integer of at least 0."),
        (lambda: Linear(K, N, dtype=torch.half), "dtype: got torch.float16; expected torch.float32 or torch.bfloat16."),
    ):
        with pytest.raises(ValueError) as caught:
            make()
        assert str(caught.value) == text
