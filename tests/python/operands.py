"""Operands whose products are exact: small integers, scales that are powers of two.

Made with only ml_dtypes and numpy, so that they check Tilewright's own formats too. `real` is the matrix that an
operand describes, in float64.
"""

from typing import NamedTuple

import ml_dtypes
import numpy as np
import tilewright as tw

DTYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
    "ue4m3": ml_dtypes.float8_e4m3fn,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
}
NAMED = {"mxfp8": "e4m3.1x32", "mxfp4": "e2m1.1x32", "nvfp4": "e2m1.1x16"}
USUAL_SCALES = {"1x32": "ue8m0", "1x16": "ue4m3"}
BLOCKS = {"1x128": (1, 128), "128x128": (128, 128), "1x32": (1, 32), "1x16": (1, 16)}


class Side(NamedTuple):
    values: str
    granularity: str
    scales: str


class Operand(NamedTuple):
    given: object  # what Tilewright gets
    real: np.ndarray  # [rows, k] or [groups, rows, k]


def parse_side(name):
    """'1x128.ue8m0' -> Side('e4m3', '1x128', 'ue8m0')."""
    words = NAMED.get(name, name).split(".")
    if words[0] in ("bf16", "f16", "f32") or words in (["e4m3"], ["e5m2"]):
        return Side(words[0], "none", "f32")
    values = words.pop(0) if words[0] in DTYPES else "e4m3"
    granularity = words.pop(0)
    return Side(values, granularity, words[0] if words else USUAL_SCALES.get(granularity, "f32"))


def pack(codes):
    """e2m1 codes, one to a byte -> two to a byte along the last dimension, low nibble first."""
    codes = codes.view(np.uint8)
    return codes[..., 0::2] | codes[..., 1::2] << 4


def scale_shape(side, shape):
    *groups, rows, k = shape
    if side.granularity == "tensor":
        return tuple(groups) or (1,)
    if side.granularity == "row":
        return (*groups, rows)
    row_block, k_block = BLOCKS[side.granularity]
    return (*groups, -(-rows // row_block), -(-k // k_block))


def spread(scales, side, shape):
    """The scale of every element."""
    if side.granularity == "tensor":
        return np.broadcast_to(scales.reshape(*shape[:-2], 1, 1), shape)
    if side.granularity == "row":
        return np.broadcast_to(scales[..., None], shape)
    for axis, block in zip((-2, -1), BLOCKS[side.granularity], strict=True):
        scales = np.repeat(scales, block, axis=axis)
    return scales[..., : shape[-2], : shape[-1]]


def exact(rng, shape, name, *, transposed=False, exponents=3):
    """An operand of logical `shape`; `transposed` stores [k, rows]. Scales are 2^0 .. 2^(exponents - 1)."""
    side = parse_side(name)
    values = rng.integers(-2, 3, shape).astype(np.float32)
    stored = np.ascontiguousarray(values.swapaxes(-1, -2)) if transposed else values
    stored = stored.astype(DTYPES[side.values])
    if side.values == "e2m1":
        stored = pack(stored)
    if side.granularity == "none":
        fp8 = side.values in ("e4m3", "e5m2")
        return Operand(tw.Quantized(stored, name) if fp8 else stored, values.astype(np.float64))
    scales = np.exp2(rng.integers(0, exponents, scale_shape(side, shape)))
    real = values * spread(scales, side, shape)
    tensor_scale = None
    if side.granularity == "1x16":
        tensor_scale = np.exp2(rng.integers(-1, 2, shape[:-2] or (1,))).astype(np.float32)
        real = real * tensor_scale.reshape(*shape[:-2], 1, 1).astype(np.float64)
    given = tw.Quantized(stored, name, scales.astype(DTYPES[side.scales]), tensor_scale)
    return Operand(given, real.reshape(shape))


def exact_pair(rng, a_shape, b_shape, recipe, layout="nt", exponents=3):
    a_name, b_name = recipe.split(":")
    a = exact(rng, a_shape, a_name, transposed=layout in ("tn", "tt"), exponents=exponents)
    b = exact(rng, b_shape, b_name, transposed=layout in ("nn", "tn"), exponents=exponents)
    return a, b


def product(a, b):
    return a.real @ b.real.swapaxes(-1, -2)


def rounded(real, dtype):
    """Rounded once: all `real` here are exact in float32."""
    assert (real.astype(np.float32) == real).all()
    return real.astype(np.float32).astype(dtype)
