"""The quantisers against their documentation, written again in numpy and ml_dtypes: bit for bit."""

import copy
import pickle

import numpy as np
import pytest
import tilewright as tw
from operands import BLOCKS, DTYPES, pack, parse_side, scale_shape, spread

LARGEST = {"e4m3": 448, "e5m2": 57344, "e2m1": 6}
LARGEST_EXPONENT = {"e4m3": 8, "e5m2": 15, "e2m1": 2}
RECIPES = ["tensor", "row", "1x128", "128x128", "e5m2.row", "1x128.ue8m0", "mxfp8", "e5m2.1x32", "mxfp4", "nvfp4"]


def largest_magnitudes(x, side):
    """amax of each block, in the shape of the scales."""
    shape = x.shape
    if side.granularity in ("tensor", "row"):
        axes = (-2, -1) if side.granularity == "tensor" else -1
        return np.abs(x).max(axis=axes).reshape(scale_shape(side, shape))
    rows, columns = BLOCKS[side.granularity]
    padded = np.pad(np.abs(x), [(0, 0)] * (x.ndim - 2) + [(0, -shape[-2] % rows), (0, -shape[-1] % columns)])
    *groups, m, k = padded.shape
    return padded.reshape(*groups, m // rows, rows, k // columns, columns).max(axis=(-3, -1))


def documented_scales(x, side, round_up):
    """(scales as stored, tensor scale or None), in float32."""
    amax = largest_magnitudes(x, side)
    if side.granularity == "1x16":
        whole = np.abs(x).max(axis=(-2, -1)).reshape(x.shape[:-2] or (1,))
        tensor = (whole / (np.float32(256 if round_up else 448) * np.float32(6))).astype(np.float32)
        tensor = np.exp2(np.ceil(np.log2(tensor))) if round_up else tensor
        block = amax / np.float32(6) / tensor.reshape(*x.shape[:-2], 1, 1)
        block = np.exp2(np.ceil(np.log2(block))) if round_up else block
        return block.astype(DTYPES["ue4m3"]).astype(np.float32), tensor
    if side.granularity == "1x32" and not round_up:
        return np.exp2(np.floor(np.log2(amax)) - LARGEST_EXPONENT[side.values]).astype(np.float32), None
    scales = (amax / np.float32(LARGEST[side.values])).astype(np.float32)
    if round_up or side.scales == "ue8m0":
        scales = np.exp2(np.ceil(np.log2(scales.astype(np.float64)))).astype(np.float32)
    return scales, None


def documented_values(x, scales, side):
    limit = np.float32(LARGEST[side.values])
    return np.clip((x / scales).astype(np.float32), -limit, limit).astype(DTYPES[side.values])


@pytest.mark.parametrize("round_up", [False, True])
@pytest.mark.parametrize("shape", [(5, 160), (130, 260), (2, 3, 64)])
@pytest.mark.parametrize("recipe", RECIPES)
def test_bits_are_as_documented(rng, recipe, shape, round_up):
    x = (rng.standard_normal(shape) * np.exp2(rng.integers(-6, 7, (*shape[:-1], 1)))).astype(np.float32)
    side = parse_side(recipe)
    q = tw.quantize(x, recipe, round_up=round_up)
    scales, tensor_scale = documented_scales(x, side, round_up)
    np.testing.assert_array_equal(q.scales.astype(np.float32), scales)
    total = spread(scales, side, shape).astype(np.float64)
    if tensor_scale is not None:
        np.testing.assert_array_equal(q.tensor_scale, tensor_scale)
        total = total * tensor_scale.reshape(*shape[:-2], 1, 1)
    values = documented_values(x, total.astype(np.float32), side)
    stored = pack(values) if side.values == "e2m1" else values
    np.testing.assert_array_equal(q.values.view(np.uint8), stored.view(np.uint8))
    np.testing.assert_array_equal(q.dequantize(), (values.astype(np.float64) * total).astype(np.float32))
    assert q.scales.dtype == DTYPES[side.scales]


def test_deep_gemm_cast(rng):
    """s = max(amax, 1e-4) / 448, values encode(x * (1 / s))."""
    pytest.importorskip("torch", reason="tilewright.deep_gemm needs torch")
    from tilewright.deep_gemm._cast import cast

    x = (rng.standard_normal((6, 256)) * 1e-3).astype(np.float32)
    x[1] = 1e-7
    q = cast(x, "1x128")
    amax = np.maximum(np.abs(x).reshape(6, 2, 128).max(axis=-1), np.float32(1e-4))
    scales = (amax / np.float32(448)).astype(np.float32)
    np.testing.assert_array_equal(q.scales, scales)
    values = x * np.repeat(np.float32(1) / scales, 128, axis=1)
    np.testing.assert_array_equal(q.values.view(np.uint8), values.astype(DTYPES["e4m3"]).view(np.uint8))


@pytest.mark.parametrize("recipe", [*RECIPES, "bf16", "f16", "f32"])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_sources_and_views(rng, recipe, dtype):
    """Any strides, and the same bits from a narrower source as from its float32 numbers."""
    x = rng.standard_normal((66, 96)).astype(DTYPES[dtype])
    for view in (x, x[::3, 1:65], x.T[:64, ::2]):
        view = view[:, : view.shape[1] // 2 * 2]
        ours = tw.quantize(view, recipe)
        of_copy = tw.quantize(np.ascontiguousarray(view.astype(np.float32)), recipe)
        np.testing.assert_array_equal(ours.values.view(np.uint8), of_copy.values.view(np.uint8))
        np.testing.assert_array_equal(ours.dequantize(), of_copy.dequantize())


def test_dequantize_formats(rng):
    q = tw.quantize(rng.standard_normal((3, 64)).astype(np.float32), "mxfp8")
    for dtype in ("bf16", "f16"):
        assert q.dequantize(dtype).dtype == DTYPES[dtype]
        np.testing.assert_array_equal(q.dequantize(dtype), q.dequantize().astype(DTYPES[dtype]))


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "bf16", "f16"])
def test_encode_rounds_like_ml_dtypes(rng, name):
    x = (rng.standard_normal(5000) * np.exp2(rng.integers(-20, 8, 5000))).astype(np.float32)
    np.testing.assert_array_equal(tw.encode(x, name), x.astype(DTYPES[name]))
    beyond = np.float32([1e30, -1e30, np.inf, np.nan])
    unsaturated = tw.encode(beyond, name, saturate=False).astype(np.float32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(unsaturated, beyond.astype(DTYPES[name]).astype(np.float32))
    assert np.isfinite(tw.encode(beyond[:3], name).astype(np.float32)).all()


def test_encode_packs_each_row(rng):
    x = rng.choice(np.float32([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -6]), (2, 3, 8))
    codes = tw.encode(x, "e2m1")
    np.testing.assert_array_equal(codes, pack(x.astype(DTYPES["e2m1"])))
    np.testing.assert_array_equal(tw.decode(codes, "e2m1"), x)


def test_a_whole_round_trip(rng):
    """Quantise and multiply: as near to the product of the real matrices as eight bits allow."""
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((160, 512), (48, 512)))
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    for a, b, limit in (
        ("row", "row", 0.05),
        ("1x128", "128x128", 0.05),
        ("128x128", "128x128", 0.05),
        ("1x128", "row", 0.05),
        ("1x128", "tensor", 0.05),
        ("mxfp8", "mxfp8", 0.05),
        ("mxfp8", "mxfp4", 0.2),
    ):
        d = tw.gemm(tw.quantize(x, a), tw.quantize(w, b), out_dtype="f32")
        assert np.linalg.norm(d - exact) < limit * np.linalg.norm(exact)


def test_values_without_scales_saturate(rng):
    x = np.float32([[1000, -1000, 0.3, 448]])
    q = tw.quantize(x, "e4m3")
    assert q.scales is None
    np.testing.assert_array_equal(q.dequantize(), np.float32([[448, -448, 0.3125, 448]]))


def test_scales_folded_into_the_other_side(rng):
    """A weight gradient from X's codes as the forward pass left them: dY takes the scales of X's tokens."""
    x, dy = (rng.standard_normal((160, columns)).astype(np.float32) for columns in (48, 136))
    x *= np.exp(rng.standard_normal((160, 1))).astype(np.float32)
    exact = dy.astype(np.float64).T @ x
    q = tw.quantize(x, "row")
    as_it_is = tw.Quantized(q.values, "e4m3")
    for recipe in ("row", "1x128", "128x128", "tensor"):
        folded = tw.quantize((dy * q.scales[:, None]).T, recipe)
        d = tw.gemm(folded, as_it_is, layout="nn", out_dtype="f32")
        assert np.linalg.norm(d - exact) < 0.05 * np.linalg.norm(exact)


@pytest.mark.parametrize("through", [copy.copy, copy.deepcopy, lambda q: pickle.loads(pickle.dumps(q))])
def test_copies(rng, through):
    q = tw.quantize(rng.standard_normal((3, 256)).astype(np.float32), "1x128")
    other = through(q)
    assert other.recipe == q.recipe and other.shape == q.shape
    assert np.array_equal(other.dequantize(), q.dequantize())
    assert np.array_equal(tw.gemm(other, other, out_dtype="f32"), tw.gemm(q, q, out_dtype="f32"))


def test_what_was_never_made_is_no_operand():
    with pytest.raises(ValueError, match=r"^a: got Quantized; expected an array"):
        tw.gemm(tw.Quantized.__new__(tw.Quantized), np.zeros((2, 4), np.float32))
