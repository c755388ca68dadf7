"""Requirements of compilers and CUDA graphs on tilewright.torch: shapes known in advance, and a host that reads nothing."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch: tools/setup torch=yes, or pip install torch")

from tilewright.torch import RECIPES, GroupedLinear, Linear, _checks, _operators, _sums, _weights  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch_layers import normal, one_thread, step  # noqa: E402, F401

N, K, TOKENS = 144, 160, 300
READS = {"item", "tolist", "numpy", "cpu", "nonzero", "argwhere", "equal", "allclose", "masked_select", "unique", "is_nonzero",
         "__bool__", "__int__", "__float__", "__index__", "__array__", "__contains__", "__repr__"}  # fmt: skip


class NoReads(TorchFunctionMode):
    """Fails where the host would wait for a GPU to read a number of it."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name, kwargs = getattr(function, "__name__", ""), kwargs or {}
        by_mask = name in ("__getitem__", "__setitem__") and any(
            isinstance(index, torch.Tensor) for index in (args[1] if isinstance(args[1], tuple) else (args[1],))
            if getattr(index, "dtype", None) in (torch.bool, torch.uint8)
        )  # fmt: skip
        moved = name == "to" and "cpu" in map(str, (*args[1:], *kwargs.values()))
        if name in READS or by_mask or moved:
            raise AssertionError(f"the host reads a tensor: {name}")
        return function(*args, **kwargs)


def as_on_a_gpu(monkeypatch):
    """The CPU looks at the values of ends, once."""
    monkeypatch.setattr(_checks, "check_values_of_ends", lambda ends, tokens: None)


@pytest.mark.parametrize("with_main_grad", [False, True])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("grouped", [False, True])
def test_the_host_reads_nothing(monkeypatch, grouped, recipe, with_main_grad):
    x, dy, ends = normal(TOKENS, K), normal(TOKENS, N, seed=1), [torch.tensor([100, 100, 290])] * grouped
    layer = (GroupedLinear(3, K, N, bias=True) if grouped else Linear(K, N)).requires_grad_()
    layer.recipe = recipe
    if with_main_grad:
        layer.weight.main_grad = torch.zeros_like(layer.weight)
    as_on_a_gpu(monkeypatch)
    with NoReads():
        step(layer, x, dy, *ends)


@pytest.mark.parametrize(
    "read",
    [
        lambda ends: ends.tolist(),
        lambda ends: int(ends[0]),
        lambda ends: bool((ends > 3).any()),
        pytest.param(
            lambda ends: ends[ends > 3],
            marks=pytest.mark.skipif(not _operators.AVAILABLE, reason="older torch does not show indexing to modes"),
        ),
        lambda ends: ends.to("cpu"),
        lambda ends: torch.nonzero(ends),
        lambda ends: _checks.check_values_of_ends(ends, 5),
    ],
)
def test_a_read_is_seen(read):
    with NoReads(), pytest.raises(AssertionError, match="the host reads"):
        read(torch.tensor([2, 5]))


def meta(tensor):
    return tensor.to("meta") if isinstance(tensor, torch.Tensor) else tensor


def alike(fake, real):
    return (fake.shape, fake.dtype, fake.stride()) == (real.shape, real.dtype, real.stride())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("groups", [None, 1, 3])
def test_compilers_are_told_the_truth(groups, recipe, dtype):
    """Shapes, dtypes and strides of every result, requested or not."""
    ends = None if groups is None else torch.arange(1, groups + 1) * TOKENS // groups
    x, dy = normal(TOKENS, K, dtype=dtype), normal(TOKENS, N, dtype=dtype)
    w = normal(*([] if groups is None else [groups]), N, K, seed=1)
    for of in (w, w.repeat_interleave(8, dim=-2)):  # groups that are padded much, and a bit
        for wants in ((True, False), (False, True), (True, True)):
            assert all(map(alike, _operators._fake_weights(meta(of), recipe, *wants), _operators._linear_weights(of, recipe, *wants)))

    forward, dgrad = _weights.copies_of(w, recipe, True, True)
    for keeps in (False, True):
        given = (x, w, None, ends, *forward, *dgrad, None, recipe, "e4m3", True, keeps, False, False, False, "00automatic")
        made = _operators._linear(*given)
        fakes = _operators._fake_linear(*map(meta, given))
        assert [part.numel() > 0 for part in made] == [True, keeps, keeps] and all(map(alike, fakes, made))

    for wanted in ([True, True, True], [True, False, False], [False, True, False], [False, False, True]):
        for main_grad in (None, torch.zeros(groups or 1, N, K)):
            given = (dy, *made[1:], *dgrad, ends, main_grad, recipe, "e5m2", True, wanted, torch.bfloat16, "00automatic")
            parts = _operators._gradients(*given)
            assert all(map(alike, _operators._fake_gradients(*map(meta, given)), parts))
            there = [wanted[0], wanted[1] and main_grad is None, wanted[2]]
            assert [part.numel() > 0 for part in parts] == there


@pytest.mark.skipif(not _operators.AVAILABLE, reason="fake tensors on a GPU that is not there: torch 2.4 or newer")
def test_what_torch_computes_around_the_products_needs_no_values():
    """Fake CUDA tensors have none: a read would raise."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

    with FakeTensorMode():
        ends = torch.empty(3, dtype=torch.int32, device="cuda")
        codes, dy = (torch.empty(TOKENS, K, dtype=kind, device="cuda") for kind in (torch.uint8, torch.bfloat16))
        made = [_sums.aligned_rows(codes, ends), _sums.sums_of_groups(dy, ends)]
        assert all(part.device.type == "cuda" for part in made)
        _checks.check_values_of_ends(ends, TOKENS)
        with pytest.raises(DataDependentOutputException):
            ends[0].item()
        layer = GroupedLinear(3, K, N, bias=True, device="cuda")
        y = layer(torch.empty(TOKENS, K, device="cuda").requires_grad_(), ends)
        assert y.shape == (TOKENS, N) and y.device.type == "cuda"


@pytest.mark.skipif(_operators.AVAILABLE, reason="of torch before 2.4")
def test_without_operators_nobody_is_watching():
    assert not _operators.is_watched(normal(2, 2), None) and not hasattr(_operators, "LIBRARY")
