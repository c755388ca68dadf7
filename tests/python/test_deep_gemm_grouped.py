"""Grouped products of tilewright.deep_gemm: rows by index, by aligned ends, masked, and k-grouped."""

import pytest
import tilewright as tw

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from deep_gemm_operands import BF16, F32, SENTINEL, bits_equal, integers, rounded, scaled, sentinel, unscaled
from tilewright import deep_gemm

pytestmark = pytest.mark.usefixtures("cublas_allowed")

G, N, K = 4, 72, 272
INT = torch.int32


@pytest.fixture
def small_alignment():
    deep_gemm.set_mk_alignment_for_contiguous_layout(16)
    yield 16
    deep_gemm.set_mk_alignment_for_contiguous_layout(128)


def groups_of_b(rng, kind, n=N, k=K):
    return scaled(rng, (G, n, k), "128x128") if kind == "fp8" else unscaled(rng, (G, n, k))


def rows_of_a(rng, kind, *shape):
    return scaled(rng, shape, "1x128") if kind == "fp8" else unscaled(rng, shape)


def by_row(real_a, real_b, groups):
    """The expected rows of groups from 0 on. The other rows keep the sentinel."""
    expected = sentinel(real_a.shape[0], real_b.shape[1])
    for row, group in enumerate(groups):
        if 0 <= group < G:
            expected[row] = rounded(real_a[row] @ real_b[group].T, BF16)
    return expected


def with_neighbours(groups, alignment):
    """-1 in an aligned block whose first row has a group belongs to that group."""
    first = [groups[row // alignment * alignment] for row in range(len(groups))]
    return [own if own >= 0 else other for own, other in zip(groups, first, strict=True)]


@pytest.mark.parametrize("kind", ["fp8", "bf16"])
@pytest.mark.parametrize("form", ["nt", "nn"])
def test_rows_by_index(rng, kind, form, small_alignment):
    groups = [2] * 16 + [0] * 10 + [-1] * 6 + [-1] * 16 + [3] * 21  # padding, an empty block, a short last block
    (a, real_a), (b, real_b) = rows_of_a(rng, kind, len(groups), K), groups_of_b(rng, kind)
    d = sentinel(len(groups), N)
    if form == "nn":
        b = tuple(x.mT.contiguous() for x in b) if kind == "fp8" else b.mT.contiguous()
    function = getattr(deep_gemm, f"m_grouped_{kind}_gemm_{form}_contiguous")
    assert function(a, b, d, torch.tensor(groups, dtype=INT)) is None
    assert torch.equal(d, by_row(real_a, real_b, with_neighbours(groups, small_alignment)))
    assert (d[32:48] == SENTINEL).all()


def test_bf16_by_indices_in_any_order_and_outside(rng):
    """Blocks that mix groups are also right. Rows with an invalid group are skipped."""
    groups = [3, 0, 0, 99, 1, 4, 2, 2, 0]
    (a, real_a), (b, real_b) = rows_of_a(rng, "bf16", len(groups), K), groups_of_b(rng, "bf16")
    d = sentinel(len(groups), N)
    deep_gemm.m_grouped_bf16_gemm_nt_contiguous(a, b, d, torch.tensor(groups, dtype=INT))
    assert torch.equal(d, by_row(real_a, real_b, groups))
    assert (d[3] == SENTINEL).all() and (d[5] == SENTINEL).all()


def test_rows_of_no_group_follow_their_block(rng, small_alignment):
    """Also between rows of a group, and for any invalid group."""
    groups = [1] * 5 + [-1, 99, -7] + [1] * 8 + [99] * 16 + [3] + [4] * 15 + [0] * 4
    (a, real_a), (b, real_b) = rows_of_a(rng, "fp8", len(groups), K), groups_of_b(rng, "fp8")
    d = sentinel(len(groups), N)
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, b, d, torch.tensor(groups, dtype=INT))
    assert torch.equal(d, by_row(real_a, real_b, [1] * 16 + [-1] * 16 + [3] * 16 + [0] * 4))


@pytest.mark.parametrize("groups, message", [
    ([2] * 16 + [0] * 20 + [3] * 12, "group 3 at row 36 of a block whose first row has group 0"),
    ([-1] * 3 + [1] * 13, "group 1 at row 3 of a block whose first row has no group"),
])  # fmt: skip
def test_groups_that_begin_within_a_block_are_refused(rng, small_alignment, groups, message):
    a, b = rows_of_a(rng, "fp8", len(groups), K)[0], groups_of_b(rng, "fp8")[0]
    d, indices = sentinel(len(groups), N), torch.tensor(groups, dtype=INT)
    with pytest.raises(tw.InvalidCall) as raised:
        deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, b, d, indices)
    assert str(raised.value) == (
        f"grouped_layout: got {message}; expected one group per aligned block of rows. Begin each group at a "
        "multiple of the alignment. For rows in any order, use tilewright.grouped_gemm(indices=), or in C++ a "
        "groups.index_alignment of 1."
    )
    assert (d == SENTINEL).all()
    tw.grouped_gemm(tw.Quantized(a[0], "1x128", a[1]), tw.Quantized(b[0], "128x128", b[1]), indices=indices, out=d)
    deep_gemm.set_mk_alignment_for_contiguous_layout(1)  # any order
    again = sentinel(len(groups), N)
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, b, again, indices)
    assert bits_equal(d, again)


def test_all_rows_skipped(rng):
    a, b = rows_of_a(rng, "fp8", 5, K)[0], groups_of_b(rng, "fp8")[0]
    d = sentinel(5, N)
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, b, d, torch.full((5,), -1, dtype=INT))
    assert (d == SENTINEL).all()


@pytest.mark.parametrize("kind", ["fp8", "bf16"])
@pytest.mark.parametrize("alignment", [1, 16, 128])
@pytest.mark.parametrize("form", ["nt", "nn"])
def test_psum_layout(rng, kind, alignment, form):
    counts, ends, groups, start = [5, 0, 17, 3], [], [], 0
    for group, count in enumerate(counts):
        groups += [-1] * (start - len(groups)) + [group] * count
        ends.append(start + count)
        start = -(-ends[-1] // alignment) * alignment
    (a, real_a), (b, real_b) = rows_of_a(rng, kind, len(groups) + 7, K), groups_of_b(rng, kind)
    d = sentinel(len(groups) + 7, N)
    if form == "nn":
        b = tuple(x.mT for x in b) if kind == "fp8" else b.mT
    function = getattr(deep_gemm, f"m_grouped_{kind}_gemm_{form}_contiguous")
    hint = {"expected_m_for_psum_layout": 6} if form == "nt" else {}
    deep_gemm.set_mk_alignment_for_contiguous_layout(alignment)
    try:
        function(a, b, d, torch.tensor(ends, dtype=INT), use_psum_layout=True, ensure_zero_padding=False, **hint)
    finally:
        deep_gemm.set_mk_alignment_for_contiguous_layout(128)
    assert torch.equal(d, by_row(real_a, real_b, groups + [-1] * 7))


@pytest.mark.parametrize("name", ["m_grouped_fp8_gemm_nt_masked", "m_grouped_fp8_fp4_gemm_nt_masked",
                                  "fp8_m_grouped_gemm_nt_masked", "m_grouped_bf16_gemm_nt_masked",
                                  "bf16_m_grouped_gemm_nt_masked"])  # fmt: skip
def test_masked(rng, name):
    kind = "fp8" if "fp8" in name else "bf16"
    counts, most = [0, 9, 3, 1], 9
    (a, real_a), (b, real_b) = rows_of_a(rng, kind, G, most, K), groups_of_b(rng, kind)
    d = sentinel(G, most, N)
    getattr(deep_gemm, name)(a, b, d, torch.tensor(counts, dtype=INT), 4)
    for group, count in enumerate(counts):
        assert torch.equal(d[group, :count], rounded(real_a[group, :count] @ real_b[group].T, BF16))


def test_bits_are_the_librarys(rng):
    x, w = (torch.from_numpy(rng.standard_normal(shape)).float() for shape in ((40, 512), (G, 136, 512)))
    a = deep_gemm.per_token_cast_to_fp8(x, False)
    cast = [deep_gemm.per_block_cast_to_fp8(one, False) for one in w]
    b = torch.stack([values for values, _ in cast]), torch.stack([sf for _, sf in cast])
    groups = torch.arange(40, dtype=INT) // 10
    d = torch.empty(40, 136, dtype=BF16)
    deep_gemm.set_mk_alignment_for_contiguous_layout(10)
    try:
        deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, b, d, groups)
    finally:
        deep_gemm.set_mk_alignment_for_contiguous_layout(128)
    qa, qb = tw.Quantized(a[0], "1x128", a[1]), tw.Quantized(b[0], "128x128", b[1])
    assert bits_equal(d, tw.grouped_gemm(qa, qb, indices=groups))
    masked = torch.empty(G, 10, 136, dtype=BF16)
    by_group = a[0].view(G, 10, 512), a[1].view(G, 10, 4)
    deep_gemm.m_grouped_fp8_gemm_nt_masked(by_group, b, masked, torch.full((G,), 10, dtype=INT), 10)
    assert bits_equal(masked.view(40, 136), d)


def test_no_rows(rng):
    b = groups_of_b(rng, "fp8")[0]
    a = scaled(rng, (0, K), "1x128")[0]
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, b, torch.empty(0, N, dtype=BF16), torch.empty(0, dtype=INT))


def flat_groups(rng, rows, ks):
    """FP8 [rows, k] of each group one after another with factors [rows, sum k / 128], and the matrices."""
    parts = [scaled(rng, (rows, k), "1x128") for k in ks]
    values = torch.cat([part[0].view(torch.uint8).flatten() for (part, _) in parts]).view(torch.float8_e4m3fn)
    return (values, torch.cat([sf for ((_, sf), _) in parts], 1)), [real for _, real in parts]


KS = [256, 0, 128, 384]
ODD_KS = [127, 0, 1, 129]


def k_grouped_product(c, reals_a, reals_b):
    parts = [real_a @ real_b.T for real_a, real_b in zip(reals_a, reals_b, strict=True)]
    return rounded(c.double() + torch.stack(parts), F32)


@pytest.mark.parametrize("words", [("ks_cpu", "grouped_layout"), ("ks", "ks_tensor")])
def test_k_grouped_fp8_nt(rng, words):
    (a, reals_a), (b, reals_b) = flat_groups(rng, 24, KS), flat_groups(rng, 40, KS)
    c = integers(rng, G, 24, 40, dtype=F32)
    expected = k_grouped_product(c, reals_a, reals_b)
    sizes = dict(zip(words, (KS, torch.tensor(KS, dtype=INT)), strict=True))
    d = sentinel(G, 24, 40, dtype=F32)
    deep_gemm.k_grouped_fp8_gemm_nt_contiguous(a, b, d, **sizes, c=c)
    assert torch.equal(d, expected)
    sizes[words[0]] = torch.tensor(KS)  # any numbers on the host will do
    deep_gemm.k_grouped_fp8_gemm_nt_contiguous(a, b, d.zero_(), **sizes, c=c)
    assert torch.equal(d, expected)
    deep_gemm.k_grouped_fp8_gemm_nt_contiguous(a, b, c, *sizes.values(), c)
    assert torch.equal(c, expected)


def test_k_of_groups_from_either_tensor(rng):
    """ks_cpu may be None, and so may grouped_layout and c; groups without k are zeros."""
    (a, reals_a), (b, reals_b) = flat_groups(rng, 24, KS), flat_groups(rng, 40, KS)
    expected = k_grouped_product(torch.zeros(G, 24, 40), reals_a, reals_b)
    for ks, layout in ((None, torch.tensor(KS, dtype=INT)), (KS, None)):
        d = sentinel(G, 24, 40, dtype=F32)
        deep_gemm.k_grouped_fp8_gemm_nt_contiguous(a, b, d, ks, layout)
        assert torch.equal(d, expected)
        assert not d[1].any()


@pytest.mark.parametrize("sizes", [KS, ODD_KS], ids=str)
def test_k_grouped_tn(rng, sizes):
    (a, reals_a), (b, reals_b) = flat_groups(rng, 24, sizes), flat_groups(rng, 40, sizes)
    c, layout = integers(rng, G, 24, 40, dtype=F32), torch.tensor(sizes, dtype=INT)
    expected = k_grouped_product(c, reals_a, reals_b)
    tall = []
    for (values, sf), rows in ((a, 24), (b, 40)):
        parts = values.view(torch.uint8).split([rows * k for k in sizes])
        columns = torch.cat([part.view(rows, k) for part, k in zip(parts, sizes, strict=True)], 1)
        tall.append((columns.T.contiguous().view(torch.float8_e4m3fn), sf.T.contiguous()))
    d = sentinel(G, 24, 40, dtype=F32)
    for ks in (sizes, None):
        deep_gemm.k_grouped_fp8_gemm_tn_contiguous(*tall, d.fill_(SENTINEL), ks, layout, c)
        assert torch.equal(d, expected)
    reals = [torch.cat(parts, 1).T.to(BF16) for parts in (reals_a, reals_b)]  # exact: small integers
    for ks in (sizes, None):
        deep_gemm.k_grouped_bf16_gemm_tn_contiguous(*reals, d.fill_(SENTINEL), ks, layout, c)
        assert torch.equal(d, expected)


def test_k_of_groups_may_be_any_number(rng):
    (a, reals_a), (b, reals_b) = flat_groups(rng, 24, ODD_KS), flat_groups(rng, 40, ODD_KS)
    c, layout = integers(rng, G, 24, 40, dtype=F32), torch.tensor(ODD_KS, dtype=INT)
    expected = k_grouped_product(c, reals_a, reals_b)
    d = sentinel(G, 24, 40, dtype=F32)
    for sizes in ((ODD_KS, layout), (ODD_KS, None), (None, layout)):
        deep_gemm.k_grouped_fp8_gemm_nt_contiguous(a, b, d.fill_(SENTINEL), *sizes, c)
        assert torch.equal(d, expected)
    deep_gemm.k_grouped_wgrad_gemm_fp8_fp8_fp32_nt((a[0], a[1].T), (b[0], b[1].T), c, ODD_KS)
    assert torch.equal(c, expected)


def test_functions_of_older_versions(rng):
    (a, reals_a), (b, reals_b) = flat_groups(rng, 24, KS), flat_groups(rng, 40, KS)
    c = integers(rng, G, 24, 40, dtype=F32)
    expected = k_grouped_product(c, reals_a, reals_b)
    deep_gemm.k_grouped_wgrad_gemm_fp8_fp8_fp32_nt((a[0], a[1].T), (b[0], b[1].T), c, KS)
    assert torch.equal(c, expected)

    (x, real_x), (w, real_w) = rows_of_a(rng, "fp8", 20, K), scaled(rng, (N, K), "1x128")
    out = integers(rng, 20, N, dtype=F32)
    expected = rounded(out.double() + real_x @ real_w.T, F32)
    for sf in (w[1], w[1].T.contiguous()):
        added = out.clone()
        deep_gemm.wgrad_gemm_fp8_fp8_fp32_nt(x, (w[0], sf), added)
        assert torch.equal(added, expected)

    (experts, real_experts), d = groups_of_b(rng, "fp8"), sentinel(20, N)
    groups = [2] * 20
    deep_gemm.m_grouped_gemm_fp8_fp8_bf16_nt_contiguous(x, experts, d, torch.tensor(groups, dtype=INT))
    assert torch.equal(d, by_row(real_x, real_experts, groups))
    again = sentinel(20, N)
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(x, experts, again, m_indices=torch.tensor(groups, dtype=INT))
    assert torch.equal(again, d)
    deep_gemm.gemm_fp8_fp8_bf16_nt(x, (experts[0][2], experts[1][2]), again)
    assert torch.equal(again, d)
    masked = sentinel(G, 5, N)
    by_group = x[0].view(G, 5, K), x[1].view(G, 5, -1)
    deep_gemm.m_grouped_gemm_fp8_fp8_bf16_nt_masked(by_group, experts, masked, torch.full((G,), 5, dtype=INT), 5)
    assert torch.equal(masked[2], d[10:15])
