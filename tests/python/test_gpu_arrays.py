"""Arrays on a GPU, as far as that can be tested without one: streams, raw addresses, what is refused and in which words."""

import dlpack
import numpy as np
import pytest
import tilewright as tw


def on_gpu(rows, columns, code=dlpack.E4M3FN, dtype=np.uint8):
    """Memory of the host that says it is a GPU's: good for all that happens before a launch."""
    array = np.zeros((rows, columns), dtype)
    return dlpack.ExchangeProducer(array, code, array.itemsize * 8, device=dlpack.CUDA)


def quantized(rows, k):
    scales = on_gpu(1, 1, dlpack.FLOAT, np.float32)
    scales.array = np.ones(1, np.float32)
    scales._shape[0] = 1
    return tw.Quantized(on_gpu(rows, k), "tensor", scales)


def has_gpu():
    torch = pytest.importorskip("torch")
    return torch.cuda.is_available()


@pytest.fixture
def call():
    a, b = quantized(16, 32), quantized(16, 32)
    out = on_gpu(16, 16, dlpack.BFLOAT, np.uint16)
    return lambda **options: tw.gemm(a, b, out=out, **options)


@pytest.mark.skipif("has_gpu()", reason="this memory is the host's: a GPU must not be given it")
def test_the_stream_is_the_one_that_the_arrays_library_works_on(call):
    dlpack.streams_asked_for.clear()
    with pytest.raises(RuntimeError, match="no NVIDIA driver.*use the CPU backend"):
        call()
    assert dlpack.streams_asked_for == [(dlpack.CUDA, 0)]
    for stream in (
        0,
        7,
        type("torch_stream", (), {"cuda_stream": 5})(),
        type("cupy_stream", (), {"ptr": 5})(),
    ):
        with pytest.raises(RuntimeError, match="no NVIDIA driver"):
            call(stream=stream)
    with pytest.raises(RuntimeError, match="no NVIDIA driver"):
        call(stream=type("Stream", (), {"__cuda_stream__": lambda self: (0, 5)})())
    assert len(dlpack.streams_asked_for) == 1  # a given stream is not looked for


def test_what_is_no_stream(call):
    with pytest.raises(
        tw.InvalidCall,
        match="stream: str given, an address, or a stream of torch, cupy or cuda.core",
    ):
        call(stream="main")


def test_mixed_memory_is_refused_by_name():
    a, b = quantized(16, 32), quantized(16, 32)
    with pytest.raises(tw.InvalidCall, match="out: host memory given, memory of cuda:0 expected"):
        tw.gemm(a, b, out=np.zeros((16, 16), np.float32), backend="hopper")


def test_no_output_is_made_for_libraries_other_than_torch():
    a, b = quantized(16, 32), quantized(16, 32)
    with pytest.raises(
        tw.InvalidCall,
        match="out: nothing given, an array in memory of cuda:0 expected.*your library",
    ):
        tw.gemm(a, b)


def test_what_the_gpu_does_not_do_names_the_cpu(call):
    a = tw.Quantized(on_gpu(16, 24), "tensor", quantized(16, 32).scales)
    out = on_gpu(16, 16, dlpack.BFLOAT, np.uint16)
    messages = [finding.message() for finding in tw.validate(a, a, out=out)]
    assert any("a" in message and "16 bytes" in message and "CPU backend" in message for message in messages), messages


def test_raw_addresses_are_arrays(rng):
    x, w = (rng.integers(0, 3, size=shape).astype(np.float32) for shape in ((3, 5), (4, 5)))
    d = np.zeros((3, 4), np.float32)
    raw = [tw.RawArray(array.ctypes.data, array.shape, "f32", device="cpu") for array in (x, w, d)]
    assert tw.gemm(raw[0], raw[1], out=raw[2]) is raw[2]
    np.testing.assert_array_equal(d, x @ w.T)
    transposed = tw.RawArray(w.ctypes.data, (5, 4), "f32", strides=(1, 5), device="cpu")
    d[:] = 0
    tw.gemm(raw[0], transposed, layout="nn", out=raw[2])
    np.testing.assert_array_equal(d, x @ w.T)
    assert (raw[0].address, raw[0].shape, raw[0].format) == (
        x.ctypes.data,
        [3, 5],
        "f32",
    )


def test_raw_addresses_hold_quantised_operands(rng):
    x = tw.quantize(rng.standard_normal((8, 128)).astype(np.float32), "1x128")
    w = tw.quantize(rng.standard_normal((8, 128)).astype(np.float32), "1x128")
    raw = [
        tw.Quantized(
            tw.RawArray(q.values.ctypes.data, q.values.shape, "e4m3", device="cpu"),
            "1x128",
            tw.RawArray(q.scales.ctypes.data, q.scales.shape, "f32", device="cpu"),
        )
        for q in (x, w)
    ]
    d = np.zeros((8, 8), np.float32)
    tw.gemm(*raw, out=d)
    np.testing.assert_array_equal(d, tw.gemm(x, w, out_dtype="f32"))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((0, (2, 2), "fp8"), "format: 'fp8' given"),
        (
            (0, (2, 2), "f32", (2,)),
            "strides: 1 strides given, 2, one a dimension expected",
        ),
        (
            (0, (2, 2), "f32", None, "tpu"),
            "device: 'tpu' given, cpu, cuda or cuda:<index> expected",
        ),
        ((0, (2, 2), "f32", None, "cuda:x"), "device: 'cuda:x' given"),
    ],
)
def test_raw_addresses_are_checked(arguments, message):
    with pytest.raises(tw.InvalidCall, match=message):
        tw.RawArray(*arguments)


def test_raw_elements_of_another_format_are_refused():
    x = np.ones((2, 4), np.float32)
    raw = tw.RawArray(x.ctypes.data, (2, 4), "e4m3", device="cpu")
    with pytest.raises(tw.InvalidCall, match="out: e4m3 given"):
        tw.gemm(x, x, out=raw)
