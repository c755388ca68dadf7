"""torch tensors on the CPU, where torch is installed; tests/python/test_arrays.py covers DLPack without it."""

import numpy as np
import pytest
import tilewright as tw

torch = pytest.importorskip("torch")


def test_torch_in_torch_out():
    a, b = torch.ones(2, 32), torch.ones(3, 32)
    d = tw.gemm(a, b)
    assert d.dtype == torch.bfloat16 and d.tolist() == [[32] * 3] * 2
    out = torch.zeros(2, 3)
    assert tw.gemm(a, b, out=out) is out and out.tolist() == [[32] * 3] * 2


@pytest.mark.parametrize("recipe", ["tensor", "row", "1x128", "e5m2.row", "mxfp8", "mxfp4", "nvfp4"])
def test_torch_and_numpy_give_the_same(rng, recipe):
    x = rng.standard_normal((4, 128)).astype(np.float32)
    ours, theirs = tw.quantize(x, recipe), tw.quantize(torch.from_numpy(x), recipe)
    assert isinstance(theirs.values, torch.Tensor) and isinstance(theirs.scales, torch.Tensor)
    np.testing.assert_array_equal(theirs.values.view(torch.uint8).numpy(), ours.values.view(np.uint8))
    np.testing.assert_array_equal(theirs.dequantize().numpy(), ours.dequantize())
    pair = (theirs, theirs) if recipe != "1x128" else (theirs, tw.quantize(torch.from_numpy(x), "128x128"))
    assert isinstance(tw.gemm(*pair), torch.Tensor)
    assert theirs.addresses[0] == theirs.values.data_ptr()


def test_views_and_bfloat16():
    wide = torch.arange(64, dtype=torch.bfloat16).reshape(8, 8)
    np.testing.assert_array_equal(
        tw.gemm(wide[::2, 1:5], wide.T[:3, :4], out_dtype="f32").numpy(),
        (wide[::2, 1:5].float() @ wide.T[:3, :4].float().T).numpy(),
    )


def test_a_tensor_that_requires_a_gradient():
    """Refused where the gradient would be lost in silence; parameters of a model pass where none is wanted."""
    weight = torch.nn.Parameter(torch.ones(2, 4))
    with pytest.raises(ValueError, match=r"b: a tensor that requires a gradient given.*x\.detach\(\)"):
        tw.gemm(torch.ones(2, 4), weight)
    with torch.no_grad():
        assert tw.gemm(torch.ones(2, 4), weight).tolist() == [[4, 4], [4, 4]]
