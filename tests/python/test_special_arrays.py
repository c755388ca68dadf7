"""Arrays that are no numbers in memory: what is special about them is named, for every argument."""

import warnings

import numpy as np
import pytest
import tilewright as tw

X = np.ones((4, 128), np.float32)


def message(call):
    with pytest.raises(tw.InvalidCall) as caught:
        call()
    return str(caught.value)


CODES = np.zeros((4, 128), np.uint8)
EXPERTS = np.ones((4, 8, 128), np.float32)
ARGUMENTS = {
    "x": lambda array: tw.quantize(array, "row"),
    "a": lambda array: tw.gemm(array, X),
    "b": lambda array: tw.gemm(X, array),
    "out": lambda array: tw.gemm(X, np.ones((128, 128), np.float32), out=array),
    "c": lambda array: tw.gemm(X, np.ones((128, 128), np.float32), c=array, out_dtype="f32"),
    "bias": lambda array: tw.gemm(X, X, bias=array),
    "offsets": lambda array: tw.grouped_gemm(X, EXPERTS, offsets=array),
    "values": lambda array: tw.Quantized(array, "row", np.ones(4, np.float32)),
    "scales": lambda array: tw.Quantized(CODES, "1x128", array),
    "tensor_scale": lambda array: tw.Quantized(CODES, "nvfp4", np.zeros((4, 16), np.uint8), array),
    "data": lambda array: tw.PackedWeights(array),
    "codes": lambda array: tw.decode(array, "e4m3"),
    "ends": lambda array: tw.quantize_tokens(X, array, rows="row"),
    "gradient": lambda array: tw.quantize_tokens(
        np.ones((4, 256), np.float32), rows="row", activation="swiglu_gradient", gradient=array
    ),
    "rows_token_factors": lambda array: tw.quantize_tokens(X, rows="row", rows_token_factors=array),
}

OF_NUMPY = {
    "an array of Python objects": np.ones((4, 128), object),
    "an array of records (u, v)": np.zeros((4, 128), [("u", "f4"), ("v", "f4")]),
    ">f4 in the other byte order": np.ones((4, 128), ">f4"),
    "a masked array": np.ma.masked_array(X, X > 0),
    "complex64": np.ones((4, 128), np.complex64),
}


@pytest.mark.parametrize("given", OF_NUMPY)
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_arrays_of_numpy(argument, given):
    assert message(lambda: ARGUMENTS[argument](OF_NUMPY[given])).startswith(f"{argument}: got {given}; expected ")


def tensors():
    """What is said: such a tensor."""
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            raise NotImplementedError

    x = torch.ones(4, 128)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of prototypes
        return {
            "a nested tensor (torch.strided)": torch.nested.nested_tensor([x, x[:2]]),
            "a nested tensor (torch.jagged)": torch.nested.nested_tensor([x, x[:2]], layout=torch.jagged),
            "a sparse tensor (torch.sparse_coo)": x.to_sparse(),
            "a sparse tensor (torch.sparse_csr)": x.to_sparse_csr(),
            "a sparse tensor (torch.sparse_csc)": x.to_sparse_csc(),
            "a sparse tensor (torch.sparse_bsr)": x.to_sparse_bsr((2, 2)),
            "a tensor in oneDNN's own order": x.to_mkldnn(),
            "a tensor that torch has quantised (torch.quint8)": torch.quantize_per_tensor(x, 1.0, 0, torch.quint8),
            "a tensor without memory (meta or fake)": x.to("meta"),
            "a tensor without memory (meta or fake) ": FakeTensorMode().from_tensor(x),
            "Wrapper, a tensor that has no memory of its own": Wrapper(x),
            "a parameter that has no shape yet": torch.nn.parameter.UninitializedParameter(),
            "a masked tensor": torch.masked.masked_tensor(x, x > 0),
            "a tensor that requires a gradient": x.clone().requires_grad_(),
            "torch.complex64": torch.ones(4, 128, dtype=torch.complex64).conj(),
        }


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_tensors_of_torch(argument):
    for given, tensor in tensors().items():
        assert message(lambda t=tensor: ARGUMENTS[argument](t)).startswith(f"{argument}: got {given.rstrip()}"), given


def test_a_freed_storage_and_the_negation_bit():
    torch = pytest.importorskip("torch")
    freed = torch.ones(4, 128)
    freed.untyped_storage().resize_(0)
    assert message(lambda: tw.quantize(freed, "row")).startswith("x: got a tensor whose storage was freed;")
    negated = torch.ones(4, 128, dtype=torch.complex64).conj().imag
    assert message(lambda: tw.quantize(negated, "row")).startswith("x: got a tensor with torch's negation bit")


@pytest.mark.parametrize("transform", ["vmap", "grad", "functionalize"])
def test_inside_of_torch_func(transform):
    torch = pytest.importorskip("torch")
    seen = []

    def function(row):
        seen.append(message(lambda: tw.quantize(row, "row")))
        return row.sum()

    getattr(torch.func, transform)(function)(torch.ones(2, 4, 128))
    assert all(text.startswith("x: got a tensor inside torch.func") for text in seen) and seen


def test_a_tensor_of_several_processes():
    torch = pytest.importorskip("torch")
    distributed = pytest.importorskip("torch.distributed.tensor")
    torch.distributed.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
    try:
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
        tensor = distributed.distribute_tensor(torch.ones(4, 128), mesh, [distributed.Shard(0)])
        assert message(lambda: tw.quantize(tensor, "row")).startswith("x: got a DTensor;")
    finally:
        torch.distributed.destroy_process_group()


def test_a_library_that_does_not_show_its_memory():
    class Array:
        dtype = "float32"
        shape = (4, 128)

        def __dlpack__(self, **_):
            raise BufferError("it is on its way to another machine")

        def __dlpack_device__(self):
            return 1, 0

    assert message(lambda: tw.quantize(Array(), "row")) == (
        "x: got Array of float32 whose memory cannot be had (it is on its way to another machine); expected an array with "
        "DLPack or the buffer protocol. Copy it to an ordinary array first."
    )


def test_what_simply_works():
    """Repeated rows, memory that is read-only, subclasses with memory of their own."""
    torch = pytest.importorskip("torch")
    expected = tw.quantize(torch.ones(4, 128), "row").dequantize()

    class Named(torch.Tensor):
        pass

    for x in (torch.ones(1, 128).expand(4, 128), torch.ones(4, 128).as_subclass(Named), torch.nn.Parameter(torch.ones(4, 128), False)):
        assert torch.equal(tw.quantize(x, "row").dequantize(), expected)
    repeated = np.broadcast_to(np.float32(1), (4, 128))
    np.testing.assert_array_equal(tw.quantize(repeated, "row").dequantize(), expected.numpy())


# What things say of themselves


def test_explanations_are_readable():
    q, w = tw.quantize(X, "1x128"), tw.quantize(np.ones((256, 128), np.float32), "128x128")
    explanation = tw.explain(q, w, planned_device="h200")
    lines = str(explanation).splitlines()
    assert lines[0].startswith(explanation.chosen.tile) and "us predicted" in lines[0]
    assert explanation.chosen.tile in repr(explanation) and repr(explanation).startswith("<Explanation: ")
    assert lines[1] == "device: h200: all figures measured"
    assert "device: h100-pcie: assumed power_hertz, " in str(tw.explain(q, w, planned_device="h100-pcie"))
    for word in ("tiles on", "launch", "compute", "next best", "rejected"):
        assert word in str(explanation) and word in explanation._repr_html_()
    assert explanation.rejected[0].reason in repr(explanation.rejected[0])
    refused = tw.explain(X, X)
    assert str(refused).startswith("no Hopper kernel: a: got f32;") and str(refused) in repr(refused)
    assert "nothing is launched" in str(tw.explain(tw.quantize(X[:0], "row"), tw.quantize(X, "row")))


def test_every_public_class_has_a_repr():
    q = tw.quantize(X, "mxfp4")
    (finding, *_) = tw.validate(X, X[:, :3])
    plan = tw.explain(tw.quantize(X, "row"), tw.quantize(X, "row")).chosen
    raw = tw.RawArray(4096, (2, 3), "e4m3", device="cuda:1")
    assert repr(raw) == "<RawArray e4m3 [2, 3] at 0x1000 of cuda:1>"
    for thing in (q, tw.pack_weights(q, "fp8"), finding, plan, raw, tw.InvalidCall("a: wrong", [finding])):
        assert type(thing).__name__ in repr(thing) and " object at " not in repr(thing)
