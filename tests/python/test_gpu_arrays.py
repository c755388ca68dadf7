"""Arrays on a GPU, as far as that can be tested without one: streams, raw addresses, what is refused and in which words."""

import contextlib
import sys

import dlpack
import numpy as np
import pytest
import tilewright as tw
from tilewright import _arrays


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
        match="stream: got str; expected an address, or a stream of torch, cupy or cuda.core",
    ):
        call(stream="main")


def test_mixed_memory_is_refused_by_name():
    a, b = quantized(16, 32), quantized(16, 32)
    with pytest.raises(tw.InvalidCall, match="out: got host memory; expected memory of cuda:0."):
        tw.gemm(a, b, out=np.zeros((16, 16), np.float32), backend="hopper")


def test_no_output_is_made_for_libraries_other_than_torch():
    a, b = quantized(16, 32), quantized(16, 32)
    with pytest.raises(
        tw.InvalidCall,
        match="out: got nothing; expected an array in memory of cuda:0.*your library.",
    ):
        tw.gemm(a, b)


def test_what_the_gpu_does_not_do_names_the_cpu(call):
    a = tw.Quantized(on_gpu(16, 24), "tensor", quantized(16, 32).scales)
    out = on_gpu(16, 16, dlpack.BFLOAT, np.uint16)
    messages = [finding.message() for finding in tw.validate(a, a, out=out)]
    assert any("a" in message and "16 bytes" in message and "CPU backend" in message for message in messages), messages


def turned(k, rows):
    """An operand as layout tn has it, [k, rows]."""
    return tw.Quantized(on_gpu(k, rows), "tensor", quantized(16, 32).scales)


def bytes_on_gpu(size, device="cuda"):
    """At a multiple of 128, which numpy promises not."""
    memory = np.zeros(size + 128, np.uint8)
    array = tw.RawArray(-(-memory.ctypes.data // 128) * 128, (size,), "ue8m0", device=device)
    return memory, array


def test_a_workspace_is_made_of_torchs_arrays_alone():
    a, b, out = turned(32, 16), turned(32, 48), on_gpu(16, 48, dlpack.BFLOAT, np.uint16)
    assert tw.workspace_bytes(a, b, layout="tn", out=out) == 16 * 32
    with pytest.raises(
        tw.InvalidCall,
        match="^workspace: got nothing; expected 512 bytes or more in memory of cuda:0. Pass workspace=, a uint8 array of "
        "your library: only torch workspaces are allocated for you.$",
    ):
        tw.gemm(a, b, layout="tn", out=out)


def test_weights_that_are_not_packed_ask_for_a_workspace():
    scales = on_gpu(64, 8, dlpack.UINT)
    b = tw.Quantized(on_gpu(64, 128, dlpack.UINT), "mxfp4", scales)  # [64, 256]
    a, out = quantized(16, 256), on_gpu(16, 64, dlpack.BFLOAT, np.uint16)
    size = tw.workspace_bytes(a, b, out=out)
    assert 64 * 8 < size < 64 * 256 // 2  # what follows from the scales; the codes stay where they are
    with pytest.raises(tw.InvalidCall, match=f"^workspace: got nothing; expected {size} bytes or more in memory of cuda:0"):
        tw.gemm(a, b, out=out)


@pytest.mark.skipif("has_gpu()", reason="this memory is the host's: a GPU must not be given it")
def test_a_workspace_is_the_callers():
    a, b, out = turned(32, 16), turned(32, 48), on_gpu(16, 48, dlpack.BFLOAT, np.uint16)

    def call(workspace):
        tw.gemm(a, b, layout="tn", out=out, workspace=workspace)

    memory, enough = bytes_on_gpu(512)
    with pytest.raises(RuntimeError, match="no NVIDIA driver"):
        call(enough)
    with pytest.raises(tw.InvalidCall, match="^workspace: got 511 bytes; expected 512 bytes or more for a K-major copy of a.values"):
        call(bytes_on_gpu(511)[1])
    with pytest.raises(tw.InvalidCall, match="^workspace: got memory elsewhere; expected memory of cuda:0."):
        call(bytes_on_gpu(512, "cpu")[1])
    with pytest.raises(tw.InvalidCall, match=r"^workspace: got \[16, 32\]; expected contiguous uint8 \[bytes\] in memory of "):
        call(tw.RawArray(enough.address, (16, 32), "ue8m0", device="cuda"))
    with pytest.raises(tw.InvalidCall, match="^workspace: got memory that overlaps out; expected separate memory."):
        call(tw.RawArray(out.array.ctypes.data // 128 * 128, (1024,), "ue8m0", device="cuda"))
    assert not memory.any()


class Streams:
    """torch, as far as a workspace asks it."""

    uint8 = "uint8"

    def __init__(self):
        self.on, self.cuda = [], self
        self.current, self.default = (type("Stream", (), {"cuda_stream": i, "device": "cuda:1"})() for i in (7, 0))

    def current_stream(self, device):
        return self.on[-1] if self.on else self.current

    def default_stream(self, device):
        return self.default

    def ExternalStream(self, address, device):
        return type("Stream", (), {"cuda_stream": address, "device": device})()

    @contextlib.contextmanager
    def stream(self, stream):
        self.on.append(stream)
        yield
        self.on.pop()

    def empty(self, size, dtype, device):
        return size, dtype, device, self.current_stream(1).cuda_stream


@pytest.mark.parametrize("stream", [7, 0, 9])
def test_torchs_allocator_is_told_the_stream(monkeypatch, stream):
    """It gives memory that is given back to later work of the same stream."""
    monkeypatch.setitem(sys.modules, "torch", Streams())
    assert _arrays.new_workspace(64, 1, stream) == (64, "uint8", "cuda:1", stream)


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
        ((0, (2, 2), "fp8"), "format: got 'fp8'"),
        (
            (0, (2, 2), "f32", (2,)),
            "strides: got 1; expected 2 (one per dimension).",
        ),
        (
            (0, (2, 2), "f32", None, "tpu"),
            "device: got 'tpu'; expected cpu, cuda or cuda:<index>.",
        ),
        ((0, (2, 2), "f32", None, "cuda:x"), "device: got 'cuda:x'"),
    ],
)
def test_raw_addresses_are_checked(arguments, message):
    with pytest.raises(tw.InvalidCall, match=message):
        tw.RawArray(*arguments)


def test_raw_elements_of_another_format_are_refused():
    x = np.ones((2, 4), np.float32)
    raw = tw.RawArray(x.ctypes.data, (2, 4), "e4m3", device="cpu")
    with pytest.raises(tw.InvalidCall, match="out: got e4m3"):
        tw.gemm(x, x, out=raw)
