"""codec.h against ml_dtypes and numpy: every code, every bf16 and f16 number, every rounding boundary.

formats_codec_tool (tests/formats/codec_tool.cpp) applies codec.h to whole arrays. Where ml_dtypes means something else
by a format, the test says what and why.
"""

import os
import pathlib
import subprocess

import ml_dtypes
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ.get("TILEWRIGHT_BUILD", ROOT / "build/release"))
TOOL = BUILD / "tests/formats/formats_codec_tool"

# Codes of a format, and the type that ml_dtypes or numpy has for it. ml_dtypes has no ue4m3; it is e4m3 without a sign.
TYPES = {
    "e4m3": (256, ml_dtypes.float8_e4m3fn),
    "e5m2": (256, ml_dtypes.float8_e5m2),
    "e2m1": (16, ml_dtypes.float4_e2m1fn),
    "ue8m0": (256, ml_dtypes.float8_e8m0fnu),
    "ue4m3": (128, ml_dtypes.float8_e4m3fn),
    "bf16": (65536, ml_dtypes.bfloat16),
    "f16": (65536, np.float16),
}
UNSIGNED = {"ue8m0", "ue4m3"}
OVERFLOWS = ["saturate", "saturate_finite", "propagate"]


def tool(*words, data):
    assert TOOL.exists(), f"{TOOL} is missing: `make build` makes it; TILEWRIGHT_BUILD names another build folder"
    done = subprocess.run([TOOL, *words], input=data.tobytes(), capture_output=True, check=True)
    return done.stdout


def decoded(name, codes):
    return np.frombuffer(tool("decode", name, data=codes.astype(np.uint32)), np.float32)


def encoded(name, numbers, overflow):
    return np.frombuffer(tool("encode", name, overflow, data=numbers.astype(np.float32)), np.uint32)


def peer_decoded(name):
    """The values of all codes, as the peer has them."""
    count, peer = TYPES[name]
    codes = np.arange(count, dtype=np.uint16 if count > 256 else np.uint8)
    return codes.view(peer).astype(np.float32)


def peer_encoded(name, numbers):
    count, peer = TYPES[name]
    with np.errstate(over="ignore", invalid="ignore"):
        return numbers.astype(peer).view(np.uint16 if count > 256 else np.uint8).astype(np.uint32)


def largest(name):
    values = peer_decoded(name)
    return values[np.isfinite(values)].max()


def boundaries(name):
    """Every finite value, the midpoint of every adjacent pair, and the f32 numbers just below and above each."""
    values = np.unique(peer_decoded(name)[np.isfinite(peer_decoded(name))]).astype(np.float64)
    middles = (values[:-1] + values[1:]) / 2
    assert np.array_equal(middles.astype(np.float32).astype(np.float64), middles), "midpoints are f32 numbers"
    step = values[-1] - values[-2] if name != "ue8m0" else values[-1]
    beyond = np.array([values[-1] + step / 2, values[-1] + step, values[-1] * 2, 3e38])
    with np.errstate(over="ignore"):
        points = np.concatenate([values, middles, beyond, -beyond]).astype(np.float32)
    points = points[np.isfinite(points)]
    return np.concatenate([points, np.nextafter(points, np.float32(-np.inf)), np.nextafter(points, np.float32(np.inf))])


def every_exponent():
    """All bf16 and all f16 numbers: all exponents of f32, its subnormals, infinity and NaN among them."""
    bf16 = (np.arange(65536, dtype=np.uint32) << 16).view(np.float32)
    f16 = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    return np.concatenate([bf16, f16])


def inputs(name):
    numbers = np.concatenate([boundaries(name), every_exponent()])
    # Neither scale format has a code for a negative number; tests/formats/codec_test.cpp asserts the NaN.
    return numbers[~(np.signbit(numbers) & ~np.isnan(numbers))] if name in UNSIGNED else numbers


def nan_codes(name, codes):
    count, _ = TYPES[name]
    return np.isnan(peer_decoded(name)[codes % count])


def expect_same(name, numbers, ours, theirs):
    """Equal codes, or NaN on both sides: codec.h writes one canonical NaN, ml_dtypes keeps the sign."""
    same = (ours == theirs) | (nan_codes(name, ours) & nan_codes(name, theirs))
    wrong = np.flatnonzero(~same)[:5]
    assert same.all(), [(float(numbers[i]), hex(ours[i]), hex(theirs[i])) for i in wrong]


@pytest.mark.parametrize("name", TYPES)
def test_every_code_decodes_alike(name):
    theirs = peer_decoded(name)
    ours = decoded(name, np.arange(len(theirs)))
    same = (ours.view(np.uint32) == theirs.view(np.uint32)) | (np.isnan(ours) & np.isnan(theirs))
    assert same.all(), np.flatnonzero(~same)


@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("name", TYPES)
def test_finite_numbers_in_range_encode_alike(name, overflow):
    numbers = inputs(name)
    numbers = numbers[np.isfinite(numbers) & (np.abs(numbers) <= largest(name))]
    if name == "ue8m0":
        numbers = numbers[numbers != 0]  # no code for zero: see test_ue8m0_has_no_zero
        numbers = numbers[(numbers <= 2.0**-127) | (numbers >= 1.5 * 2.0**-127)]  # see test_ue8m0_rounds_subnormals
    expect_same(name, numbers, encoded(name, numbers, overflow), peer_encoded(name, numbers))


@pytest.mark.parametrize("name", TYPES)
def test_overflow_propagates_alike(name):
    # ml_dtypes propagates always: to infinity, in e4m3fn and e8m0fnu to NaN; e2m1fn, which has neither, saturates.
    numbers = inputs(name)
    numbers = numbers[np.abs(numbers) > largest(name)]
    assert np.isinf(numbers).any() and np.isfinite(numbers).any()
    expect_same(name, numbers, encoded(name, numbers, "propagate"), peer_encoded(name, numbers))


@pytest.mark.parametrize("name", TYPES)
def test_overflow_saturates(name):
    # ml_dtypes has no saturating conversion: clipping its input is one, because the largest number is exact.
    numbers = inputs(name)
    numbers = numbers[np.abs(numbers) > largest(name)]
    clipped = np.clip(numbers, -largest(name), largest(name))
    expect_same(name, numbers, encoded(name, numbers, "saturate"), peer_encoded(name, clipped))
    finite = np.isfinite(numbers)
    assert np.array_equal(encoded(name, numbers[finite], "saturate_finite"), peer_encoded(name, clipped[finite]))
    infinite = numbers[~finite]
    expect_same(name, infinite, encoded(name, infinite, "saturate_finite"), encoded(name, infinite, "propagate"))


@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("name", TYPES)
def test_nan_becomes_the_canonical_nan(name, overflow):
    numbers = every_exponent()
    numbers = numbers[np.isnan(numbers)]
    codes = np.unique(encoded(name, numbers, overflow))
    assert len(codes) == 1
    if name == "e2m1":
        # e2m1 has no NaN. ml_dtypes makes NaN a zero, which hides it; ours is 6, the largest, and the quantisers signal
        # the block by a NaN scale.
        assert codes[0] == 7
    else:
        assert nan_codes(name, codes).all() and nan_codes(name, peer_encoded(name, numbers)).all()


def test_ue8m0_has_no_zero():
    zero = np.zeros(1, np.float32)
    # Not saturating, NaN as ml_dtypes has it; saturating, the nearest code, which CUDA's conversion gives too.
    assert encoded("ue8m0", zero, "propagate")[0] == peer_encoded("ue8m0", zero)[0] == 255
    assert encoded("ue8m0", zero, "saturate")[0] == encoded("ue8m0", zero, "saturate_finite")[0] == 0


def test_ue8m0_rounds_subnormals_to_nearest_too():
    # Between 2^-127 and 2^-126, where f32 is subnormal, ml_dtypes 0.6.0 rounds all up; below 1.5 * 2^-127 the nearest
    # power is the smaller one.
    numbers = np.arange(2**22 + 1, 2**22 + 2**21, 997, dtype=np.uint32).view(np.float32)
    assert (encoded("ue8m0", numbers, "saturate") == 0).all()


def test_f32_is_kept():
    numbers = every_exponent()
    numbers = numbers[~np.isnan(numbers)]
    assert np.array_equal(encoded("f32", numbers, "propagate"), numbers.view(np.uint32))
    assert np.array_equal(decoded("f32", numbers.view(np.uint32)).view(np.uint32), numbers.view(np.uint32))
