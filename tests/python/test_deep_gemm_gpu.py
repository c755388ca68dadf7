"""tilewright.deep_gemm on a Hopper GPU: exact products, the CPU's bits, streams, graphs. Skipped elsewhere."""

import pytest
import tilewright as tw

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from deep_gemm_operands import BF16, F32, bits_equal, integers, launches, moved, rounded, scaled, sentinel, unscaled
from tilewright import deep_gemm

pytestmark = pytest.mark.usefixtures("cublas_allowed")

if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

INT = torch.int32
M, N, K, G = 200, 264, 656, 4


def quantised(rng, m=M, n=N, k=K):
    x, w = (torch.from_numpy(rng.standard_normal((rows, k))).float() for rows in (m, n))
    return deep_gemm.per_token_cast_to_fp8(x, False), deep_gemm.per_block_cast_to_fp8(w, False)


@pytest.fixture
def the_gpus_bits():
    """Invariant calls return a GPU's bits on the CPU too."""
    with tw.options(invariant=True):
        yield


@pytest.mark.parametrize("dtype", [BF16, F32])
@pytest.mark.parametrize("m", [1, 64, M, 1500])
def test_dense_has_the_cpus_bits(rng, the_gpus_bits, dtype, m):
    a, b = quantised(rng, m)
    for options in ({}, {"c": integers(rng, m, N, dtype=dtype)}):
        d = torch.empty(m, N, dtype=dtype)
        deep_gemm.fp8_gemm_nt(a, b, d, **options)
        on_gpu = sentinel(m, N, dtype=dtype).cuda()
        deep_gemm.fp8_gemm_nt(moved(a), moved(b), on_gpu, **{name: c.cuda() for name, c in options.items()})
        assert bits_equal(on_gpu.cpu(), d)


def test_factors_for_each_row_on_both_sides(rng):
    (a, real_a), (b, real_b) = scaled(rng, (M, K), "1x128"), scaled(rng, (N, K), "1x128")
    c = integers(rng, M, N, dtype=F32)
    d = c.cuda()
    deep_gemm.fp8_gemm_nt(moved(a), moved(b), d, d, recipe=(1, 1, 128))
    assert torch.equal(d.cpu(), rounded(c.double() + real_a @ real_b.T, F32))


ROWS_FIRST, ALONG_K = deep_gemm.get_mn_major_tma_aligned_tensor, torch.Tensor.contiguous


@pytest.mark.parametrize("k", [512, K])
@pytest.mark.parametrize("b_recipe", ["1x128", "128x128"])
def test_factors_in_either_order(rng, b_recipe, k):
    """The same bits; copies only where both sides have factors for each row, and TMA cannot load both."""
    (a, real_a), (b, real_b) = scaled(rng, (M, k), "1x128"), scaled(rng, (N, k), b_recipe)
    both, expected = b_recipe == "1x128", rounded(real_a @ real_b.T, BF16)
    for order_a in (ROWS_FIRST, ALONG_K):
        for order_b in (ROWS_FIRST, ALONG_K) if both else (ALONG_K,):
            d = sentinel(M, N).cuda()
            sides = (a[0].cuda(), order_a(a[1].cuda())), (b[0].cuda(), order_b(b[1].cuda()))
            function = lambda: deep_gemm.fp8_gemm_nt(*sides, d, recipe=(1, 1 if both else 128, 128))  # noqa: B023
            copies = both * ((order_b is ALONG_K) + (order_a is ALONG_K and k % 512 != 0))
            assert launches(function) == 1 + copies
            assert torch.equal(d.cpu(), expected)


def test_views_of_aliases_and_heads(rng):
    (a, real_a), (b, real_b) = scaled(rng, (M, K), "1x128"), scaled(rng, (N, K), "128x128")
    a, b, expected = moved(a), moved(b), rounded(real_a @ real_b.T, BF16)
    for name, sides in (("nn", (a, (b[0].T, b[1].T))), ("tt", ((a[0].T, a[1].T), b))):
        d = sentinel(M, N).cuda()
        getattr(deep_gemm, f"fp8_gemm_{name}")(*sides, d)
        assert torch.equal(d.cpu(), expected)
    d = sentinel(M, N + 2 * 8).cuda()
    deep_gemm.fp8_gemm_nt_skip_head_mid(a, b, d, (N // 4, 8, N // 4))
    kept = d.cpu().view(M, 2, N // 2 + 8)
    assert torch.equal(kept[..., : N // 4], expected.view(M, 2, N // 2)[..., : N // 4])


@pytest.mark.parametrize("layout, copies", [("nn", 0), ("tt", 0), ("tn", 1)])
@pytest.mark.parametrize("dtype", [BF16, F32])
def test_values_along_their_rows(rng, layout, copies, dtype):
    m, n = 208, 272  # rows of memory of whole 16 bytes
    (a, real_a), (b, real_b) = scaled(rng, (m, K), "1x128"), scaled(rng, (n, K), "128x128")
    sides = [
        tuple(x.T.contiguous().cuda() for x in pair) if turned else moved(pair)
        for pair, turned in ((a, layout[0] == "t"), (b, layout[1] == "n"))
    ]
    d = sentinel(m, n, dtype=dtype).cuda()
    function = lambda: getattr(deep_gemm, f"fp8_gemm_{layout}")(*sides, d)  # noqa: E731
    assert launches(function) == 1 + copies
    assert torch.equal(d.cpu(), rounded(real_a @ real_b.T, dtype))


def test_groups_of_weights_along_n(rng):
    n, sizes = 272, [128, 0, 256]
    (a, real_a), weights = scaled(rng, (sum(sizes), K), "1x128"), [scaled(rng, (n, K), "128x128") for _ in sizes]
    b = tuple(torch.stack([pair[i].T.contiguous() for pair, _ in weights]).cuda() for i in (0, 1))
    indices = torch.cat([torch.full((rows,), group, dtype=INT) for group, rows in enumerate(sizes)]).cuda()
    d = sentinel(sum(sizes), n).cuda()
    deep_gemm.m_grouped_fp8_gemm_nn_contiguous(moved(a), b, d, indices)
    rows = real_a.split(sizes)
    expected = torch.cat([x @ real.T for x, (_, real) in zip(rows, weights, strict=True)])
    assert torch.equal(d.cpu(), rounded(expected, BF16))


@pytest.mark.parametrize("host", [True, False])
@pytest.mark.parametrize("device", [True, False])
@pytest.mark.parametrize("k_major", [True, False])
def test_k_groups(rng, host, device, k_major):
    if not (host or device):
        pytest.skip("sizes are on the host, on the device or on both")
    ks = [256, 0, 384]
    parts = [scaled(rng, (M, k), "1x128") for k in ks]
    values = torch.cat([v.view(torch.uint8).flatten() for (v, _), _ in parts]).view(torch.float8_e4m3fn).cuda()
    factors = torch.cat([sf for (_, sf), _ in parts], 1).cuda()
    flat = values, factors if k_major else factors.T.contiguous().T
    c = integers(rng, 3, M, M, dtype=F32)
    d = c.cuda()
    sizes = ks if host else None, torch.tensor(ks, dtype=INT).cuda() if device else None
    deep_gemm.k_grouped_fp8_gemm_nt_contiguous(flat, flat, d, *sizes, d)
    assert torch.equal(d.cpu(), rounded(c.double() + torch.stack([real @ real.T for _, real in parts]), F32))


@pytest.mark.parametrize("name", ["bf16_gemm", "cublaslt_gemm"])
@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
@pytest.mark.parametrize("dtype", [BF16, F32])
def test_bf16(rng, name, layout, dtype):
    (a, real_a), (b, real_b) = unscaled(rng, (M, K)), unscaled(rng, (N, K))
    sides = [
        x.cuda().T.contiguous() if turned else x.cuda() for x, turned in ((a, layout[0] == "t"), (b, layout[1] == "n"))
    ]
    c = integers(rng, M, N, dtype=dtype)
    d, function = sentinel(M, N, dtype=dtype).cuda(), getattr(deep_gemm, f"{name}_{layout}")
    function(*sides, d)
    assert torch.equal(d.cpu(), rounded(real_a @ real_b.T, dtype))
    in_place = c.cuda()
    function(*sides, in_place, c=in_place)
    assert torch.equal(in_place.cpu(), rounded(c.double() + real_a @ real_b.T, dtype))


@pytest.mark.parametrize("dtype", [BF16, F32])
def test_cublaslt_takes_e4m3(rng, dtype):
    (a, real_a), (b, real_b) = unscaled(rng, (M, 640)), unscaled(rng, (256, 640))
    sides = [x.to(torch.float8_e4m3fn).cuda() for x in (a, b)]
    c = integers(rng, M, 256, dtype=dtype)
    for given in (None, c.cuda()):
        d = sentinel(M, 256, dtype=dtype).cuda()
        deep_gemm.cublaslt_gemm_nt(*sides, d, c=given)
        added = 0 if given is None else c.double()
        assert torch.equal(d.cpu(), rounded(added + real_a @ real_b.T, dtype))


@pytest.mark.parametrize("groups", [[0] * 90 + [2] * 60 + [3] * 50, [3, 1, -1, 0] * 50])
def test_bf16_groups(rng, groups):
    (a, real_a), (b, real_b) = unscaled(rng, (M, K)), unscaled(rng, (G, N, K))
    d = sentinel(M, N).cuda()
    deep_gemm.m_grouped_bf16_gemm_nt_contiguous(a.cuda(), b.cuda(), d, torch.tensor(groups, dtype=INT).cuda())
    for row, group in enumerate(groups):
        group = group if group >= 0 else groups[row // 128 * 128]
        assert torch.equal(d[row].cpu(), rounded(real_a[row] @ real_b[group].T, BF16))
    counts = [0, 50, 7, 31]
    masked = sentinel(G, 50, N).cuda()
    deep_gemm.m_grouped_bf16_gemm_nt_masked(
        a.view(G, 50, K).cuda(), b.cuda(), masked, torch.tensor(counts, dtype=INT).cuda(), 22
    )
    for group, count in enumerate(counts):
        expected = rounded(real_a.view(G, 50, K)[group, :count] @ real_b[group].T, BF16)
        assert torch.equal(masked[group, :count].cpu(), expected)


@pytest.mark.parametrize("most, expected_m", [(50, 22), (160, 22), (160, 160)])
def test_bf16_groups_in_a_graph(rng, most, expected_m):
    """Sizes and rows of the replay are not those of the capture."""
    (a, real_a), (b, real_b) = unscaled(rng, (G, most, K)), unscaled(rng, (G, N, K))
    on_gpu, weights, d = torch.zeros_like(a).cuda(), b.cuda(), sentinel(G, most, N).cuda()
    counts = torch.zeros(G, dtype=INT).cuda()
    indices, rows = torch.zeros(most, dtype=INT).cuda(), sentinel(most, N).cuda()

    def calls():
        deep_gemm.m_grouped_bf16_gemm_nt_masked(on_gpu, weights, d, counts, expected_m)
        deep_gemm.m_grouped_bf16_gemm_nt_contiguous(on_gpu[0], weights, rows, indices)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        calls()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        calls()
    on_gpu.copy_(a)
    sizes = [most, 0, 7, 31]
    counts.copy_(torch.tensor(sizes))
    indices.copy_(torch.arange(most) % G)
    graph.replay()
    for group, count in enumerate(sizes):
        assert torch.equal(d[group, :count].cpu(), rounded(real_a[group, :count] @ real_b[group].T, BF16))
        assert torch.equal(rows[group::G].cpu(), rounded(real_a[0, group::G] @ real_b[group].T, BF16))


def test_einsum(rng):
    (x, real_x), (y, real_y) = unscaled(rng, (30, 4, 128)), unscaled(rng, (4, 64, 136))
    z = sentinel(30, 4, 64).cuda()
    deep_gemm.einsum("bhr,hdr->bhd", x.cuda(), y.cuda()[:, :, :128], z)
    assert torch.equal(z.cpu(), rounded(torch.einsum("bhr,hdr->bhd", real_x, real_y[:, :, :128]), BF16))
    (x, real_x), (y, real_y) = unscaled(rng, (129, 64, 128)), unscaled(rng, (129, 32, 128))
    d = integers(rng, 64, 32, dtype=F32)
    expected = rounded(d.double() + torch.einsum("bmk,bnk->mn", real_x, real_y), F32)
    d = d.cuda()
    deep_gemm.einsum("bmk,bnk->mn", x.cuda(), y.cuda(), d, c=d)
    assert torch.equal(d.cpu(), expected)
    (x, real_x), (y, real_y) = scaled(rng, (30 * 4, 256), "1x128"), scaled(rng, (4, 136, 256), "128x128")
    x = x[0].view(30, 4, 256).cuda(), x[1].view(30, 4, 2).cuda()
    z = sentinel(30, 4, 136).cuda()
    deep_gemm.fp8_einsum("bhr,hdr->bhd", x, moved(y), z)
    assert torch.equal(z.cpu(), rounded(torch.einsum("bhr,hdr->bhd", real_x.view(30, 4, 256), real_y), BF16))


def test_streams_graphs_and_the_compiler(rng):
    """The current stream is used; a graph replays with other numbers; compiled code keeps the operator."""
    a, b = moved(quantised(rng)[0]), moved(quantised(rng)[1])
    other = moved(quantised(rng)[0])
    d, expected = torch.empty(M, N, dtype=BF16, device="cuda"), torch.empty(M, N, dtype=BF16, device="cuda")
    deep_gemm.fp8_gemm_nt(other, b, expected)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        deep_gemm.fp8_gemm_nt(a, b, d)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        deep_gemm.fp8_gemm_nt(a, b, d)
    for mine, theirs in zip(a, other, strict=True):
        mine.copy_(theirs)
    graph.replay()
    assert bits_equal(d, expected)

    @torch.compile(fullgraph=True)
    def function(a, b):
        d = torch.empty(M, N, dtype=BF16, device="cuda")
        deep_gemm.fp8_gemm_nt(a, b, d)
        return d * 2

    assert torch.equal(function(other, b), expected * 2)


@pytest.fixture
def overlapping():
    deep_gemm.set_pdl(True)
    yield
    deep_gemm.set_pdl(False)


@pytest.mark.parametrize("shape", [(8, 264, 512), (M, N, K), (1500, 2112, 512)])
def test_overlapping_calls_wait_for_each_other(rng, overlapping, shape):
    """Each call adds to the result of the previous one, on a stream and in a graph. A call after torch's kernel waits for it."""
    m, n, k = shape
    (a, real_a), (b, real_b) = scaled(rng, (m, k), "1x128"), scaled(rng, (n, k), "128x128")
    a, b, start, expected = moved(a), moved(b), integers(rng, m, n, dtype=F32).cuda(), (real_a @ real_b.T).cuda()

    def twenty(d):
        d.copy_(start)
        for _ in range(20):
            deep_gemm.fp8_gemm_nt(a, b, d, d)

    d, captured = torch.empty(m, n, device="cuda"), torch.empty(m, n, device="cuda")
    twenty(d)
    assert torch.equal(d, rounded(start.double() + 20 * expected, F32))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        twenty(captured)
    for _ in range(3):
        graph.replay()
    assert torch.equal(captured, d)


def test_times(rng, monkeypatch):
    monkeypatch.delenv("DG_USE_NVIDIA_TOOLS", raising=False)  # set, it asks for no times
    a, b = moved(quantised(rng)[0]), moved(quantised(rng)[1])
    d = torch.empty(M, N, dtype=BF16, device="cuda")
    seconds = deep_gemm.bench_kineto(lambda: deep_gemm.fp8_gemm_nt(a, b, d), "fp8_gemm_kernel", num_tests=5)
    assert 1e-6 < seconds < 1e-3
    assert 1e-6 < deep_gemm.bench(lambda: deep_gemm.fp8_gemm_nt(a, b, d)) < 1e-2


def test_what_hopper_does_not_do_says_so(rng):
    k = 1000
    a, b = (torch.zeros(rows, k, dtype=torch.float8_e4m3fn).cuda() for rows in (M, N))
    factors = torch.ones(M, 8).cuda(), torch.ones(-(-N // 128), 8).cuda()
    with pytest.raises(ValueError, match=r"b\[0\].*multiples of 16 bytes below 2\^40, except along k"):
        deep_gemm.fp8_gemm_nt((a, factors[0]), (b, factors[1]), torch.empty(M, N, dtype=BF16).cuda())
