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
    with pytest.raises(ValueError, match=r"b: got a tensor that requires a gradient;.*x\.detach\(\)"):
        tw.gemm(torch.ones(2, 4), weight)
    with torch.no_grad():
        assert tw.gemm(torch.ones(2, 4), weight).tolist() == [[4, 4], [4, 4]]


def test_the_negation_bit():
    """torch reads the imaginary part of a conjugate with the opposite sign of what memory holds."""
    z = torch.complex(torch.zeros(2, 4), torch.ones(2, 4))
    n = z.conj().imag
    assert n.is_neg() and (n == -1).all()
    b = torch.ones(3, 4)
    for call, name in (
        (lambda: tw.gemm(n, b), "a"),
        (lambda: tw.gemm(b, n), "b"),
        (lambda: tw.quantize(n, "row"), "x"),
        (lambda: tw.encode(n[:1, :1], "e4m3"), "x"),
        (lambda: tw.gemm(b[:2], b[:2], out=z.conj().imag[:, :2]), "out"),
    ):
        with pytest.raises(tw.InvalidCall, match=f"^{name}: got a tensor with torch's negation bit.*Pass x.resolve_neg"):
            call()
    assert tw.gemm(n.resolve_neg(), b).tolist() == [[-4] * 3] * 2
    assert tw.gemm(z.imag, b).tolist() == [[4] * 3] * 2  # every second element, without the bit


@pytest.mark.parametrize("name", ["values", "scales"])
def test_a_storage_that_is_freed(name):
    """As FSDP does it between uses of a parameter."""
    q, b = tw.quantize(torch.ones(4, 64), "1x128"), tw.quantize(torch.ones(3, 64), "1x128")
    expected = tw.gemm(q, b)
    storage = getattr(q, name).untyped_storage()
    kept, size = getattr(q, name).clone(), storage.nbytes()
    storage.resize_(0)
    for call, operand in (
        (lambda: tw.gemm(q, b), f"a.{name}"),
        (lambda: tw.gemm(b, q), f"b.{name}"),
        (q.dequantize, name),
    ):
        with pytest.raises(
            tw.InvalidCall, match=f"^{operand}: got a tensor whose storage was freed; expected memory for."
        ):
            call()
    blocker = torch.ones(4, 64)  # takes the old address, if the allocator gives it
    storage.resize_(size)
    getattr(q, name).copy_(kept)
    assert torch.equal(tw.gemm(q, b), expected) and blocker.sum() == 256


def test_a_tensor_of_which_the_storage_is_gone():
    x = torch.ones(4, 64)
    x.untyped_storage().resize_(0)
    for call, operand in ((lambda: tw.gemm(x, x), "a"), (lambda: tw.encode(x, "e4m3"), "x")):
        with pytest.raises(tw.InvalidCall, match=f"^{operand}: got a tensor whose storage was freed; expected memory"):
            call()


def test_tensors_without_memory():
    x = torch.ones(4, 8)
    for wrong, given in (
        (x.to_sparse(), r"got a sparse tensor \(torch.sparse_coo\); expected a dense one. Pass x.to_dense."),
        (x.to("meta"), r"got a tensor without memory \(meta or fake\)"),
    ):
        with pytest.raises(tw.InvalidCall, match=f"^a: {given}"):
            tw.gemm(wrong, x)
    with pytest.raises(tw.InvalidCall, match=r"^a: got a tensor inside torch\.func"):
        torch.vmap(lambda row: tw.gemm(row, x))(torch.ones(2, 4, 8))


@pytest.mark.parametrize("shape", [(4, 2), (1, 2), (4, 0), (0, 4), (2, 3, 2)], ids=str)
def test_fp4_of_two_columns_and_of_none(shape):
    q = tw.quantize(torch.ones(shape), "mxfp4")
    assert q.shape == shape and torch.equal(q.dequantize(), torch.ones(shape))
    assert torch.equal(tw.decode(tw.encode(torch.ones(shape), "e2m1"), "e2m1"), torch.ones(shape))
    turned = torch.zeros(1, 4, dtype=torch.uint8).T
    assert tw.Quantized(turned, "mxfp4", torch.zeros(4, 1, dtype=torch.uint8)).shape == (8, 1)
