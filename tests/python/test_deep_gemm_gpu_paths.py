"""What tilewright.deep_gemm does on GPUs beside the library, where it can be run on the CPU too."""

import pytest

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from deep_gemm_operands import BF16, SENTINEL, plain, rounded, sentinel
from tilewright.deep_gemm import _bf16

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
    (a, real_a), (b, real_b) = plain(rng, (len(groups), K)), plain(rng, (G, N, K))
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
    (a, real_a), (b, real_b) = plain(rng, (G, 5, K)), plain(rng, (G, N, K))
    d = sentinel(G, 5, N)
    _bf16._by_count(a, b, d, torch.tensor(counts, dtype=torch.int32))
    for group, count in enumerate(counts):
        count = min(max(count, 0), 5)
        assert torch.equal(d[group, :count], rounded(real_a[group, :count] @ real_b[group].T, BF16)), group


@pytest.mark.parametrize("ends, alignment", [([3, 4, 9, 12], 1), ([3, 8, 20, 33], 8), ([0, 0, 0, 7], 8),
                                             ([5, -2, 99, 3], 4)])  # fmt: skip
def test_rows_by_aligned_ends(rng, ends, alignment):
    """Ends that go back or beyond the rows stay inside the buffers."""
    (a, real_a), (b, real_b) = plain(rng, (40, K)), plain(rng, (G, N, K))
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
    (a, real_a), (b, real_b) = plain(rng, (16, K)), plain(rng, (2, N, K))
    product = _bf16._grouped(a, b, torch.tensor([7, 16]))
    expected = torch.cat((real_a[:7] @ real_b[0].T, real_a[7:] @ real_b[1].T))
    assert torch.equal(product, rounded(expected, BF16))
