"""Frozen layers of tilewright.torch: one fp8 copy of W serves all calls, eager and compiled, until it is refreshed."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="needs torch: tools/setup torch=yes, or pip install torch")

from tilewright.torch import RECIPES, GroupedLinear, Linear, _operators, _weights, linear  # noqa: E402
from torch_layers import DEVICES, normal, one_thread, step  # noqa: E402, F401

compiles = pytest.mark.skipif(not _operators.AVAILABLE, reason="needs torch 2.4 or newer")


def layer_of(grouped, recipe="1x128", device="cpu", **options):
    torch.manual_seed(0)
    options.update(bias=True, recipe=recipe, device=device)
    return GroupedLinear(2, 160, 144, **options) if grouped else Linear(160, 144, **options)


def inputs(grouped, device="cpu"):
    return [normal(40, 160, device=device), *[torch.tensor([13, 37], device=device)] * grouped]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("grouped", [False, True])
def test_the_copy_stays_until_it_is_made_anew(grouped, recipe, mode, device):
    layer, given = layer_of(grouped, recipe, device), inputs(grouped, device)
    with mode():
        first = layer(*given)
        layer.freeze()
        places = [layer.frozen_values.data_ptr(), layer.frozen_scales.data_ptr()]
        assert torch.equal(layer(*given), first)
    with torch.no_grad():
        layer.weight.mul_(2)  # torch counts it, but nothing checks
        assert torch.equal(layer(*given), first)
        layer.refresh()
        assert [layer.frozen_values.data_ptr(), layer.frozen_scales.data_ptr()] == places
        frozen = layer(*given)
        layer.unfreeze()
        assert torch.equal(frozen, layer(*given)) and not torch.equal(frozen, first)


def test_nothing_is_quantised_by_calls(monkeypatch):
    layer, x = layer_of(False), inputs(False)[0]
    layer.freeze()
    monkeypatch.setattr(_weights, "_pair", None)
    with torch.no_grad():
        layer(x)


@compiles
@pytest.mark.parametrize("grouped", [False, True])
def test_compiled_calls_quantise_nothing_and_follow_refresh(grouped):
    torch._dynamo.reset()
    layer, given, seen = layer_of(grouped), inputs(grouped), []

    def backend(graph, inputs):
        seen.append([str(node.target) for node in graph.graph.nodes if "tilewright" in str(node.target)])
        return graph.forward

    layer.freeze()
    compiled = torch.compile(layer, backend=backend, fullgraph=True)
    with torch.no_grad():
        assert torch.equal(compiled(*given), layer(*given))
        layer.weight.mul_(2)
        layer.refresh()
        assert torch.equal(compiled(*given), layer(*given))
        assert len(seen) == 1 and [name.split(".")[1] for name in seen[0]] == ["linear"]
        layer.unfreeze()
        layer.weight.mul_(2)
        assert torch.equal(compiled(*given), layer(*given)) and len(seen) == 2


@pytest.mark.parametrize("name", ["x", "w", "bias"])
def test_whoever_wants_a_gradient_is_told(name):
    layer, x = layer_of(False), inputs(False)[0]
    layer.freeze()
    layer.requires_grad_(False)
    {"x": x, "w": layer.weight, "bias": layer.bias}[name].requires_grad_()
    message = (
        f"{name}: got a tensor that requires a gradient; expected a call under torch.no_grad() or "
        "torch.inference_mode(), because the layer is frozen. Call unfreeze() to train."
    )
    with pytest.raises(ValueError) as raised:
        layer(x)
    assert str(raised.value) == message
    layer.unfreeze()
    assert len(step(layer, x.detach(), normal(40, 144))) == 2 + (name != "x")


def put_another(layer, how):
    """Three times the weight in the place of the one that is frozen."""
    other = layer.weight.detach() * 3
    if how == "data":
        layer.weight.data = other
    elif how == "_parameters":
        layer._parameters["weight"] = torch.nn.Parameter(other)
    elif how == "set_":
        layer.weight.set_(other)
    elif how == "swap_tensors":
        torch.utils.swap_tensors(layer.weight, torch.nn.Parameter(other))
    elif how == "view of a flat buffer":
        layer.weight.data = torch.cat([torch.zeros(7), other.flatten()])[7:].view_as(other)
    elif how == "delattr":
        del layer.weight
        layer.register_parameter("weight", torch.nn.Parameter(other))
    else:
        layer.weight = torch.nn.Parameter(other)


@compiles
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("how", ["data", "_parameters", "set_", "swap_tensors", "view of a flat buffer", "delattr", "attribute"])
def test_freezing_ends_when_another_weight_is_there(how, compiled):
    torch._dynamo.reset()
    layer, x = layer_of(False), inputs(False)[0]
    call = torch.compile(layer, backend="aot_eager", fullgraph=True) if compiled else layer
    with torch.no_grad():
        layer.freeze()
        old, first = layer.weight.data, call(x)
        put_another(layer, how)
        expected = linear(x, layer.weight.clone(), bias=layer.bias)
        assert not torch.equal(expected, first) and torch.equal(call(x), expected) and not layer.is_frozen
        layer.weight.data.mul_(2)  # not frozen: it is quantised at each call
        assert torch.equal(call(x), linear(x, layer.weight.clone(), bias=layer.bias))
        layer.refresh()
        assert layer.is_frozen == (how not in ("attribute",)), "made anew of what is there"
        layer.weight.data = old
        assert torch.equal(call(x), first)
    layer.requires_grad_(True)
    layer.unfreeze()
    assert call(x).requires_grad


@pytest.mark.parametrize("compiled", [False, True])
def test_functional_call_on_a_frozen_layer(compiled):
    torch._dynamo.reset()
    layer, x = layer_of(False), inputs(False)[0]
    layer.freeze()
    run = lambda weight, x: torch.func.functional_call(layer, {"weight": weight}, (x,))
    call = torch.compile(run, backend="aot_eager") if compiled else run
    with torch.no_grad():
        first = layer(x)
        for factor in (2, 3):
            weight = layer.weight * factor
            assert torch.equal(call(weight, x), linear(x, weight, bias=layer.bias))
            assert layer.is_frozen and torch.equal(layer(x), first)
    weight = (layer.weight.detach() * 2).requires_grad_()
    if not compiled:  # the frozen copy has no part in it, so that it may want a gradient
        run(weight, x).sum().backward()
        assert weight.grad.any()


@compiles
@pytest.mark.parametrize("compiled", [False, True])
def test_copies_that_are_checked(compiled):
    torch._dynamo.reset()
    layer, x = layer_of(False), inputs(False)[0]
    call = torch.compile(layer, backend="aot_eager", fullgraph=True) if compiled else layer
    with torch.no_grad():
        for write in (lambda w: w.mul_(2), lambda w: w.data.mul_(2), lambda w: w.view(-1)[5].neg_()):
            layer.freeze(check=True)
            before = call(x)
            write(layer.weight)
            with pytest.raises(ValueError, match=r"^w: got a weight that was written after freeze\(\);.*Call refresh\(\)"):
                call(x)
            layer.refresh()
            assert not torch.equal(call(x), before)
        layer.weight.data.mul_(2)
        layer.freeze()
        layer.weight.data.mul_(2)
        call(x)  # the caller's
        layer.to(torch.bfloat16), layer.freeze(check=True), layer.to(torch.float32)
        layer.weight.data.mul_(2)
        with pytest.raises(ValueError, match="written after freeze"):
            call(x)


def test_copies_follow_what_is_loaded_converted_or_put_in_place():
    layer, other, x = layer_of(False), layer_of(False), inputs(False)[0]
    with torch.no_grad():
        other.weight.mul_(2)
        expected = other(x)
        layer.freeze()
        assert "frozen_values" not in layer.state_dict()
        layer.load_state_dict(other.state_dict())
        assert torch.equal(layer(x), expected)
        twin = copy.deepcopy(layer)
        twin.weight.zero_()
        twin.refresh()
        assert torch.equal(layer(x), expected) and torch.equal(twin(x), twin.bias.expand(40, 144))
        kind = layer.frozen_values.dtype
        layer.bfloat16()
        other.bfloat16()
        assert layer.frozen_values.dtype == kind and torch.equal(layer(x), other(x))
        layer.weight = torch.nn.Parameter(layer.weight * 3)
        other.weight.mul_(3)
        assert layer.frozen_values is None and torch.equal(layer(x), other(x))
