"""Packed weights in Python: packed, multiplied, stored, sent and unpacked."""

import pickle

import numpy as np
import pytest
import tilewright as tw

RANDOM = np.random.default_rng(3)


def weights(recipe, shape):
    return tw.quantize(RANDOM.standard_normal(shape).astype(np.float32), recipe)


def as_bytes(array):
    return None if array is None else np.asarray(array).tobytes()


@pytest.mark.parametrize("recipe", ["mxfp4", "nvfp4"])
@pytest.mark.parametrize("activations", ["fp8", "bf16"])
@pytest.mark.parametrize("shape", [(5, 34), (130, 2880), (3, 70, 96)])
def test_unpack_gives_the_same_arrays(recipe, activations, shape):
    given = weights(recipe, shape)
    packed = tw.pack_weights(given, activations)
    assert (packed.recipe, packed.activations, packed.shape) == (recipe, activations, shape)
    back = packed.unpack()
    for name in ("values", "scales", "tensor_scale"):
        assert as_bytes(getattr(back, name)) == as_bytes(getattr(given, name))
    assert np.array_equal(packed.dequantize(), given.dequantize())


@pytest.mark.parametrize("arithmetic", ["fast", "bit_exact"])
@pytest.mark.parametrize(("a", "activations"), [("1x128", "fp8"), ("mxfp8", "fp8"), ("bf16", "bf16"), ("nvfp4", "bf16")])
def test_multiplies_as_the_weights_do(a, activations, arithmetic):
    given = weights("mxfp4", (3, 66, 160))
    activation = tw.quantize(RANDOM.standard_normal((9, 160)).astype(np.float32), a)
    options = {"offsets": [4, 4, 9], "arithmetic": arithmetic, "out_dtype": "f32"}
    expected = tw.grouped_gemm(activation, given, **options)
    assert np.array_equal(tw.grouped_gemm(activation, tw.pack_weights(given, activations), **options), expected)


def test_travels_as_bytes():
    packed = tw.pack_weights(weights("mxfp4", (64, 128)), "fp8")
    for copy in (pickle.loads(pickle.dumps(packed)), tw.PackedWeights(np.array(packed.data))):
        assert copy.data.tobytes() == packed.data.tobytes() and copy.shape == (64, 128)


def test_says_what_is_wrong():
    packed = tw.pack_weights(weights("mxfp4", (64, 128)), "fp8")
    a = RANDOM.standard_normal((4, 128)).astype(np.float16)
    with pytest.raises(tw.InvalidCall, match="packed for fp8 activations given, bf16 expected for a of f16; pack them again"):
        tw.gemm(a, packed)
    activation = tw.quantize(a.astype(np.float32), "1x128")
    with pytest.raises(tw.InvalidCall, match="nt or tt expected"):
        tw.gemm(activation, packed, layout="nn")
    with pytest.raises(tw.InvalidCall, match="activations expected; packed weights are b"):
        tw.gemm(packed, packed)
    newer = np.array(packed.data)
    newer[8] = 2
    with pytest.raises(tw.InvalidCall, match="layout version 2 given, version 1 expected; pack the weights again"):
        tw.gemm(activation, tw.PackedWeights(newer))
    with pytest.raises(ValueError, match="without the header"):
        tw.PackedWeights(np.zeros(4096, np.uint8))
    with pytest.raises(ValueError, match="the copy is not complete"):
        tw.PackedWeights(packed.data[:-128])
    with pytest.raises(ValueError, match="'fp8' or 'bf16'"):
        tw.pack_weights(weights("mxfp4", (64, 128)), "fp16")
    with pytest.raises(ValueError, match="mxfp4 or nvfp4 expected"):
        tw.pack_weights(weights("row", (64, 128)), "fp8")
