"""The products that tilewright.deep_gemm computes with torch on GPUs, as far as they can run on the CPU."""

import pytest

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from torch.utils._python_dispatch import TorchDispatchMode

from deep_gemm_operands import BF16, F32, SENTINEL, rounded, scaled, sentinel, unscaled
from tilewright.deep_gemm import _bf16, _fp8, _operands
from tilewright.deep_gemm.utils.layout import get_mn_major_tma_aligned_tensor

G, N, K = 4, 24, 32


@pytest.fixture(autouse=True)
def grouped_product(monkeypatch):
    """torch's grouped product as it is documented: rows past the last end hold anything."""

    def grouped(a, b, ends):
        product, start = sentinel(a.shape[0], b.shape[1]), 0
        for group, end in enumerate(ends.tolist()):
            assert start <= end <= a.shape[0]
            product[start:end] = (a[start:end].double() @ b[group].double().T).to(BF16)
            start = end
        return product

    monkeypatch.setattr(_bf16, "_grouped", grouped)


@pytest.mark.parametrize("groups", [[0, 0, 1, 1, 3], [3, 0, 0, 99, 1, -1, 2, 2, 0], [-1] * 3, [2], [1, -1, -7, 4]])
def test_rows_by_index(rng, groups):
    """Any order; rows of no group are zero."""
    (a, real_a), (b, real_b) = unscaled(rng, (len(groups), K)), unscaled(rng, (G, N, K))
    d = sentinel(len(groups), N)
    _bf16._by_index(a, b, d, torch.tensor(groups, dtype=torch.int32))
    wide = sentinel(len(groups), N + 3)
    _bf16._by_index(a, b, wide[:, 2:-1], torch.tensor(groups, dtype=torch.int32))
    assert torch.equal(wide[:, 2:-1], d) and (wide[:, :2] == SENTINEL).all() and (wide[:, -1] == SENTINEL).all()
    for row, group in enumerate(groups):
        wanted = real_a[row] @ real_b[group].T if 0 <= group < G else torch.zeros(N, dtype=torch.float64)
        assert torch.equal(d[row], rounded(wanted, BF16)), row


@pytest.mark.parametrize("counts", [[3, 0, 5, 1], [0, 0, 0, 0], [5, 5, 5, 5], [-3, 99, 0, 2]])
def test_masked_rows(rng, counts):
    (a, real_a), (b, real_b) = unscaled(rng, (G, 5, K)), unscaled(rng, (G, N, K))
    d = sentinel(G, 5, N)
    _bf16._by_count(a, b, d, torch.tensor(counts, dtype=torch.int32))
    for group, count in enumerate(counts):
        count = min(max(count, 0), 5)
        assert torch.equal(d[group, :count], rounded(real_a[group, :count] @ real_b[group].T, BF16)), group


@pytest.mark.parametrize("ends, alignment", [([3, 4, 9, 12], 1), ([3, 8, 20, 33], 8), ([0, 0, 0, 7], 8),
                                             ([5, -2, 99, 3], 4)])  # fmt: skip
def test_rows_by_aligned_ends(rng, ends, alignment):
    """Ends that go back or beyond the rows stay inside the buffers."""
    (a, real_a), (b, real_b) = unscaled(rng, (40, K)), unscaled(rng, (G, N, K))
    d = sentinel(40, N)
    _bf16._by_aligned_ends(a, b, d, torch.tensor(ends, dtype=torch.int32), alignment)
    if sorted(ends) != ends:
        return
    start = 0
    for group, end in enumerate(ends):
        assert torch.equal(d[start:end], rounded(real_a[start:end] @ real_b[group].T, BF16)), group
        start = -(-end // alignment) * alignment
    assert (d[start:] == SENTINEL).all()


def test_torchs_grouped_product_is_what_we_take_it_for(rng, monkeypatch):
    monkeypatch.undo()
    if not hasattr(torch.nn.functional, "grouped_mm") and not hasattr(torch, "_grouped_mm"):
        pytest.skip("this torch has no grouped product")
    (a, real_a), (b, real_b) = unscaled(rng, (16, K)), unscaled(rng, (2, N, K))
    ends = torch.tensor([7, 16])
    product = _bf16._grouped(a, b, ends)
    assert torch.equal(product, _bf16._grouped(a, b.mT.contiguous().mT, ends))
    expected = torch.cat((real_a[:7] @ real_b[0].T, real_a[7:] @ real_b[1].T))
    assert torch.equal(product, rounded(expected, BF16))


@pytest.mark.parametrize("most, expected_m, whole", [(128, 1, True), (129, 1, False), (4096, 192, False),
                                                     (1024, 1024, True), (1024, 767, False)])  # fmt: skip
def test_masked_rows_are_moved_where_few_are_valid(most, expected_m, whole):
    assert _bf16._is_mostly_valid(most, expected_m) == whole


@pytest.mark.parametrize("a, b, name", [(sentinel(16, 12), sentinel(2, 24, 12), "a"),
                                        (sentinel(16, 16), sentinel(2, 20, 24)[:, :, 1:17], "b"),
                                        (sentinel(16, 16), sentinel(2, 16, 20).mT, "b")])  # fmt: skip
def test_rows_that_torch_cannot_read_are_named(monkeypatch, a, b, name):
    monkeypatch.undo()
    with pytest.raises(ValueError, match=rf"^{name}: got .*; expected rows that begin at multiples of 16 bytes."):
        _bf16._grouped(a, b, torch.tensor([7, 16]))


def mn_major(*shape):
    """Factors of neighbouring rows are neighbours in memory, columns start at multiples of 16 bytes."""
    return get_mn_major_tma_aligned_tensor(torch.rand(shape))


class Launched(TorchDispatchMode):
    """torch's operators that would launch something on a GPU: all but views."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not func.is_view:
            self.names.append(func.name())
        return func(*args, **(kwargs or {}))


def grouped_calls():
    """FP8 products of groups in every form: the function below torch's operators, and its arguments."""
    m, n, k = 256, 64, 512
    a, b = (torch.zeros(shape, dtype=torch.uint8).view(torch.float8_e4m3fn) for shape in ((m, k), (2, n, k)))
    sfb, none, d = torch.rand(2, 1, 4), (None, None, None), sentinel(m, n)
    for order, sfa in (("along k", torch.rand(m, 4)), ("MN-major", mn_major(m, 4))):
        indices, ends = torch.arange(m, dtype=torch.int32) // 128, torch.tensor([100, 256], dtype=torch.int32)
        yield f"indices, {order}", _fp8.m_grouped_contiguous, (a, sfa, b, sfb, d, indices, False, 0, *none)
        yield f"psum, {order}", _fp8.m_grouped_contiguous, (a, sfa, b, sfb, d, ends, True, 100, *none)
        masked = (a.view(2, 128, k), sfa.unflatten(0, (2, 128)), b, sfb, d.view(2, 128, n), ends, 100, *none)
        yield f"masked, {order}", _fp8.m_grouped_masked, masked


@pytest.mark.parametrize("name, function, arguments", [*grouped_calls()])
def test_products_of_groups_launch_nothing_but_their_kernel(name, function, arguments):
    with Launched() as launched:
        function(*arguments)
    assert launched.names == []


def test_launches_are_counted():
    with Launched() as launched:
        torch.rand(4).view(2, 2).contiguous().clone()
    assert launched.names == ["aten::rand", "aten::clone"]


INDICES = {"grouping": "m_grouped_indices"}
BLOCKS = INDICES | {"index_alignment": 4}
# (factors of a, factors of b, d, whether c is d, grouping) -> whether those of a and of b are copied
ORDERS = {
    "both along k": ((torch.rand(6, 8), torch.rand(16, 8), sentinel(6, 16)), (False, True)),
    "both MN-major": ((mn_major(6, 8), mn_major(16, 8), sentinel(6, 16)), (False, False)),
    "k not a multiple of 512": ((torch.rand(6, 5), mn_major(16, 5), sentinel(6, 16)), (True, False)),
    "rows apart": ((torch.rand(6, 9)[:, :8], mn_major(16, 8), sentinel(6, 16)), (True, False)),
    "not at 16 bytes": ((torch.rand(49)[1:].view(6, 8), mn_major(16, 8), sentinel(6, 16)), (True, False)),
    "float32 d": ((torch.rand(6, 8), mn_major(16, 8), sentinel(6, 16, dtype=F32)), (True, False)),
    "rows of d not 16 bytes": ((torch.rand(6, 8), mn_major(12, 8), sentinel(6, 12)), (True, False)),
    "c": ((torch.rand(6, 8), mn_major(16, 8), sentinel(6, 16), True), (True, False)),
    "batched": ((torch.rand(2, 6, 8), torch.rand(2, 16, 8), sentinel(2, 6, 16), False, {"grouping": "batched"}),
                (False, True)),
    "row indices": ((torch.rand(6, 8), torch.rand(2, 16, 8), sentinel(6, 16), False, INDICES), (False, True)),
    "row indices, MN-major": ((mn_major(6, 8), torch.rand(2, 16, 8), sentinel(6, 16), False, INDICES), (False, False)),
    "row indices in blocks": ((mn_major(8, 8), torch.rand(2, 16, 8), sentinel(8, 16), False, BLOCKS), (False, True)),
    "float64 d": ((torch.rand(6, 8), torch.rand(16, 8), sentinel(6, 16, dtype=torch.float64)), (False, False)),
    "a call that is refused": ((torch.rand(6, 8), torch.rand(16, 8), sentinel(6, 17)), (False, False)),
}  # fmt: skip


def operands_of(sfa, sfb):
    values = [torch.zeros(*sf.shape[:-1], sf.shape[-1] * 128, dtype=torch.uint8) for sf in (sfa, sfb)]
    a, b = (x.view(torch.float8_e4m3fn) for x in values)
    return _operands.operands_in_place(a, sfa, b, sfb, ((1, 1, 128), None, None))


@pytest.mark.parametrize("name", ORDERS)
def test_factors_of_rows_are_copied_where_their_order_is_slow(name):
    (sfa, sfb, d, *more), copied = ORDERS[name]
    c = d if more and more[0] else None
    groups = more[1] if len(more) > 1 else {}
    if groups in (INDICES, BLOCKS):
        groups = groups | {"sizes": torch.zeros(d.shape[0], dtype=torch.int32)}
    assert _operands.scales_to_copy(operands_of(sfa, sfb), d, c, groups) == copied


def test_slices_of_copied_factors_need_no_copy():
    """k-grouped: one copy for all groups."""
    d = sentinel(6, 16, dtype=F32)
    a, b = torch.rand(6, 9), torch.rand(16, 9)
    assert _operands.scales_to_copy(operands_of(a, b), d, d) == (True, True)
    a, b = (_operands.mn_major_if(True, sf)[:, 3:5] for sf in (a, b))
    assert _operands.scales_to_copy(operands_of(a, b), d, d) == (False, False)


def packed_factors(sf, ks):
    """Four UE8M0 per int32, and separate columns for each group."""
    groups = [sf for sf in sf.split([k // 128 for k in ks], 1) if sf.shape[1] > 0]
    padded = torch.cat([torch.nn.functional.pad(sf, (0, -sf.shape[1] % 4), value=1.0) for sf in groups], 1)
    return (padded.view(torch.int32) >> 23).to(torch.uint8).view(torch.int32)


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("ks", [[256, 0, 640], None])
@pytest.mark.parametrize("packed", [True, False])
def test_all_groups_of_k_with_sizes_on_the_device(rng, flat, ks, packed):
    if packed and ks is None:
        pytest.skip("packed factors need ks_cpu")
    sizes, m, n = [256, 0, 640], 24, 40
    sides, reals = [], []
    for rows in (m, n):
        parts = [scaled(rng, (rows, k), "1x128") for k in sizes]
        bytes_of = [values.view(torch.uint8) for (values, _), _ in parts]
        values = torch.cat([part.flatten() for part in bytes_of]) if flat else torch.cat(bytes_of, 1).T.contiguous()
        factors = torch.cat([sf for (_, sf), _ in parts], 1)
        factors = packed_factors(factors, sizes) if packed else factors
        sides += [values.view(torch.float8_e4m3fn), factors if flat else factors.T.contiguous()]
        reals.append([real for _, real in parts])
    d = sentinel(3, m, n, dtype=F32)
    _fp8._launch_all_groups(*sides, d, None, ks, torch.tensor(sizes, dtype=torch.int32), flat, (1, 1, 128))
    assert torch.equal(d, rounded(torch.stack([a @ b.T for a, b in zip(*reals, strict=True)]), F32))


def test_unsized_groups_of_k_are_checked():
    a, sf, layout = torch.zeros(128, 16).to(torch.float8_e4m3fn), torch.ones(1, 16), torch.tensor([128], dtype=torch.int32)
    d, rest = sentinel(1, 24, 16, dtype=F32), (None, None, layout, False, (1, 1, 128))
    with pytest.raises(ValueError, match=r"^a\[0\]: got \[128, 16\]; expected contiguous \[sum k, 24\]."):
        _fp8._launch_all_groups(a, sf, a, sf, d, *rest)
