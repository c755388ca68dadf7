"""Dense products of tilewright.deep_gemm: all layouts and recipes, c in place, empty sizes, heads with a gap."""

import pytest
import tilewright as tw

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from deep_gemm_operands import BF16, F32, SENTINEL, bits_equal, integers, rounded, scaled, sentinel, unscaled
from tilewright import deep_gemm

pytestmark = pytest.mark.usefixtures("cublas_allowed")

LAYOUTS = ("nt", "nn", "tn", "tt")
M, N, K = 70, 144, 272  # neither a multiple of a block


def stored(pair, transposed):
    """A matrix [rows, k] as the caller of an alias holds it."""
    tensors = pair if isinstance(pair, tuple) else (pair,)
    turned = tuple(x.T.contiguous() if transposed else x for x in tensors)
    return turned if isinstance(pair, tuple) else turned[0]


def in_layout(layout, a, b):
    return stored(a, layout[0] == "t"), stored(b, layout[1] == "n")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [BF16, F32])
@pytest.mark.parametrize("name", ["fp8_gemm", "fp8_fp4_gemm"])
def test_fp8(rng, layout, dtype, name):
    (a, real_a), (b, real_b) = scaled(rng, (M, K), "1x128"), scaled(rng, (N, K), "128x128")
    d = sentinel(M, N, dtype=dtype)
    assert getattr(deep_gemm, f"{name}_{layout}")(*in_layout(layout, a, b), d) is None
    assert torch.equal(d, rounded(real_a @ real_b.T, dtype))


@pytest.mark.parametrize(
    "recipes, of_b",
    [
        ({"recipe": (1, 1, 128)}, "1x128"),
        ({"recipe": (1, 128, 128)}, "128x128"),
        ({"recipe_a": (1, 128), "recipe_b": (128, 128)}, "128x128"),
        ({"recipe_a": (1, 128), "recipe_b": (1, 128)}, "1x128"),
    ],
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_recipes(rng, recipes, of_b, layout):
    (a, real_a), (b, real_b) = scaled(rng, (M, K), "1x128"), scaled(rng, (N, K), of_b)
    d, c = sentinel(M, N, dtype=F32), integers(rng, M, N, dtype=F32)
    function = getattr(deep_gemm, f"fp8_gemm_{layout}")
    function(*in_layout(layout, a, b), d, c, **recipes, compiled_dims="mnk", disable_ue8m0_cast=True)
    assert torch.equal(d, rounded(c.double() + real_a @ real_b.T, F32))


def test_bits_are_the_librarys(rng):
    x, w = (torch.from_numpy(rng.standard_normal((rows, 640))).float() for rows in (33, 200))
    a, b = deep_gemm.per_token_cast_to_fp8(x, False), deep_gemm.per_block_cast_to_fp8(w, False)
    d = torch.empty(33, 200, dtype=BF16)
    deep_gemm.fp8_gemm_nt(a, b, d)
    assert bits_equal(d, tw.gemm(tw.Quantized(a[0], "1x128", a[1]), tw.Quantized(b[0], "128x128", b[1])))
    assert deep_gemm.calc_diff(d, x @ w.T) < 1e-3


@pytest.mark.parametrize("dtype", [BF16, F32])
def test_c_apart_from_d_and_in_place(rng, dtype):
    (a, real_a), (b, real_b) = scaled(rng, (M, K), "1x128"), scaled(rng, (N, K), "128x128")
    c = integers(rng, M, N, dtype=dtype)
    expected = rounded(c.double() + real_a @ real_b.T, dtype)
    d, kept = sentinel(M, N, dtype=dtype), c.clone()
    deep_gemm.fp8_gemm_nt(a, b, d, c)
    assert torch.equal(d, expected) and torch.equal(c, kept)
    deep_gemm.fp8_gemm_nt(a, b, c, c=c)
    assert torch.equal(c, expected)


def test_d_may_be_part_of_a_wider_tensor(rng):
    (a, real_a), (b, real_b) = scaled(rng, (M, K), "1x128"), scaled(rng, (N, K), "128x128")
    wide = sentinel(M, N + 24)
    deep_gemm.fp8_gemm_nt(a, b, wide[:, 8 : N + 8])
    assert torch.equal(wide[:, 8 : N + 8], rounded(real_a @ real_b.T, BF16))
    assert (wide[:, :8] == SENTINEL).all() and (wide[:, N + 8 :] == SENTINEL).all()


def test_factors_in_any_strides(rng):
    (a, real_a), (b, real_b) = scaled(rng, (M, K), "1x128"), scaled(rng, (N, K), "1x128")
    d = sentinel(M, N)
    sfa = deep_gemm.get_mn_major_tma_aligned_tensor(a[1])
    deep_gemm.fp8_gemm_nt((a[0], sfa), (b[0], b[1].T.contiguous().T), d, recipe=(1, 1, 128))
    assert torch.equal(d, rounded(real_a @ real_b.T, BF16))


@pytest.mark.parametrize("sizes", [(0, N, K), (M, 0, K), (0, 0, 0)])
@pytest.mark.parametrize("function", ["fp8", "bf16", "cublaslt"])
def test_no_rows_or_columns(rng, sizes, function):
    m, n, k = sizes
    d = torch.empty(m, n, dtype=BF16)
    if function == "fp8":
        a, b = scaled(rng, (m, k), "1x128")[0], scaled(rng, (n, k), "128x128")[0]
    else:
        a, b = (torch.zeros(rows, k, dtype=BF16) for rows in (m, n))
    getattr(deep_gemm, f"{function}_gemm_nt")(a, b, d)


@pytest.mark.parametrize("function", ["fp8", "bf16", "cublaslt"])
def test_zero_k_leaves_c_or_zeros(rng, function):
    a, b = scaled(rng, (M, 0), "1x128")[0], scaled(rng, (N, 0), "128x128")[0]
    if function == "bf16":
        a, b = (x[0].to(BF16) for x in (a, b))
    elif function == "cublaslt":
        a, b = a[0], b[0]
    gemm = getattr(deep_gemm, f"{function}_gemm_nt")
    d, c = sentinel(M, N), integers(rng, M, N)
    gemm(a, b, d)
    assert (d == 0).all()
    gemm(a, b, d, c=c)
    assert torch.equal(d, c)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [BF16, F32])
@pytest.mark.parametrize("name", ["bf16_gemm", "cublaslt_gemm"])
def test_bf16(rng, layout, dtype, name):
    (a, real_a), (b, real_b) = unscaled(rng, (M, K)), unscaled(rng, (N, K))
    function, given = getattr(deep_gemm, f"{name}_{layout}"), in_layout(layout, a, b)
    d, c = sentinel(M, N, dtype=dtype), integers(rng, M, N, dtype=dtype)
    function(*given, d)
    assert torch.equal(d, rounded(real_a @ real_b.T, dtype))
    function(*given, d, c)
    assert torch.equal(d, rounded(c.double() + real_a @ real_b.T, dtype))
    function(*given, c, c=c)
    assert torch.equal(c, d)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_cublaslt_takes_e4m3_without_factors(rng, layout):
    (a, real_a), (b, real_b) = unscaled(rng, (M, K)), unscaled(rng, (N, K))
    given = in_layout(layout, a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn))
    d, c = sentinel(M, N, dtype=F32), integers(rng, M, N, dtype=F32)
    getattr(deep_gemm, f"cublaslt_gemm_{layout}")(*given, d, c)
    assert torch.equal(d, rounded(c.double() + real_a @ real_b.T, F32))


@pytest.mark.parametrize("splits", [(128, 64, 128), (16, 8, 0), (0, 5, 32), (48, 0, 24)])
def test_skip_head_mid(rng, splits):
    left, mid, right = splits
    heads, m, k = 3, 20, 256
    n = heads * (left + right)
    (a, real_a), (b, real_b) = scaled(rng, (m, k), "1x128"), scaled(rng, (n, k), "128x128")
    d = sentinel(m, n + heads * mid)
    deep_gemm.fp8_gemm_nt_skip_head_mid(a, b, d, splits)
    product = rounded(real_a @ real_b.T, BF16).view(m, heads, left + right)
    d = d.view(m, heads, left + mid + right)
    assert torch.equal(d[..., :left], product[..., :left])
    assert torch.equal(d[..., left + mid :], product[..., left:])
    assert (d[..., left : left + mid] == SENTINEL).all()


@pytest.mark.parametrize("gran_k, packed", [(32, False), (32, True), (128, True)])
def test_ue8m0_factors_and_fp4(rng, gran_k, packed):
    """Recipes of other GPUs than Hopper run on the CPU: FP8 with UE8M0 factors, FP4 with one for 32."""
    x, w = (torch.from_numpy(rng.standard_normal((rows, 512))).float() for rows in (24, 40))
    a = deep_gemm.per_token_cast_to_fp8(x, True, gran_k, packed)
    b = deep_gemm.per_token_cast_to_fp4(w, True, gran_k, packed)
    real_b = deep_gemm.cast_back_from_fp4(*b, gran_k, packed)
    sfa = deep_gemm.unpack_ue8m0_from_int(a[1]) if packed else a[1]
    real_a = a[0].double() * sfa.double().repeat_interleave(gran_k, 1)
    d = torch.empty(24, 40, dtype=F32)
    deep_gemm.fp8_fp4_gemm_nt(a, b, d, recipe_a=(1, gran_k), recipe_b=(1, gran_k))
    assert deep_gemm.calc_diff(d, real_a @ real_b.double().T) < 1e-11


def test_parameters_need_no_detaching(rng):
    """DeepGEMM knows no gradients: weights that ask for one are multiplied all the same."""
    a, real_a = unscaled(rng, (4, 32))
    weight = torch.nn.Parameter(unscaled(rng, (8, 32))[0])
    d = torch.empty(4, 8, dtype=BF16)
    deep_gemm.bf16_gemm_nt(a, weight, d)
    assert torch.equal(d, rounded(real_a @ weight.detach().double().T, BF16)) and not d.requires_grad
