"""How arrays come in: DLPack and the buffer protocol, every dtype, views, and never a copy."""

import array
import gc
import subprocess
import sys

import dlpack
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from dlpack import ExchangeProducer, Producer
from operands import DTYPES, exact, exact_pair, pack, product


def addresses(operand):
    return operand.addresses


@pytest.mark.parametrize(
    "recipe", ["row", "e5m2.1x128", "128x128.ue8m0", "mxfp8", "mxfp4", "nvfp4", "bf16", "f16", "f32"]
)
def test_nothing_is_copied(rng, recipe):
    given = exact(rng, (4, 64), recipe).given
    if not isinstance(given, tw.Quantized):
        given = tw.Quantized(given, recipe)
    arrays = (given.values, given.scales, given.tensor_scale)
    assert addresses(given) == [0 if x is None else x.ctypes.data for x in arrays]


def test_an_operand_sees_later_changes(rng):
    a, b = exact_pair(rng, (2, 32), (3, 32), "row:row")
    before = tw.gemm(a.given, b.given, out_dtype="f32")
    a.given.scales[:] *= 2
    np.testing.assert_array_equal(tw.gemm(a.given, b.given, out_dtype="f32"), 2 * before)


def test_the_result_goes_into_out(rng):
    a, b = exact_pair(rng, (2, 32), (3, 32), "row:row")
    wide = np.full((4, 8), 9, np.float32)
    view = wide[1:3, 2:8:2]
    assert tw.gemm(a.given, b.given, out=view) is view
    np.testing.assert_array_equal(wide[1:3, 2:8:2], product(a, b))
    wide[1:3, 2:8:2] = 9
    assert (wide == 9).all()


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32])
def test_views_of_arrays_without_scales(rng, dtype):
    wide = rng.integers(-2, 3, (8, 70)).astype(dtype)
    b = rng.integers(-2, 3, (5, 33)).astype(dtype)
    for a in (wide[::2, 1:34], wide[2:6, 3:69:2], wide[:4, :33], np.asfortranarray(wide[:4, 7:40])):
        d = tw.gemm(a, b, out_dtype="f32")
        np.testing.assert_array_equal(d, a.astype(np.float64) @ b.astype(np.float64).T)
    transposed = np.ascontiguousarray(wide[:, :33].T)
    np.testing.assert_array_equal(tw.gemm(transposed.T, b, out_dtype="f32"), tw.gemm(wide[:, :33], b, out_dtype="f32"))


def test_views_of_packed_e2m1_and_of_scales(rng):
    a = exact(rng, (4, 64), "mxfp8")
    b = exact(rng, (6, 128), "mxfp4")
    part = tw.Quantized(b.given.values[::2, 16:48], "mxfp4", b.given.scales[::2, 1:3])
    assert part.shape == (3, 64)
    np.testing.assert_array_equal(tw.gemm(a.given, part, out_dtype="f32"), a.real @ b.real[::2, 32:96].T)
    turned = np.asfortranarray(b.given.scales)
    whole = tw.Quantized(b.given.values, "mxfp4", turned)
    wide = exact(rng, (4, 128), "mxfp8")
    np.testing.assert_array_equal(tw.gemm(wide.given, whole, out_dtype="f32"), product(wide, b))


@pytest.mark.parametrize("name,bits", [("e4m3", 8), ("e5m2", 8), ("ue8m0", 8), ("ue4m3", 8), ("bf16", 16), ("f16", 16)])
def test_codes_as_unsigned_integers(name, bits):
    codes = np.arange(2**bits, dtype=np.uint32).astype(f"uint{bits}")
    if name == "ue4m3":
        codes = codes[:128]
    np.testing.assert_array_equal(tw.decode(codes, name), codes.view(DTYPES[name]).astype(np.float32))
    np.testing.assert_array_equal(tw.decode(codes.view(DTYPES[name]), name), tw.decode(codes, name))


def test_codes_make_the_same_operand(rng):
    for recipe in ("row", "mxfp8", "nvfp4", "bf16", "f16"):
        side = exact(rng, (4, 32), recipe).given
        side = side if isinstance(side, tw.Quantized) else tw.Quantized(side, recipe)
        word = np.uint16 if side.values.itemsize == 2 else np.uint8
        scales = side.scales if side.scales is None or side.scales.itemsize > 1 else side.scales.view(np.uint8)
        codes = tw.Quantized(side.values.view(word), recipe, scales, side.tensor_scale)
        b = np.eye(32, dtype=np.float16) if recipe == "f16" else None
        b = exact(np.random.default_rng(1), (3, 32), "row" if recipe == "row" else "mxfp8").given if b is None else b
        np.testing.assert_array_equal(tw.gemm(codes, b), tw.gemm(side, b))


@pytest.mark.parametrize(
    "name,code", [("e4m3", dlpack.E4M3FN), ("e5m2", dlpack.E5M2), ("bf16", dlpack.BFLOAT), ("f16", dlpack.FLOAT)]
)
def test_dlpack_names_the_format(rng, name, code):
    values = rng.integers(-2, 3, (4, 16)).astype(DTYPES[name])
    given = Producer(values, code, 8 * values.itemsize)
    np.testing.assert_array_equal(tw.decode(given), values.astype(np.float32))
    assert given.exported == given.released == 1


def test_dlpack_packed_e2m1_and_ue8m0(rng):
    b = exact(rng, (6, 64), "mxfp4")
    values = Producer(b.given.values, dlpack.E2M1FN, 4, lanes=2)
    scales = Producer(b.given.scales, dlpack.E8M0FNU, 8)
    given = tw.Quantized(values, "mxfp4", scales)
    assert given.shape == (6, 64)
    assert addresses(given)[:2] == [b.given.values.ctypes.data, b.given.scales.ctypes.data]
    a = exact(rng, (4, 64), "mxfp8")
    np.testing.assert_array_equal(tw.gemm(a.given, given, out_dtype="f32"), product(a, b))
    assert values.released == 0
    del given
    gc.collect()
    assert values.exported == values.released == scales.exported == scales.released == 1


def test_the_c_exchange(rng):
    """Read and written without a call of __dlpack__, and given back also if the elements are of no use."""
    memory = np.zeros((2, 3), np.float32)
    a, b = rng.integers(-2, 3, (2, 4)).astype(np.float32), rng.integers(-2, 3, (3, 4)).astype(np.float32)
    given, out = ExchangeProducer(a, dlpack.FLOAT, 32), ExchangeProducer(memory, dlpack.FLOAT, 32)
    assert tw.gemm(given, b, out=out) is out
    np.testing.assert_array_equal(memory, a @ b.T)
    assert given.exported == given.released == out.exported == out.released == 1
    useless = ExchangeProducer(a, dlpack.UINT, 32)
    with pytest.raises(ValueError, match=r"^a: got ExchangeProducer"):
        tw.gemm(useless, b)
    assert useless.exported == useless.released == 1


def test_dlpack_output():
    """A producer that is neither numpy nor torch can be `out`; without `out` the result is numpy's."""
    memory = np.zeros((2, 3), np.float32)
    out = Producer(memory, dlpack.FLOAT, 32)
    a, b = np.ones((2, 4), np.float32), np.ones((3, 4), np.float32)
    assert tw.gemm(Producer(a, dlpack.FLOAT, 32), b, out=out) is out
    np.testing.assert_array_equal(memory, np.full((2, 3), 4))
    assert isinstance(tw.gemm(Producer(a, dlpack.FLOAT, 32), b), np.ndarray)


def test_the_device_is_kept():
    """Memory of a GPU is never read on the way in, and the CPU backend says that it cannot."""
    given = Producer(np.ones((2, 4), np.float32), dlpack.FLOAT, 32, device=dlpack.CUDA)
    (finding, *_) = tw.validate(given, np.ones((3, 4), np.float32), backend="cpu")
    assert "cuda:0" in finding.given


def test_buffer_protocol():
    """array.array and memoryview know neither dtypes nor DLPack."""
    x = memoryview(array.array("f", range(6))).cast("B").cast("f", (2, 3))
    np.testing.assert_array_equal(tw.gemm(x, x, out_dtype="f32"), np.float32([[5, 14], [14, 50]]))
    np.testing.assert_array_equal(tw.decode(array.array("f", [1, 2])), np.float32([1, 2]))


def test_a_scale_without_dimensions():
    q = tw.Quantized(np.full((2, 4), 0x38, np.uint8), "tensor", np.float32(2).reshape(()))
    np.testing.assert_array_equal(tw.gemm(q, q, out_dtype="f32"), np.full((2, 2), 16))


def test_read_only_inputs(rng):
    a, b = exact_pair(rng, (2, 32), (3, 32), "row:row")
    a.given.values.flags.writeable = a.given.scales.flags.writeable = False
    frozen = tw.Quantized(a.given.values, "row", a.given.scales)
    np.testing.assert_array_equal(tw.gemm(frozen, b.given, out_dtype="f32"), product(a, b))


def test_quantized_tells_what_it_is(rng):
    q = exact(rng, (4, 64), "nvfp4").given
    assert (q.recipe, q.shape, q.values.shape) == ("nvfp4", (4, 64), (4, 32))
    assert repr(q) == "<Quantized nvfp4 [4, 64]>"
    assert (pack(np.array([[1, 2]], np.uint8)) == 0x21).all()


WITHOUT_ML_DTYPES = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np, tilewright as tw
x = np.full((2, 32), 1.5, np.float32)
for recipe in ("row", "mxfp8", "nvfp4"):
    q = tw.quantize(x, recipe)
    assert q.values.dtype == np.uint8 and (q.scales.dtype == np.float32 or q.scales.dtype == np.uint8)
    assert np.allclose(q.dequantize(), x)
d = tw.gemm(x, x)
assert d.dtype == np.uint16 and (tw.decode(d, "bf16") == 72).all()
again = tw.Quantized(d, "bf16")
assert (tw.gemm(again, again, out_dtype="f32") == 2 * 72 * 72).all()
"""


def test_without_ml_dtypes_codes_are_unsigned_integers():
    done = subprocess.run([sys.executable, "-c", WITHOUT_ML_DTYPES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
