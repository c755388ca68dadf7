"""Products of tilewright.deep_gemm that first copy an operand, on a Hopper GPU. Skipped elsewhere."""

import pytest

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

import tilewright as tw
from deep_gemm_operands import BF16, F32, integers, rounded, scaled, sentinel
from tilewright import deep_gemm

if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

INT = torch.int32


def turned(pair):
    """Values and factors as the tn form takes them."""
    return tuple(x.T.contiguous().cuda() for x in pair)


@pytest.mark.parametrize("shape", [(96, 272, 640), (272, 96, 640), (130, 40, 200), (33, 29, 128), (1, 7, 656)])
@pytest.mark.parametrize("granularity", ["128x128", "1x128"])
def test_fp8_gemm_tn(rng, shape, granularity):
    m, n, k = shape
    (a, real_a), (b, real_b) = scaled(rng, (m, k), "1x128"), scaled(rng, (n, k), granularity)
    d = sentinel(m, n, dtype=F32).cuda()
    recipe = (1, 128, 128) if granularity == "128x128" else (1, 1, 128)
    deep_gemm.fp8_gemm_tn(turned(a), turned(b), d, recipe=recipe)
    assert torch.equal(d.cpu(), rounded(real_a @ real_b.T, F32))


@pytest.mark.parametrize("host, device", [(True, True), (True, False), (False, True)])
def test_k_groups(rng, host, device):
    m, n, ks = 144, 80, [256, 0, 384, 128]
    parts_a, parts_b = ([scaled(rng, (rows, k), "1x128") for k in ks] for rows in (m, n))
    a, b = (tuple(torch.cat([turned(pair)[i] for pair, _ in parts]) for i in (0, 1)) for parts in (parts_a, parts_b))
    c = integers(rng, len(ks), m, n, dtype=F32)
    d = c.cuda()
    sizes = ks if host else None, torch.tensor(ks, dtype=INT).cuda() if device else None
    deep_gemm.k_grouped_fp8_gemm_tn_contiguous(a, b, d, *sizes, d)
    products = [real_a @ real_b.T for (_, real_a), (_, real_b) in zip(parts_a, parts_b, strict=True)]
    assert torch.equal(d.cpu(), rounded(c.double() + torch.stack(products), F32))


def test_einsums_of_transposed_operands(rng):
    b, h, d, r = 64, 3, 144, 256
    (x, real_x), (y, real_y) = scaled(rng, (h * d, b), "1x128"), scaled(rng, (h * r, b), "1x128")
    x = x[0].view(h, d, b).permute(2, 0, 1).contiguous().cuda(), x[1].view(h, d, 1).permute(2, 0, 1).cuda()
    y = y[0].view(h, r, b).permute(2, 0, 1).contiguous().cuda(), y[1].view(h, r, 1).permute(2, 0, 1).cuda()
    z = sentinel(h, d, r, dtype=F32).cuda()
    deep_gemm.fp8_einsum("bhd,bhr->hdr", x, y, z, recipe=(1, 1, 128))
    expected = torch.einsum("hdb,hrb->hdr", real_x.view(h, d, b), real_y.view(h, r, b))
    assert torch.equal(z.cpu(), rounded(expected, F32))


def test_a_graph_and_a_stream_of_the_callers(rng):
    m, n, k = 256, 272, 640
    (a, real_a), (b, real_b) = scaled(rng, (m, k), "1x128"), scaled(rng, (n, k), "128x128")
    a, b, expected = turned(a), turned(b), rounded(real_a @ real_b.T, BF16)
    d = sentinel(m, n).cuda()
    deep_gemm.fp8_gemm_tn(a, b, d)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            deep_gemm.fp8_gemm_tn(a, b, d)
    for _ in range(3):
        d.fill_(0)
        garbage = [torch.full((m, k), 0xFF, dtype=torch.uint8, device="cuda") for _ in range(8)]
        graph.replay()
        assert torch.equal(d.cpu(), expected)
        del garbage
    stream = torch.cuda.Stream()
    operands = [tw.Quantized(values, recipe, sf.T) for (values, sf), recipe in ((a, "1x128"), (b, "128x128"))]
    for given in (stream, stream.cuda_stream):
        d.fill_(0)
        torch.cuda.synchronize()
        tw.gemm(*operands, layout="tn", out=d, stream=given)
        stream.synchronize()
        assert torch.equal(d.cpu(), expected)
    own = torch.empty(tw.workspace_bytes(*operands, layout="tn", out=d), dtype=torch.uint8, device="cuda")
    d.fill_(0)
    tw.gemm(*operands, layout="tn", out=d, workspace=own)
    assert torch.equal(d.cpu(), expected)


def test_overlapping_calls(rng):
    m, n, k = 128, 264, 512
    (a, real_a), (b, real_b) = scaled(rng, (m, k), "1x128"), scaled(rng, (n, k), "128x128")
    a, b, start = turned(a), turned(b), integers(rng, m, n, dtype=F32)
    d = start.cuda()
    deep_gemm.set_pdl(True)
    try:
        for _ in range(20):
            deep_gemm.fp8_gemm_tn(a, b, d, d)
    finally:
        deep_gemm.set_pdl(False)
    assert torch.equal(d.cpu(), rounded(start.double() + 20 * (real_a @ real_b.T), F32))
