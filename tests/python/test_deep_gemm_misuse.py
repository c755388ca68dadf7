"""Wrong calls of tilewright.deep_gemm that once ran in part or gave wrong results. They are refused and write nothing."""

import numpy as np
import pytest
import tilewright as tw

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from deep_gemm_operands import BF16, F32, SENTINEL, scaled, sentinel, unscaled
from tilewright import deep_gemm

pytestmark = pytest.mark.usefixtures("cublas_allowed")

M, N, KS = 8, 16, [128, 256]
K, G = sum(KS), 2
BLOCKS = K // 128


def refused(call, pattern, *untouched):
    with pytest.raises(tw.InvalidCall, match=pattern):
        call()
    for tensor in untouched:
        assert (tensor == SENTINEL).all()


@pytest.fixture
def k_grouped(rng):
    """Runs each k-grouped function with right arguments, some of them replaced."""
    flat = [(scaled(rng, (rows * K // 128, 128), "1x128")[0][0].flatten(), torch.ones(rows, BLOCKS)) for rows in (M, N)]
    tall = [(values.view(K, -1), sf.T.contiguous()) for values, sf in flat]
    wide = [unscaled(rng, (K, rows))[0] for rows in (M, N)]

    def run(name, d, c=None, ks=KS, factors=None):
        a, b = {"nt": flat, "tn": tall, "bf16": wide, "wgrad": [(v, sf.T) for v, sf in flat]}[name]
        if factors is not None:
            a = (a[0], factors)
        if name == "wgrad":
            return deep_gemm.k_grouped_wgrad_gemm_fp8_fp8_fp32_nt(a, b, d, ks)
        function = "k_grouped_bf16_gemm_tn" if name == "bf16" else f"k_grouped_fp8_gemm_{name}"
        return getattr(deep_gemm, f"{function}_contiguous")(a, b, d, ks, torch.tensor(KS, dtype=torch.int32), c)

    return run


@pytest.mark.parametrize("name", ["nt", "tn", "bf16", "wgrad"])
def test_k_grouped_runs_when_it_is_right(k_grouped, name):
    d = torch.zeros(G, M, N)
    k_grouped(name, d, None if name == "wgrad" else torch.zeros(G, M, N))
    assert d.isfinite().all() and (d != 0).any(dim=(1, 2)).all()


@pytest.mark.parametrize("name", ["nt", "tn", "bf16"])
@pytest.mark.parametrize("shape", [(1, M, N), (3, M, N), (G, N, M), (G, M, 1), (M, N)], ids=str)
def test_c_is_like_d(k_grouped, name, shape):
    d = sentinel(G, M, N, dtype=F32)
    refused(lambda: k_grouped(name, d, torch.zeros(shape)), r"^c: got torch.float32 \[.*; expected torch.float32 \[2, 8, 16\], like d", d)
    refused(lambda: k_grouped(name, d, torch.zeros(G, M, N, dtype=BF16)), r"^c: got .*bfloat16.*; expected .*float32", d)


@pytest.mark.parametrize("columns", [1, 2, 4, 7])
def test_factors_have_a_column_for_each_block(k_grouped, columns):
    d, sf = sentinel(G, M, N, dtype=F32), torch.ones(M, columns)
    refused(lambda: k_grouped("nt", d, factors=sf), rf"^a\[1\]: got \[8, {columns}\]; expected \[8, 3\], a factor", d)
    refused(lambda: k_grouped("tn", d, factors=sf.T), rf"^a\[1\]: got \[{columns}, 8\]; expected \[3, 8\], a factor", d)
    refused(lambda: k_grouped("wgrad", d, factors=sf.T), rf"^lhs\[1\]: got \[8, {columns}\]; expected \[8, 3\]", d)


@pytest.mark.parametrize("name", ["nt", "tn", "bf16"])
def test_c_that_overlaps_d_in_one_group_alone(k_grouped, name):
    """Group 0 would run: its c is d; that of group 1 is a row further on."""
    memory = sentinel((G + 1) * M * N, dtype=F32)
    d = memory.as_strided((G, M, N), (M * N, N, 1))
    c = memory.as_strided((G, M, N), (M * N + N, N, 1))
    refused(lambda: k_grouped(name, d, c), "^c: got memory that overlaps d; expected .* d itself with d's strides", memory)


def test_sizes_of_groups_that_do_not_fit(k_grouped):
    d = sentinel(G, M, N, dtype=F32)
    refused(lambda: k_grouped("wgrad", d, ks=[128, 500]), r"^lhs\[0\]: got \[3072\]", d)
    refused(lambda: k_grouped("wgrad", d, ks=[384]), "^batch_sizes: got 1 value; expected 2, one per group of out.", d)
    refused(lambda: k_grouped("wgrad", d, ks=[-128, 512]), "^batch_sizes: got -128", d)
    for wrong in (128.7, "128", True, None):
        refused(lambda wrong=wrong: k_grouped("nt", d, ks=[wrong, 256]), r"^ks_cpu\[0\]: got .*; expected an integer", d)
        refused(lambda wrong=wrong: k_grouped("wgrad", d, ks=[wrong, 256]), r"^batch_sizes\[0\]: .* an integer", d)


def test_wgrad_takes_any_k(rng):
    ks, d = [100, 44], torch.zeros(2, M, N)
    real = [rng.integers(-2, 3, (rows * sum(ks),)).astype(np.float32) for rows in (M, N)]
    sides = [
        (torch.from_numpy(x).to(torch.float8_e4m3fn), torch.full((2, rows), 2.0))
        for x, rows in zip(real, (M, N), strict=True)
    ]
    deep_gemm.k_grouped_wgrad_gemm_fp8_fp8_fp32_nt(*sides, d, ks)
    starts = [0, 100]
    for i, (start, k) in enumerate(zip(starts, ks, strict=True)):
        a, b = (x[rows * start : rows * (start + k)].reshape(rows, k) for x, rows in zip(real, (M, N), strict=True))
        np.testing.assert_array_equal(d[i].numpy(), 4 * (a @ b.T))


# Packed factors


def packed_pair(rng, rows, k):
    values = scaled(rng, (rows, k), "1x128")[0][0]
    factors = torch.exp2(torch.from_numpy(rng.integers(0, 3, (rows, -(-k // 128)))).float())
    return values, factors, deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor(factors)


@pytest.mark.parametrize("k", [128, 512, 640])
def test_packed_factors_have_exactly_their_width(rng, k):
    (a, sfa, packed_a), (b, sfb, packed_b) = packed_pair(rng, M, k), packed_pair(rng, N, k)
    expected, d = torch.empty(M, N), sentinel(M, N, dtype=F32)
    deep_gemm.fp8_gemm_nt((a, sfa), (b, sfb), expected, recipe=(1, 1, 128))
    deep_gemm.fp8_gemm_nt((a, packed_a), (b, packed_b), d)
    assert torch.equal(d, expected)
    d.fill_(SENTINEL)
    columns = -(-k // 512)
    reinterpreted = sfa.view(torch.int32)  # as many columns as float32 factors
    wider = torch.cat((packed_a, packed_a), 1)
    for wrong in (reinterpreted, wider, packed_a[:, :0]):
        if wrong.shape[1] != columns:
            refused(
                lambda wrong=wrong: deep_gemm.fp8_gemm_nt((a, wrong), (b, packed_b), d),
                rf"^a\[1\]: got \[8, {wrong.shape[1]}\]; expected {columns} columns of packed UE8M0 \(int32\) for",
                d,
            )


def test_packed_factors_of_k_groups(rng):
    """Groups start in a new int32, as get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor makes them."""
    ks = [128, 640, 256]
    layout, sides, packed = torch.tensor(ks, dtype=torch.int32), [], []
    for rows in (M, N):
        parts = [packed_pair(rng, rows, k) for k in ks]
        values = torch.cat([part[0].view(torch.uint8).flatten() for part in parts]).view(torch.float8_e4m3fn)
        sf = torch.cat([part[1] for part in parts], 1)
        sides.append((values, sf))
        in_groups = deep_gemm.get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor(
            sf.T.contiguous(), layout, ks, 128, 128
        )
        packed.append((values, in_groups.T))
    expected, d = torch.empty(3, M, N), torch.empty(3, M, N)
    deep_gemm.k_grouped_fp8_gemm_nt_contiguous(*sides, expected, ks, layout)
    deep_gemm.k_grouped_fp8_gemm_nt_contiguous(*packed, d, ks, layout)
    assert torch.equal(d, expected)


# Arguments that are not tensors


@pytest.fixture
def dense(rng):
    a, b = scaled(rng, (M, K), "1x128")[0], scaled(rng, (N, K), "128x128")[0]
    return {"a": a, "b": b, "d": sentinel(M, N)}


@pytest.mark.parametrize("name", ["fp8_gemm_nt", "fp8_gemm_nn", "fp8_gemm_tn", "fp8_gemm_tt"])
@pytest.mark.parametrize(
    "argument, change, pattern",
    [
        ("d", lambda _: None, "^d: got None; expected a torch.Tensor."),
        ("d", lambda d: np.zeros(d.shape, np.float32), "^d: got ndarray; expected a torch.Tensor. Convert it with torch.from_numpy"),
        ("a", lambda a: a[0], r"^a: got Tensor; expected a pair of tensors: \(values, scale factors\)"),
        ("a", lambda a: (*a, None), r"^a: got 3 elements; expected a pair of tensors"),
        ("a", lambda a: (a[0], None), r"^a\[1\]: got None; expected a torch.Tensor."),
        ("b", lambda b: (b[0], b[1].numpy()), r"^b\[1\]: got ndarray; expected a torch.Tensor. Convert it with torch.from_numpy"),
        ("c", lambda _: np.zeros((M, N), np.float32), "^c: got ndarray; expected a torch.Tensor or None."),
        ("compiled_dims", lambda _: "xyz", "^compiled_dims: got 'xyz'; expected letters from m, n and k."),
        ("compiled_dims", lambda _: 3, "^compiled_dims: got 3"),
        ("disable_ue8m0_cast", lambda _: "no", "^disable_ue8m0_cast: got 'no'; expected True or False."),
    ],
)
def test_what_is_no_tensor(dense, name, argument, change, pattern):
    wrong = dense | {argument: change(dense.get(argument))}
    refused(lambda: getattr(deep_gemm, name)(**wrong), pattern, dense["d"])


def test_no_output_is_not_a_new_one(rng):
    """Each was computed, and the result dropped."""
    x, w = unscaled(rng, (M, 32))[0], unscaled(rng, (N, 32))[0]
    experts, rows = unscaled(rng, (2, N, 32))[0], torch.zeros(M, dtype=torch.int32)
    for call in (
        lambda: deep_gemm.bf16_gemm_nt(x, w, None),
        lambda: deep_gemm.cublaslt_gemm_nt(x, w, None),
        lambda: deep_gemm.m_grouped_bf16_gemm_nt_contiguous(x, experts, None, rows),
        lambda: deep_gemm.einsum("bhr,hdr->bhd", x[:, None], w[None], None),
    ):
        refused(call, "^d: got None; expected a torch.Tensor.")
    assert deep_gemm.bf16_gemm_nt(x, w, torch.empty(M, N, dtype=BF16), compiled_dims="NK") is None


def test_recipes_are_numbers(dense):
    with pytest.raises(tw.InvalidCall, match=r"^recipe\[0\]: got 1.5; expected an integer."):
        deep_gemm.fp8_gemm_nt(**dense, recipe=(1.5, 128, 128))


def test_messages_speak_of_d(dense):
    memory = sentinel(2 * M * N)
    d, c = memory[: M * N].view(M, N), memory[N : N + M * N].view(M, N)
    refused(
        lambda: deep_gemm.fp8_gemm_nt(dense["a"], dense["b"], d, c), "^c: got memory that overlaps d;.*d's strides", d
    )
