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


class OnGpu:
    """What torch's tensor on a GPU is asked for."""

    is_cuda, device = True, "meta"

    def __init__(self, data):
        self.host = data

    def cpu(self):
        return self.host


@pytest.mark.parametrize("recipe", ["mxfp4", "nvfp4"])
def test_weights_on_a_gpu_are_unpacked_on_the_host_and_copied_back(monkeypatch, recipe):
    torch = pytest.importorskip("torch")
    packed = tw.pack_weights(tw.quantize(torch.randn(70, 96), recipe), "bf16")
    there = OnGpu(packed.data)
    asked = []
    monkeypatch.setattr(tw.PackedWeights, "data", property(lambda self: there if self is packed else self.values))
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device: asked.append((self, device)) or self)
    back, real = packed.unpack(), packed.dequantize("bf16")
    monkeypatch.undo()
    assert as_bytes(packed.data) == as_bytes(there.host)
    assert [device for _, device in asked] == ["meta"] * (4 if recipe == "nvfp4" else 3)
    assert asked[-1][0] is real and real.dtype == torch.bfloat16
    assert torch.equal(real, packed.dequantize("bf16")) and torch.equal(back.values, packed.unpack().values)


@pytest.mark.parametrize("arithmetic", ["fast", "bit_exact"])
@pytest.mark.parametrize(("a", "activations"), [("1x128", "fp8"), ("mxfp8", "fp8"), ("bf16", "bf16"), ("nvfp4", "bf16")])
def test_multiplies_as_the_weights_do(a, activations, arithmetic):
    given = weights("mxfp4", (3, 66, 160))
    activation = tw.quantize(RANDOM.standard_normal((9, 160)).astype(np.float32), a)
    options = {"offsets": [4, 4, 9], "arithmetic": arithmetic, "out_dtype": "f32"}
    expected = tw.grouped_gemm(activation, given, **options)
    assert np.array_equal(tw.grouped_gemm(activation, tw.pack_weights(given, activations), **options), expected)


@pytest.mark.parametrize("a", ["1x128", "row", "bf16"])
def test_nvfp4_goes_with_all_whatever_it_was_packed_for(a):
    given = weights("nvfp4", (66, 160))
    activation = tw.quantize(RANDOM.standard_normal((9, 160)).astype(np.float32), a)
    expected = tw.gemm(activation, given, arithmetic="bit_exact")
    for activations in ("fp8", "bf16"):
        packed = tw.pack_weights(given, activations)
        assert as_bytes(tw.gemm(activation, packed, arithmetic="bit_exact")) == as_bytes(expected)


def test_travels_as_bytes():
    packed = tw.pack_weights(weights("mxfp4", (64, 128)), "fp8")
    for copy in (pickle.loads(pickle.dumps(packed)), tw.PackedWeights(np.array(packed.data))):
        assert copy.data.tobytes() == packed.data.tobytes() and copy.shape == (64, 128)


def test_says_what_is_wrong():
    packed = tw.pack_weights(weights("mxfp4", (64, 128)), "fp8")
    a = RANDOM.standard_normal((4, 128)).astype(np.float16)
    with pytest.raises(tw.InvalidCall, match="got weights packed for fp8 activations; expected weights packed for bf16 activations, because a is f16."):
        tw.gemm(a, packed)
    activation = tw.quantize(a.astype(np.float32), "1x128")
    with pytest.raises(tw.InvalidCall, match="nt or tt"):
        tw.gemm(activation, packed, layout="nn")
    with pytest.raises(tw.InvalidCall, match="activations. Pass packed weights as b"):
        tw.gemm(packed, packed)
    newer = np.array(packed.data)
    newer[8] = 4
    with pytest.raises(tw.InvalidCall, match="got layout version 4; expected version 3. Pack the weights again."):
        tw.gemm(activation, tw.PackedWeights(newer))
    with pytest.raises(ValueError, match=r"Quantize them first: tilewright.quantize\(weights, 'mxfp4'\)\."):
        tw.pack_weights(np.eye(32, dtype=np.float32), "bf16")
    with pytest.raises(ValueError, match="without the header"):
        tw.PackedWeights(np.zeros(4096, np.uint8))
    with pytest.raises(ValueError, match="The copy is incomplete: copy all bytes"):
        tw.PackedWeights(packed.data[:-128])
    with pytest.raises(ValueError, match="'fp8' or 'bf16'"):
        tw.pack_weights(weights("mxfp4", (64, 128)), "fp16")
    with pytest.raises(ValueError, match="mxfp4 or nvfp4"):
        tw.pack_weights(weights("row", (64, 128)), "fp8")


def test_drop_in_takes_packed_weights():
    torch = pytest.importorskip("torch")
    from tilewright import deep_gemm

    given = tw.quantize(torch.randn(3, 66, 256), "mxfp4")
    packed = tw.pack_weights(given, "fp8")
    a = tw.quantize(torch.randn(128, 256), "1x128")
    pair = (a.values, a.scales)
    one = tw.pack_weights(tw.Quantized(given.values[1], "mxfp4", given.scales[1]), "fp8")
    d = torch.empty(128, 66, dtype=torch.bfloat16)
    deep_gemm.fp8_fp4_gemm_nt(pair, one, d)
    assert torch.equal(d, tw.gemm(a, one))
    indices = torch.full((128,), 2, dtype=torch.int32)
    deep_gemm.m_grouped_fp8_fp4_gemm_nt_contiguous(pair, packed, d, indices)
    assert torch.equal(d, tw.grouped_gemm(a, given, indices=indices))
    ends = torch.tensor([0, 0, 100], dtype=torch.int32)
    deep_gemm.m_grouped_fp8_fp4_gemm_nt_contiguous(pair, packed, d, ends, use_psum_layout=True)
    assert torch.equal(d[:100], tw.grouped_gemm(a, given, indices=indices)[:100])
    masked = torch.empty(3, 128, 66, dtype=torch.bfloat16)
    counts = torch.tensor([0, 128, 0], dtype=torch.int32)
    batch = (a.values[None].expand(3, -1, -1), a.scales[None].expand(3, -1, -1))
    deep_gemm.m_grouped_fp8_fp4_gemm_nt_masked(batch, packed, masked, counts, 40)
    assert torch.equal(masked[1], tw.gemm(a, one))
    with pytest.raises(tw.InvalidCall, match="packed weights"):
        deep_gemm.m_grouped_fp8_fp4_gemm_nt_contiguous(pair, one, d, indices)
