"""reuse_weights of tilewright.torch: copies of weights serve the calls inside of the context, and no other."""

import threading

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install torch")

from tilewright import _core  # noqa: E402
from tilewright.torch import RECIPES, GroupedLinear, Linear, _autograd, _function, _reuse, _weights  # noqa: E402
from tilewright.torch import grouped_linear, linear, reuse_weights  # noqa: E402
from torch_layers import normal, one_thread, same, step, watch_planned  # noqa: E402, F401


@pytest.fixture
def made(monkeypatch):
    """For each time that W was read: whether for forward, and whether for dgrad."""
    calls, copies_of = [], _weights.copies_of
    for module in (_function, _autograd, _reuse):
        monkeypatch.setattr(module, "copies_of", lambda w, recipe, *wants: calls.append(wants[:2]) or copies_of(w, recipe, *wants))
    real = _core.linear_forward

    def forward(x, w, copy, *others):  # which makes both copies in one where it is given none
        if copy is None:
            calls.append((True, True))
        return real(x, w, copy, *others)

    monkeypatch.setattr(_core, "linear_forward", forward)
    watch_planned(monkeypatch, lambda direction, _: calls.extend([(True, True)] * (direction == "forward")))
    return calls


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("grouped", [False, True])
def test_microbatches_share_copies_that_the_caller_allows(made, grouped, recipe):
    layer = GroupedLinear(2, 64, 128, recipe=recipe) if grouped else Linear(64, 128, recipe=recipe)
    ends, dy = [torch.tensor([3, 8])] * grouped, normal(8, 128, seed=5)
    expected = [step(layer, normal(8, 64, seed=seed), dy, *ends) for seed in range(3)]
    made.clear()
    with reuse_weights():
        with torch.no_grad():
            layer(normal(8, 64), *ends)  # wants no dgrad
        ours = [step(layer, normal(8, 64, seed=seed), dy, *ends) for seed in range(3)]
    assert made.count((True, False)) == 1 and len(made) <= 2
    assert all(map(same, ours, expected))
    layer.weight.data.mul_(2)
    assert torch.equal(layer(normal(8, 64), *ends), linear_again(layer, normal(8, 64), ends))


def linear_again(layer, x, ends):
    w, bias = layer.weight.detach().clone(), layer.bias
    call = grouped_linear if ends else linear
    return call(x, w, *ends, bias=bias, recipe=layer.recipe)


def test_copies_are_dropped_when_the_context_ends(made):
    layer, x = Linear(32, 32, bias=False, recipe="row"), normal(8, 32)
    with pytest.raises(KeyError), reuse_weights():
        first = layer(x)
        raise KeyError
    layer.weight.data.mul_(2)
    assert torch.equal(layer(x), 2 * first)
    context = reuse_weights()
    made.clear()
    for count in (1, 2):
        with context:
            layer(x), layer(x)
        assert len(made) == count
    with reuse_weights():
        with reuse_weights():
            layer(x)
        layer(x)
    assert len(made) == 3, "a context inside of another one uses its copies, and leaves them"
    assert not _reuse._STORES.get()


def test_a_write_inside_is_refused_if_torch_counts_it():
    """The caller must avoid writes that torch does not count. Another tensor is another weight."""
    layer, x = Linear(32, 32, bias=False, recipe="row"), normal(8, 32)
    with reuse_weights():
        first = layer(x)
        layer.weight.data.mul_(2)
        assert torch.equal(layer(x), first)
        layer.weight.data = layer.weight.data * 2
        assert torch.equal(layer(x), 4 * first)
        assert torch.equal(torch.func.functional_call(layer, {"weight": layer.weight * 2}, (x,)), 8 * first)
        with torch.no_grad():
            layer.weight.mul_(2)
        with pytest.raises(ValueError, match=r"^w: got a weight that was written after reuse_weights\(\) quantized it;"):
            layer(x)
    assert torch.equal(layer(x), 8 * first)


def test_weights_that_come_and_go_inside_are_told_apart():
    """Allocators give an address again. Here each weight has the address of its predecessor."""
    x, first = normal(8, 64), normal(64, 64, seed=1)
    memory = bytearray(first.nbytes)
    with reuse_weights():
        for factor in range(1, 20):
            w = torch.frombuffer(memory, dtype=first.dtype).view(64, 64)
            w.copy_(first * factor)
            w = torch.frombuffer(memory, dtype=first.dtype).view(64, 64)  # as if it had never been written
            assert torch.equal(linear(x, w, recipe="row"), linear(x, w.clone(), recipe="row"))
            del w


def test_each_use_of_a_weight_has_its_recipe_and_each_thread_its_context(made):
    x, w = normal(8, 256), normal(64, 256, seed=1)
    expected = {recipe: linear(x, w, recipe=recipe) for recipe in RECIPES}
    found = []
    with reuse_weights():
        for recipe in [*RECIPES, *RECIPES]:
            assert torch.equal(linear(x, w, recipe=recipe), expected[recipe])
        made.clear()
        thread = threading.Thread(target=lambda: found.append((linear(x, w, recipe="row"), _reuse._STORES.get())))
        thread.start()
        thread.join()
    assert len(made) == 1 and torch.equal(found[0][0], expected["row"]) and found[0][1] == ()


def test_eight_threads_in_contexts_of_their_own():
    layer, x, wrong = Linear(64, 64, recipe="row"), normal(8, 64), []
    expected = layer(x)

    def work():
        for _ in range(20):
            with reuse_weights():
                wrong.extend(1 for _ in range(3) if not torch.equal(layer(x), expected))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("in_inference", [False, True])
def test_copies_of_inference_mode_serve_training(in_inference):
    with torch.inference_mode(in_inference):
        layer = Linear(32, 32, bias=False, recipe="tensor")
    x = normal(8, 32)
    with reuse_weights():
        with torch.inference_mode():
            first = layer(x)
        if not in_inference:
            given = x.clone().requires_grad_()
            y = layer(given)
            y.sum().backward()
            assert torch.equal(y, first) and given.grad.any()
        with torch.inference_mode():
            assert torch.equal(layer(x), first)


def test_weights_that_keep_themselves_are_not_reused(made):
    """Nothing of a shard that was gathered may stay."""
    layer, x = Linear(32, 32, recipe="row", keep="weight"), normal(8, 32).requires_grad_()
    with reuse_weights():
        for _ in range(2):
            layer(x).sum().backward()
    assert made == [(True, False), (False, True)] * 2


def test_a_graph_that_is_captured_takes_no_copies_from_outside_and_leaves_none(made, monkeypatch):
    """Its replays run later. A context within the captured part serves that part."""
    layer, x = Linear(32, 32, recipe="row"), normal(8, 32)
    captures = lambda yes: monkeypatch.setattr(_reuse, "_captures", lambda w=None: yes)
    with reuse_weights():
        layer(x)
        captures(True)
        made.clear()
        layer(x), layer(x)
        assert len(made) == 2
        with reuse_weights():
            layer(x), layer(x)
            assert len(made) == 3
            captures(False)
            layer(x), layer(x)
            assert len(made) == 5
