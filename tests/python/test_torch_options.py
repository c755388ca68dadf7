"""The backward of a layer of tilewright.torch uses the options of its forward, on any thread."""

import pathlib
import threading

import pytest
import tilewright as tw

torch = pytest.importorskip("torch", reason="tilewright.torch works on torch tensors")

import reached_options  # noqa: E402
from reached_options import BUILT_IN, OPTIONS  # noqa: E402
from tilewright.torch import GroupedLinear, Linear, _in_force, linear  # noqa: E402
from torch_layers import normal, one_thread  # noqa: E402, F401

N, K, TOKENS, ENDS = 144, 160, 40, [10, 10, 37]
FORWARD = tuple(OPTIONS.values())


@pytest.fixture
def seen(monkeypatch):
    return reached_options.record(monkeypatch)


def in_a_thread(function):
    """As autograd does it for a GPU: a thread that knows nothing of the caller's options."""
    failed = []

    def work():
        try:
            function()
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failed, failed


def layer_of(grouped, **how):
    layer = GroupedLinear(3, K, N, **how) if grouped else Linear(K, N, **how)
    return layer, normal(TOKENS, K).requires_grad_(), [torch.tensor(ENDS)] * grouped


@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_backward_outside_of_the_block(seen, grouped, thread):
    layer, x, ends = layer_of(grouped)
    with tw.options(**OPTIONS):
        y = layer(x, *ends)
    assert seen == [FORWARD]
    in_a_thread(y.sum().backward) if thread else y.sum().backward()
    assert seen == [FORWARD] * 2 and tw.options.current() == BUILT_IN


def test_backward_inside_of_another_block(seen):
    layer, x, _ = layer_of(False)
    y = layer(x)
    with tw.options(**OPTIONS):
        y.sum().backward()
        layer(x)
    assert seen == [BUILT_IN] * 2 + [FORWARD]


def test_defaults_that_change_between_forward_and_backward(seen):
    layer, x, _ = layer_of(False)
    try:
        tw.defaults.planned_device = "h20"
        y = layer(x)
        tw.defaults.planned_device = "h100"
        y.sum().backward()
    finally:
        tw.defaults.planned_device = "automatic"
    assert seen == [(False, False, "h20")] * 2


def test_layers_of_different_options_share_one_backward(seen):
    first, x, _ = layer_of(False)
    second = Linear(N, K)
    with tw.options(planned_device="h20"):
        y = first(x)
    with tw.options(planned_device="h100"):
        y = second(y)
    seen.clear()
    in_a_thread(y.sum().backward)
    assert [device for _, _, device in seen] == ["h100", "h20"]


def test_a_device_file_goes_through_operators(seen, tmp_path):
    path = tmp_path / "mine.tsv"
    shipped = pathlib.Path(__file__).parents[2] / "src/plan/devices/h20.tsv"
    path.write_text(shipped.read_text())
    layer, x, _ = layer_of(False)
    with tw.options(planned_device=path):
        y = layer(x)
    in_a_thread(y.sum().backward)
    assert seen == [(False, False, str(path))] * 2


def test_inside_of_torch_func(seen):
    if not hasattr(torch, "func"):
        pytest.skip("needs torch 2.0 or newer")
    x, w = normal(TOKENS, K), normal(N, K, seed=1)
    with tw.options(**OPTIONS):
        _, backward = torch.func.vjp(lambda x, w: linear(x, w), x, w)
    seen.clear()
    in_a_thread(lambda: backward(torch.ones(TOKENS, N)))
    assert seen == [FORWARD]


@pytest.mark.skipif(not hasattr(torch.library, "register_autograd"), reason="needs torch 2.4 or newer")
def test_a_compiled_layer_follows_the_options_of_each_call(seen):
    """It compiles once per combination, not per call."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    layer, x, _ = layer_of(False)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)

    def step(block=None):
        seen.clear()
        if block is None:
            y = compiled(x)
        else:
            with block:
                y = compiled(x)
        in_a_thread(y.sum().backward)
        return list(seen)

    assert step() == [BUILT_IN] * 2
    for _ in range(2):
        assert step(tw.options(**OPTIONS)) == [FORWARD] * 2
        assert step() == [BUILT_IN] * 2
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2
    torch._dynamo.reset()


def test_the_bits_of_backward(rng):
    """As with the same options around both."""
    x, dy = normal(8, 2048).requires_grad_(), normal(8, 1536, seed=1)
    layer = Linear(2048, 1536)

    def gradients(outside):
        with tw.options(invariant=True):
            y = layer(x)
            if not outside:
                return torch.autograd.grad(y, (x, layer.weight), dy)
        return torch.autograd.grad(y, (x, layer.weight), dy)

    for given, expected in zip(gradients(True), gradients(False), strict=True):
        assert torch.equal(given, expected)


def test_the_word_of_options():
    words = {"00automatic": {}, "00h100-pcie": {"planned_device": "h100-pcie"}, "01automatic": {"overlap": True}}
    for word, options in words.items():
        with tw.options(**options):
            assert _in_force.word == word
    with pytest.raises(AttributeError):
        _in_force.words
