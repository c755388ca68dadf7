"""FP4 on both sides through tilewright.deep_gemm: dense, in blocks of rows and masked, with factors in every form."""

import pytest
import tilewright as tw

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from deep_gemm_operands import BF16, F32, SENTINEL, sentinel
from tilewright import deep_gemm
from tilewright.deep_gemm import _operands
from tilewright.deep_gemm.utils import _fp4
from torch._subclasses.fake_tensor import FakeTensorMode

INT = torch.int32
M, N, K, G = 24, 40, 640, 3
FORMS = [(32, False), (32, True), (128, False), (128, True)]
DTYPES = list(_fp4.FP4_DTYPES)


def fp4(rng, rows, gran_k, packed):
    """(two FP4 to a byte, factors) and the matrix that they describe."""
    x = torch.from_numpy(rng.standard_normal((rows, K))).float()
    cast = deep_gemm.per_token_cast_to_fp4(x, True, gran_k, packed)
    return cast, deep_gemm.cast_back_from_fp4(*cast, gran_k, packed).double()


def experts(rng, gran_k, packed):
    parts = [fp4(rng, N, gran_k, packed) for _ in range(G)]
    return tuple(torch.stack([cast[i] for cast, _ in parts]) for i in (0, 1)), [real for _, real in parts]


def recipes(gran_k):
    return {"recipe_a": (1, gran_k), "recipe_b": (1, gran_k)}


@pytest.mark.parametrize("gran_k, packed", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dense(rng, gran_k, packed, dtype):
    (a, real_a), (b, real_b) = fp4(rng, M, gran_k, packed), fp4(rng, N, gran_k, packed)
    sides = [(values.view(dtype), sf) for values, sf in (a, b)]
    for recipe in (recipes(gran_k), {"recipe": (1, 1, gran_k)}):
        d = sentinel(M, N, dtype=F32)
        assert deep_gemm.fp4_gemm_nt(*sides, d, **recipe) is None
        assert deep_gemm.calc_diff(d, real_a @ real_b.T) < 1e-11


@pytest.mark.parametrize("dtype", DTYPES)
def test_bytes_of_any_dtype_in_every_product_and_helper(rng, dtype):
    """Next to FP8, in groups, and where they are read back or turned: the same bits."""
    (b, _), (experts_b, _), (a, _) = fp4(rng, N, 32, True), experts(rng, 32, True), fp4(rng, 256, 32, True)
    fp8 = deep_gemm.per_token_cast_to_fp8(torch.from_numpy(rng.standard_normal((256, K))).float(), True)
    groups, counts = torch.tensor([2] * 128 + [0] * 128, dtype=INT), torch.tensor([3, 0, 64], dtype=INT)

    def products(dtype):
        of_b, of_experts = (b[0].view(dtype), b[1]), (experts_b[0].view(dtype), experts_b[1])
        masked = tuple(x[:192].unflatten(0, (G, 64)) for x in fp8)
        d = sentinel(256, N), sentinel(256, N), sentinel(G, 64, N), sentinel(256, N)
        deep_gemm.fp8_fp4_gemm_nt(fp8, of_b, d[0], recipe_a=(1, 128), recipe_b=(1, 32))
        deep_gemm.m_grouped_fp8_fp4_gemm_nt_contiguous(fp8, of_experts, d[1], groups, recipe_a=(1, 128), recipe_b=(1, 32))
        deep_gemm.m_grouped_fp8_fp4_gemm_nt_masked(masked, of_experts, d[2], counts, 8, recipe_a=(1, 128), recipe_b=(1, 32))
        deep_gemm.fp4_gemm_nt((a[0].view(dtype), a[1]), of_b, d[3], **recipes(32))
        return d

    for mine, theirs in zip(products(dtype), products(torch.int8), strict=True):
        assert torch.equal(mine, theirs)
    back = deep_gemm.cast_back_from_fp4(b[0].view(dtype), b[1], 32, True)
    assert torch.equal(back, deep_gemm.cast_back_from_fp4(*b, 32, True))
    turned = deep_gemm.utils.math.transpose_packed_fp4(b[0].view(dtype))
    assert turned.dtype == dtype
    assert torch.equal(turned.view(torch.int8), deep_gemm.utils.math.transpose_packed_fp4(b[0]))


def test_other_bytes_are_refused(rng):
    (b, _), (a, _) = fp4(rng, N, 32, True), fp4(rng, M, 32, True)
    words = r"two FP4 per byte as int8, uint8 or float4_e2m1fn_x2"
    with pytest.raises(ValueError, match=rf"^b\[0\]: got torch.int16; expected .*{words}"):
        deep_gemm.fp4_gemm_nt(a, (b[0].view(torch.int16), b[1]), sentinel(M, N), **recipes(32))
    with pytest.raises(ValueError, match=r"^packed: got torch.int16 .*; expected "):
        deep_gemm.cast_back_from_fp4(b[0].view(torch.int16), b[1], 32, True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_quantized_takes_the_same_bytes(rng, dtype):
    """tw.Quantized and what is packed from it."""
    q = tw.quantize(torch.from_numpy(rng.standard_normal((N, K))).float(), "mxfp4")
    for recipe, scales in (("mxfp4", q.scales), ("e2m1.1x32.ue8m0", q.scales.view(torch.uint8))):
        same = tw.Quantized(q.values.view(dtype), recipe, scales)
        assert torch.equal(same.dequantize(), q.dequantize())
    x = torch.from_numpy(rng.standard_normal((M, K))).float()
    d = [tw.gemm(tw.quantize(x, "1x128"), side, out_dtype="f32") for side in (tw.Quantized(q.values.view(dtype), "mxfp4", q.scales), q)]
    assert torch.equal(*d)
    packed = [tw.pack_weights(side, "fp8") for side in (tw.Quantized(q.values.view(dtype), "mxfp4", q.scales), q)]
    assert torch.equal(*(tw.gemm(tw.quantize(x, "1x128"), side, out_dtype="f32") for side in packed))


def test_int8_that_is_no_fp4_says_to_view_the_bytes():
    values, ones = torch.zeros(2, 128, dtype=torch.int8), torch.ones(2, 1)
    with pytest.raises(ValueError, match=r"^values: got torch.int8; expected e4m3, or its codes as uint8. View its bytes, x.view\(torch.uint8\)."):
        tw.Quantized(values, "1x128", ones)
    with pytest.raises(ValueError, match=r"^scales: got torch.int8; expected .*View its bytes"):
        tw.Quantized(values, "mxfp4", torch.zeros(2, 8, dtype=torch.int8))
    with pytest.raises(ValueError, match=r"^values: got int8; expected .*View its bytes, x.view\(numpy.uint8\)"):
        tw.Quantized(values.numpy(), "e5m2.1x128", ones.numpy())


@pytest.mark.parametrize("gran_k, packed", FORMS)
def test_blocks_of_rows(rng, gran_k, packed):
    (a, real_a), (b, reals_b) = fp4(rng, 256, gran_k, packed), experts(rng, gran_k, packed)
    groups = torch.tensor([2] * 128 + [0] * 128, dtype=INT)
    expected = torch.cat((real_a[:128] @ reals_b[2].T, real_a[128:] @ reals_b[0].T))
    d = sentinel(256, N)
    deep_gemm.m_grouped_fp4_gemm_nt_contiguous(a, b, d, groups, **recipes(gran_k))
    assert deep_gemm.calc_diff(d, expected) < 1e-5
    ends, by_ends = torch.tensor([0, 0, 100], dtype=INT), sentinel(256, N)
    deep_gemm.m_grouped_fp4_gemm_nt_contiguous(a, b, by_ends, ends, **recipes(gran_k), use_psum_layout=True)
    assert torch.equal(by_ends[:100], d[:100]) and (by_ends[100:] == SENTINEL).all()


@pytest.mark.parametrize("gran_k, packed", FORMS)
def test_masked(rng, gran_k, packed):
    (a, real_a), (b, reals_b) = fp4(rng, G * 8, gran_k, packed), experts(rng, gran_k, packed)
    by_group = tuple(x.unflatten(0, (G, 8)) for x in a)
    counts, d = [3, 0, 8], sentinel(G, 8, N)
    deep_gemm.m_grouped_fp4_gemm_nt_masked(by_group, b, d, torch.tensor(counts, dtype=INT), 4, **recipes(gran_k))
    for group, count in enumerate(counts):
        real = real_a.view(G, 8, K)[group, :count] @ reals_b[group].T
        assert count == 0 or deep_gemm.calc_diff(d[group, :count], real.to(BF16)) < 1e-5


@pytest.mark.parametrize("packed", [True, False])
def test_factors_from_transform_sf_into_required_layout(rng, packed):
    """vLLM and SGLang call it on both sides before the product."""
    (a, real_a), (b, real_b) = fp4(rng, M, 32, packed), fp4(rng, N, 32, packed)
    sides = [
        (values, deep_gemm.transform_sf_into_required_layout(sf, mn=rows, k=K, recipe=(1, 32)))
        for (values, sf), rows in ((a, M), (b, N))
    ]
    d = sentinel(M, N, dtype=F32)
    deep_gemm.fp8_fp4_gemm_nt(*sides, d, **recipes(32))
    assert deep_gemm.calc_diff(d, real_a @ real_b.T) < 1e-11
    x = torch.from_numpy(rng.standard_normal((M, K))).float()
    values, sf = deep_gemm.per_token_cast_to_fp8(x, True, 32, packed)
    sfa = deep_gemm.transform_sf_into_required_layout(sf, M, K, (1, 32))
    expected = torch.empty(M, N, dtype=F32)
    deep_gemm.fp8_fp4_gemm_nt((values, sf), b, expected, **recipes(32))
    deep_gemm.fp8_fp4_gemm_nt((values, sfa), sides[1], d, **recipes(32))
    assert torch.equal(d, expected)


def test_a_factor_that_is_no_power_of_two_is_seen(rng):
    """The CPU refuses it. A GPU, which is not waited for, has a product of NaN: never one with another factor."""
    (a, _), (b, _) = fp4(rng, M, 32, False), fp4(rng, N, 32, False)
    b[1][3, 5] *= 1.5
    d = sentinel(M, N, dtype=F32)
    with pytest.raises(ValueError, match=r"^b\[1\]: got float32 factors that are not powers of two; expected powers of two, because 32"):
        deep_gemm.fp4_gemm_nt(a, b, d, **recipes(32))
    assert (d == SENTINEL).all()
    unseen = (b[0], deep_gemm.transform_sf_into_required_layout(b[1], N, K, (1, 32)))
    deep_gemm.fp4_gemm_nt(a, unseen, d, **recipes(32))
    assert d[:, 3].isnan().all() and d[:, :3].isfinite().all() and d[:, 4:].isfinite().all()


@pytest.mark.parametrize("gran_k", [32, 128])
def test_a_gpu_is_not_waited_for(gran_k):
    """A fake tensor has no numbers that could be read back."""
    with FakeTensorMode():
        sf = torch.empty(N, K // gran_k, device="cuda")
        scales = _operands._scales("b", sf, (1, gran_k), K, packed_values=True)
        assert scales.is_cuda and scales.shape == (N, K // 32) and scales.dtype == torch.uint8


def test_factors_have_to_be_those_of_fp4(rng):
    """Without a recipe factors are for 128, as DeepGEMM has it."""
    (a, _), (b, _) = fp4(rng, M, 32, True), fp4(rng, N, 32, True)
    with pytest.raises(ValueError, match=r"^a\[1\]: got \[24, 5\]; expected 2 columns of packed UE8M0 \(int32\) for 5 scale factors per row\."):
        deep_gemm.fp4_gemm_nt(a, b, torch.empty(M, N, dtype=BF16))
