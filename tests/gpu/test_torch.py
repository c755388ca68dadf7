"""torch tensors on a Hopper GPU: the CPU's bits, the current stream, new outputs, graphs, many threads."""

import threading

import pytest
import tilewright as tw

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

from tilewright.deep_gemm._cast import cast  # noqa: E402

PAIRS = [
    ("1x128", "128x128"),
    ("1x128", "1x128"),
    ("tensor", "tensor"),
    ("row", "row"),
    ("128x128", "128x128"),
    ("1x128", "row"),
]


def pair(recipes, m, n, k, seed=0):
    """Operands in host memory, and the same on the GPU."""
    generator = torch.Generator().manual_seed(seed)
    host = [
        tw.quantize(torch.randn(rows, k, generator=generator), recipe)
        for rows, recipe in zip((m, n), recipes, strict=True)
    ]
    return host, [tw.Quantized(q.values.cuda(), r, q.scales.cuda()) for q, r in zip(host, recipes, strict=True)]


def same_bits(on_gpu, on_cpu):
    integers = {2: torch.int16, 4: torch.int32}[on_cpu.element_size()]
    return torch.equal(on_gpu.cpu().view(integers), on_cpu.view(integers))


@pytest.mark.parametrize("recipes", PAIRS, ids=":".join)
@pytest.mark.parametrize("out_dtype", ["bf16", "f16", "f32"])
def test_the_cpus_bits(recipes, out_dtype):
    host, device = pair(recipes, 77, 264, 528)
    d = tw.gemm(*device, out_dtype=out_dtype)
    assert d.is_cuda and d.shape == (77, 264)
    assert same_bits(d, tw.gemm(*host, out_dtype=out_dtype, arithmetic="bit_exact"))


@pytest.mark.parametrize("recipes", PAIRS, ids=":".join)
@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_operands_along_their_rows(recipes, layout):
    """Values [k, n] or [k, m]; scales stay [rows, k blocks]."""
    host, _ = pair(recipes, 96, 272, 528)
    turned = [layout[0] == "t", layout[1] == "n"]
    sides = [
        tw.Quantized(q.values.T.contiguous() if t else q.values, r, q.scales)
        for q, r, t in zip(host, recipes, turned, strict=True)
    ]
    device = [tw.Quantized(q.values.cuda(), r, q.scales.cuda()) for q, r in zip(sides, recipes, strict=True)]
    d = tw.gemm(*device, layout=layout)
    assert same_bits(d, tw.gemm(*host, arithmetic="bit_exact"))


def test_out_c_alpha_and_scales_in_any_strides():
    host, device = pair(PAIRS[0], 100, 384, 1024)
    c = torch.randn(100, 384)
    wide = torch.full((100, 500), float("nan"), device="cuda")
    out = wide[:, :384]
    transposed = device[0].scales.t().contiguous().t()
    a = tw.Quantized(device[0].values, "1x128", transposed)
    assert tw.gemm(a, device[1], out=out, c=c.cuda(), alpha=0.75) is out
    assert same_bits(
        out.contiguous(),
        tw.gemm(*host, out=torch.empty(100, 384), c=c, alpha=0.75, arithmetic="bit_exact"),
    )
    assert wide[:, 384:].isnan().all()


def test_the_current_stream_is_followed():
    """A slow kernel on the current stream writes the operand. Only a later call on that stream sees the values."""
    host, device = pair(PAIRS[2], 256, 256, 512)
    expected = tw.gemm(*host, arithmetic="bit_exact")
    values, late = device[0].values, device[0].values.clone()
    a = tw.Quantized(late, "tensor", device[0].scales)
    tw.gemm(a, device[1])  # what is done once
    for stream in (torch.cuda.Stream(), torch.cuda.default_stream()):
        late.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            late.copy_(values)
            d = tw.gemm(a, device[1])
        stream.synchronize()
        assert same_bits(d, expected)


def test_a_stream_may_be_given():
    host, device = pair(PAIRS[2], 64, 64, 512)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    out = torch.zeros(64, 64, dtype=torch.bfloat16, device="cuda")
    torch.cuda.synchronize()
    for given in (stream, stream.cuda_stream):
        out.zero_()
        torch.cuda.synchronize()
        tw.gemm(*device, out=out, stream=given)
        stream.synchronize()
        assert same_bits(out, tw.gemm(*host, arithmetic="bit_exact"))


def test_a_graph_replays_with_new_values():
    host, device = pair(PAIRS[0], 128, 256, 512)
    out = torch.zeros(128, 256, dtype=torch.bfloat16, device="cuda")
    tw.gemm(*device, out=out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tw.gemm(*device, out=out)
    other, _ = pair(PAIRS[0], 128, 256, 512, seed=1)
    device[0].values.view(torch.uint8).copy_(other[0].values.view(torch.uint8))
    device[0].scales.copy_(other[0].scales)
    graph.replay()
    torch.cuda.synchronize()
    assert same_bits(out, tw.gemm(other[0], host[1], arithmetic="bit_exact"))


def test_raw_addresses():
    host, device = pair(PAIRS[2], 32, 48, 128)
    raw = [
        tw.Quantized(
            tw.RawArray(q.values.data_ptr(), q.values.shape, "e4m3"),
            "tensor",
            tw.RawArray(q.scales.data_ptr(), (1,), "f32"),
        )
        for q in device
    ]
    out = torch.empty(32, 48, device="cuda")
    torch.cuda.synchronize()
    tw.gemm(*raw, out=tw.RawArray(out.data_ptr(), (32, 48), "f32"))
    torch.cuda.synchronize()
    assert same_bits(out, tw.gemm(*host, out_dtype="f32", arithmetic="bit_exact"))


def test_eight_threads_with_a_stream_each():
    host, device = pair(PAIRS[0], 200, 512, 1024)
    expected = tw.gemm(*host, arithmetic="bit_exact")
    torch.cuda.synchronize()
    wrong = []

    def work():
        with torch.cuda.stream(torch.cuda.Stream()) as _:
            for _ in range(50):
                d = tw.gemm(*device)
                torch.cuda.current_stream().synchronize()
                if not same_bits(d, expected):
                    wrong.append(d)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_refused_names_the_tensor():
    host, device = pair(PAIRS[2], 32, 48, 128)
    with pytest.raises(tw.InvalidCall, match="b.*host memory"):
        tw.gemm(device[0], host[1])
    with pytest.raises(tw.InvalidCall, match="on a GPU. Quantize on the host"):
        cast(torch.ones(4, 128, device="cuda"), "mxfp4")
    odd = tw.Quantized(device[0].values[:, :120], "tensor", device[0].scales)
    assert tw.gemm(odd, tw.Quantized(device[1].values[:, :120], "tensor", device[1].scales)).shape == (32, 48)


@pytest.mark.parametrize("recipe", ["mxfp8", "mxfp4", "nvfp4"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_operands_are_quantised_where_they_are(recipe, dtype):
    x = torch.randn(3, 200, 560).to(dtype)
    host, device = tw.quantize(x, recipe), tw.quantize(x.cuda(), recipe)
    for ours, expected in zip(
        (device.values, device.scales, device.tensor_scale),
        (host.values, host.scales, host.tensor_scale),
        strict=True,
    ):
        if expected is not None:
            assert ours.is_cuda and torch.equal(ours.cpu().view(torch.uint8), expected.view(torch.uint8))


@pytest.mark.parametrize("recipe", ["mxfp4", "nvfp4"])
@pytest.mark.parametrize("activations", ["fp8", "bf16"])
def test_weights_are_packed_where_they_are(recipe, activations):
    host = tw.quantize(torch.randn(3, 200, 512), recipe)
    tensor_scale = None if host.tensor_scale is None else host.tensor_scale.cuda()
    device = tw.Quantized(host.values.cuda(), recipe, host.scales.cuda(), tensor_scale)
    packed = tw.pack_weights(device, activations)
    expected = tw.pack_weights(host, activations)
    assert packed.data.is_cuda and packed.header == expected.header
    assert torch.equal(packed.data.cpu(), expected.data)


def test_packed_weights_multiply_where_they_were_packed():
    weights = tw.quantize(torch.randn(4, 256, 512), "mxfp4")
    device = tw.Quantized(weights.values.cuda(), "mxfp4", weights.scales.cuda())
    tokens = tw.quantize(torch.randn(64, 512), "1x128")
    ends = [5, 21, 40, 64]
    on_cpu = tw.grouped_gemm(tokens, tw.pack_weights(weights, "fp8"), offsets=ends, arithmetic="bit_exact")
    on_gpu = tw.grouped_gemm(
        tw.Quantized(tokens.values.cuda(), "1x128", tokens.scales.cuda()),
        tw.pack_weights(device, "fp8"),
        offsets=torch.tensor(ends, dtype=torch.int32, device="cuda"),
    )
    assert same_bits(on_gpu, on_cpu)


@pytest.mark.parametrize("recipe", ["mxfp4", "nvfp4"])
def test_bf16_is_multiplied_with_packed_weights(recipe):
    weights = tw.quantize(torch.randn(4, 256, 512), recipe)
    tensor_scale = None if weights.tensor_scale is None else weights.tensor_scale.cuda()
    device = tw.Quantized(weights.values.cuda(), recipe, weights.scales.cuda(), tensor_scale)
    tokens = torch.randn(64, 512).to(torch.bfloat16)
    ends = [5, 21, 40, 64]
    on_cpu = tw.grouped_gemm(tokens, tw.pack_weights(weights, "bf16"), offsets=ends, arithmetic="bit_exact")
    on_gpu = tw.grouped_gemm(
        tokens.cuda(),
        tw.pack_weights(device, "bf16"),
        offsets=torch.tensor(ends, dtype=torch.int32, device="cuda"),
    )
    assert same_bits(on_gpu, on_cpu)
