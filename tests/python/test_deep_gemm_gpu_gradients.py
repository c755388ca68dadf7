"""Weight gradients of tilewright.deep_gemm on a Hopper GPU: k-grouped with any k, against float64. Skipped elsewhere."""

import pytest

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from deep_gemm_operands import BF16, F32, integers, moved, rounded, scaled, sentinel, unscaled
from tilewright import deep_gemm
from tilewright.deep_gemm import _bf16

pytestmark = pytest.mark.usefixtures("cublas_allowed")

if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

INT = torch.int32
M, N = 144, 80
SIZES = [[256, 0, 128, 384], [127, 0, 1, 129], [128, 16, 0, 272], [0, 0, 0, 0], [1, 1300, 513, 64]]


def parts(rng, rows, ks):
    """FP8 [rows, k] of each group with its factors, and the matrices."""
    pairs = [scaled(rng, (rows, k), "1x128") for k in ks]
    return [pair for pair, _ in pairs], [real for _, real in pairs]


def flat(pairs):
    """Values one group after another; factors [rows, k blocks of all groups]."""
    values = torch.cat([values.view(torch.uint8).flatten() for values, _ in pairs]).view(torch.float8_e4m3fn)
    return values.cuda(), torch.cat([sf for _, sf in pairs], 1).cuda()


def tall(pairs):
    """[sum k, rows], factors [k blocks of all groups, rows]."""
    values = torch.cat([values.view(torch.uint8) for values, _ in pairs], 1).T.contiguous().view(torch.float8_e4m3fn)
    return values.cuda(), torch.cat([sf for _, sf in pairs], 1).T.contiguous().cuda()


def products(reals_a, reals_b):
    return torch.stack([a @ b.T for a, b in zip(reals_a, reals_b, strict=True)])


def on_gpu(ks):
    return torch.tensor(ks, dtype=INT).cuda()


@pytest.mark.parametrize("ks", SIZES, ids=str)
@pytest.mark.parametrize("host, device", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("form", ["nt", "tn"])
def test_k_grouped_fp8(rng, ks, host, device, form):
    (a, reals_a), (b, reals_b) = parts(rng, M, ks), parts(rng, N, ks)
    c, laid_out = integers(rng, len(ks), M, N, dtype=F32), flat if form == "nt" else tall
    expected = rounded(c.double() + products(reals_a, reals_b), F32)
    d = sentinel(len(ks), M, N, dtype=F32).cuda()
    function = getattr(deep_gemm, f"k_grouped_fp8_gemm_{form}_contiguous")
    function(laid_out(a), laid_out(b), d, ks if host else None, on_gpu(ks) if device else None, c.cuda())
    assert torch.equal(d.cpu(), expected)


@pytest.mark.parametrize("ks", SIZES, ids=str)
def test_k_grouped_wgrad(rng, ks):
    (a, reals_a), (b, reals_b) = parts(rng, M, ks), parts(rng, N, ks)
    out = integers(rng, len(ks), M, N, dtype=F32)
    expected = rounded(out.double() + products(reals_a, reals_b), F32)
    (a, sfa), (b, sfb) = flat(a), flat(b)
    out = out.cuda()
    deep_gemm.k_grouped_wgrad_gemm_fp8_fp8_fp32_nt((a, sfa.T), (b, sfb.T), out, ks)
    assert torch.equal(out.cpu(), expected)


def test_k_grouped_wgrad_in_a_graph(rng):
    """Includes sizes on the host, also those that are not multiples of 16."""
    ks = SIZES[1]
    (a, reals_a), (b, reals_b) = parts(rng, M, ks), parts(rng, N, ks)
    (a, sfa), (b, sfb) = flat(a), flat(b)
    out = torch.zeros(len(ks), M, N).cuda()
    deep_gemm.k_grouped_wgrad_gemm_fp8_fp8_fp32_nt((a, sfa.T), (b, sfb.T), out, ks)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        deep_gemm.k_grouped_wgrad_gemm_fp8_fp8_fp32_nt((a, sfa.T), (b, sfb.T), out, ks)
    graph.replay()
    graph.replay()
    assert torch.equal(out.cpu(), rounded(3 * products(reals_a, reals_b), F32))


@pytest.mark.parametrize("k", [0, 1, 127, 128, 129, 640])
@pytest.mark.parametrize("turned", [False, True])
def test_wgrad(rng, k, turned):
    """Rows begin at multiples of 16 bytes; factors by row or transposed."""
    (a, real_a), (b, real_b) = scaled(rng, (M, k), "1x128"), scaled(rng, (N, k), "1x128")
    out = integers(rng, M, N, dtype=F32)
    expected = rounded(out.double() + real_a @ real_b.T, F32)
    sides = []
    for values, sf in (a, b):
        wide = torch.zeros(values.shape[0], -(-k // 16) * 16, dtype=torch.uint8)
        wide[:, :k] = values.view(torch.uint8)
        sides.append((wide.cuda()[:, :k].view(torch.float8_e4m3fn), (sf.T.contiguous() if turned else sf).cuda()))
    out = out.cuda()
    deep_gemm.wgrad_gemm_fp8_fp8_fp32_nt(*sides, out)
    assert torch.equal(out.cpu(), expected)


def bf16_groups(rng, ks):
    """[sum k, m], [sum k, n] of bf16, and the product of each group."""
    (a, real_a), (b, real_b) = unscaled(rng, (sum(ks), M)), unscaled(rng, (sum(ks), N))
    return a.cuda(), b.cuda(), products([x.T for x in real_a.split(ks)], [x.T for x in real_b.split(ks)])


@pytest.mark.parametrize("ks", SIZES, ids=str)
@pytest.mark.parametrize("device", [True, False])
@pytest.mark.parametrize("with_c", [True, False])
def test_k_grouped_bf16_with_sizes_on_the_host(rng, ks, device, with_c):
    """Sums in float32."""
    a, b, real = bf16_groups(rng, ks)
    c = integers(rng, len(ks), M, N, dtype=F32) if with_c else None
    d = moved(c) if with_c else sentinel(len(ks), M, N, dtype=F32).cuda()
    deep_gemm.k_grouped_bf16_gemm_tn_contiguous(a, b, d, ks, on_gpu(ks) if device else None, d if with_c else None)
    assert torch.equal(d.cpu(), rounded(real + (c.double() if with_c else 0), F32))


needs_grouped = pytest.mark.skipif(_bf16._torchs_grouped_product() is None, reason="this torch has no grouped product")


@needs_grouped
@pytest.mark.parametrize("ks", SIZES, ids=str)
@pytest.mark.parametrize("with_c", [True, False])
def test_k_grouped_bf16_with_sizes_on_the_gpu(rng, ks, with_c):
    """torch's product is rounded to bf16, and c added in float32."""
    a, b, real = bf16_groups(rng, ks)
    c = integers(rng, len(ks), M, N, dtype=F32) if with_c else None
    d = moved(c) if with_c else sentinel(len(ks), M, N, dtype=F32).cuda()
    deep_gemm.k_grouped_bf16_gemm_tn_contiguous(a, b, d, None, on_gpu(ks), d if with_c else None)
    assert torch.equal(d.cpu(), rounded(rounded(real, BF16).double() + (c.double() if with_c else 0), F32))


@needs_grouped
def test_k_grouped_bf16_in_a_graph(rng):
    """The sizes of the replay are not those of the capture."""
    ks = [127, 0, 1, 129]
    a, b, real = bf16_groups(rng, ks)
    sizes, d = on_gpu([64, 64, 64, 65]), sentinel(4, M, N, dtype=F32).cuda()
    deep_gemm.k_grouped_bf16_gemm_tn_contiguous(a, b, d, None, sizes)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        deep_gemm.k_grouped_bf16_gemm_tn_contiguous(a, b, d, None, sizes)
    sizes.copy_(torch.tensor(ks))
    graph.replay()
    assert torch.equal(d.cpu(), rounded(rounded(real, BF16).double(), F32))
