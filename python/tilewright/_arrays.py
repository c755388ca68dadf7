"""Array libraries: which of their dtypes hold which format, and new arrays of theirs."""

from __future__ import annotations

import functools
import operator
import sys
from typing import Any, TypeAlias

import numpy as np

from tilewright import _core

Array: TypeAlias = Any
"""Anything with DLPack or the buffer protocol: a numpy array (ml_dtypes dtypes too), a torch tensor, ..."""

# Names of the formats in ml_dtypes and torch. There e2m1 is packed, two per byte, so it is uint8 everywhere. In both libraries
# ue4m3 has no name: it has the codes of e4m3.
_DTYPE_NAMES = {
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e2m1": "uint8",
    "ue8m0": "float8_e8m0fnu",
    "ue4m3": "float8_e4m3fn",
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "i32": "int32",
}
_CARRIERS = {"e4m3": "uint8", "e5m2": "uint8", "ue8m0": "uint8", "bf16": "uint16"}
_USUAL_DTYPES = frozenset(("float32", "float16", "int32", "int64", "uint8", *_DTYPE_NAMES.values()))
_OTHER_BYTE_ORDER = ">" if sys.byteorder == "little" else "<"
# Where a library has no dtype for a format, its codes travel in these.
_CODES = {"bf16": "uint16"}


def _ml_dtypes() -> Any:
    try:
        import ml_dtypes
    except ImportError:
        return None
    return ml_dtypes


@functools.cache
def numpy_dtype(format: str) -> np.dtype:
    """The dtype of a new numpy array: without ml_dtypes, bf16 is uint16 and the 8-bit formats are uint8 (codes)."""
    name = _DTYPE_NAMES[format]
    for library in (np, _ml_dtypes()):
        if hasattr(library, name):
            dtype: np.dtype = np.dtype(getattr(library, name))
            return dtype
    return np.dtype(_CODES.get(format, "uint8"))


@functools.cache
def torch_dtype(format: str) -> Any:
    """The dtype of a new torch tensor: versions without float8_e8m0fnu get uint8."""
    return getattr(sys.modules["torch"], _DTYPE_NAMES[format], None) or sys.modules["torch"].uint8


def is_torch(array: Array) -> bool:
    return "torch" in sys.modules and isinstance(array, sys.modules["torch"].Tensor)


def wants_gradient(array: Array) -> bool:
    """Whether torch would follow this tensor through a computation."""
    return is_torch(array) and bool(array.requires_grad) and bool(sys.modules["torch"].is_grad_enabled())


def usual_tensor_types() -> tuple[type, ...]:
    """Those whose memory may be asked for. Called for the first array that has `requires_grad`, torch's or not."""
    torch = sys.modules.get("torch")
    return (torch.Tensor, torch.nn.Parameter) if torch else ()


def is_masked(array: Array) -> bool:
    return isinstance(array, np.ma.MaskedArray)


def strides(array: Array) -> tuple[int, ...] | None:
    """Strides of a numpy array or torch tensor, in elements; None for other libraries."""
    if isinstance(array, np.ndarray):
        return tuple(stride // array.itemsize for stride in array.strides)
    return tuple(array.stride()) if is_torch(array) else None


Reason: TypeAlias = tuple[str, str, str]
"""The array as it is, what is expected, and what to do."""


def reason_to_refuse(array: Array) -> Reason | None:
    """Why an array cannot be read, whatever its dtype. None: unknown."""
    if isinstance(array, np.ndarray):
        return _reason_of_numpy(array)
    reason = _reason_of_torch(array) if is_torch(array) else None
    return reason or _reason_of_export(array)


def _reason_of_numpy(array: np.ndarray) -> Reason | None:
    dtype = array.dtype
    if dtype.names:
        return f"an array of records ({', '.join(dtype.names)})", "an array of numbers", f"pass x[{dtype.names[0]!r}]"
    if dtype.kind == "O":
        return "an array of Python objects", "an array of numbers", "convert it, e.g. x.astype(numpy.float32)"
    if array.itemsize and any(stride % array.itemsize for stride in array.strides):
        given = f"strides of {list(array.strides)} bytes for elements of {array.itemsize}"
        return given, "strides that are multiples of the element size", "pass numpy.ascontiguousarray(x)"
    if dtype.byteorder == _OTHER_BYTE_ORDER:
        return f"{dtype} in the other byte order", "the machine's byte order", "pass x.astype(x.dtype.newbyteorder())"
    return None


def _reason_of_torch(tensor: Array) -> Reason | None:
    return _reason_of_kind(tensor) or _reason_of_layout(tensor) or _reason_of_place(tensor)


def _reason_of_kind(tensor: Array) -> Reason | None:
    """Tensors that have their numbers elsewhere."""
    torch = sys.modules["torch"]
    names = {kind.__name__ for kind in type(tensor).__mro__}
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor) or torch._is_functional_tensor(tensor):
        return "a tensor inside torch.func (vmap, grad)", "one with memory", "call it outside, with a batch of groups"
    if "UninitializedTensorMixin" in names:
        return "a parameter that has no shape yet", "one with memory", "run the lazy module once before"
    if "DTensor" in names:
        return "a DTensor", "a tensor of one process", "pass x.to_local(), or x.full_tensor()"
    if "MaskedTensor" in names:
        return "a masked tensor", "one without a mask", "pass x.to_tensor(value), or x.get_data()"
    if "FunctionalTensor" in names:
        return "a tensor that is being traced", "one with memory", "call it outside of the traced function"
    if tensor.device.type == "meta" or "FakeTensor" in names:
        return "a tensor without memory (meta or fake)", "one with memory", "make it on the CPU or a GPU"
    return None


def _reason_of_layout(tensor: Array) -> Reason | None:
    torch = sys.modules["torch"]
    if tensor.is_nested:
        advice = "pass x.values() with x.offsets(), or torch.nested.to_padded_tensor(x, 0)"
        return f"a nested tensor ({tensor.layout})", "one whose rows have one length", advice
    if tensor.is_mkldnn:
        return "a tensor in oneDNN's own order (torch._mkldnn)", "a dense one", "pass x.to_dense()"
    if tensor.layout != torch.strided:
        return f"a sparse tensor ({tensor.layout})", "a dense one", "pass x.to_dense()"
    if tensor.is_quantized:
        advice = "pass x.dequantize(); Quantized takes no zero points"
        return f"a tensor that torch has quantised ({tensor.dtype})", "one of floating-point numbers", advice
    return None


def _reason_of_place(tensor: Array) -> Reason | None:
    if tensor.device.type not in ("cpu", "cuda"):
        return f"a tensor on {tensor.device}", "memory of the host or of a CUDA device", "copy it first, e.g. x.cpu()"
    if wants_gradient(tensor):
        advice = "pass x.detach(), or call it under torch.no_grad()"
        return "a tensor that requires a gradient", "one that does not", advice
    is_wrapper = type(tensor).__torch_dispatch__ != sys.modules["torch"].Tensor.__torch_dispatch__
    if is_wrapper and not _has_memory(tensor):
        name = type(tensor).__name__
        return f"{name}, a tensor that has no memory of its own", "one with memory", f"pass what {name} wraps"
    return None


def _has_memory(tensor: Array) -> bool:
    try:
        return bool(tensor.numel() == 0 or tensor.data_ptr() != 0)
    except (RuntimeError, NotImplementedError, TypeError):
        return False


def _reason_of_export(array: Array) -> Reason | None:
    """Why the library of an array does not show its memory, although its dtype would do."""
    if not hasattr(array, "__dlpack__") or str(getattr(array, "dtype", "")).rpartition(".")[2] not in _USUAL_DTYPES:
        return None
    try:
        (array.detach() if is_torch(array) else array).__dlpack__()
    except Exception as error:  # whatever the library raises
        given = f"{type(array).__name__} of {array.dtype} whose memory cannot be had ({error})"
        return given, "an array with DLPack or the buffer protocol", "copy it to an ordinary array first"
    return None


def integers(argument: str, sizes: Array) -> Array:
    """A list or tuple as an array of int64, other arrays as they are."""
    if not isinstance(sizes, list | tuple):
        return sizes
    for i, size in enumerate(sizes):
        if type(size) is int and -(2**63) <= size < 2**63:
            continue
        if isinstance(size, bool | np.bool_) or not hasattr(type(size), "__index__"):
            _core.refuse(f"{argument}[{i}]", repr(size), "an integer of 64 bits")
        if not -(2**63) <= operator.index(size) < 2**63:
            _core.refuse(f"{argument}[{i}]", repr(size), "an integer of 64 bits")
    return np.array([operator.index(size) for size in sizes], np.int64)


def new_array(like: Array, shape: tuple[int, ...], format: str, zeros: bool) -> Array:
    """An array of `format` from the library of `like`: torch, on the same device, or else numpy."""
    if is_torch(like):
        make = sys.modules["torch"].zeros if zeros else sys.modules["torch"].empty
        return make(shape, dtype=torch_dtype(format), device=like.device)
    return (np.zeros if zeros else np.empty)(shape, numpy_dtype(format))


def new_workspace(size: int, device: int, stream: int) -> Array:
    """Bytes of torch's allocator for work on the stream of this address."""
    torch = sys.modules["torch"]
    current = torch.cuda.current_stream(device)
    if stream == current.cuda_stream:
        return torch.empty(size, dtype=torch.uint8, device=current.device)
    default = torch.cuda.default_stream(device)
    on = default if stream == default.cuda_stream else torch.cuda.ExternalStream(stream, device=current.device)
    with torch.cuda.stream(on):
        return torch.empty(size, dtype=torch.uint8, device=current.device)


def current_stream(array: Array, device: int) -> int:
    """The address of the CUDA stream that torch works on now; 0, the default stream, for other libraries."""
    return int(sys.modules["torch"].cuda.current_stream(device).cuda_stream) if is_torch(array) else 0


def register_ml_dtypes() -> None:
    """numpy exports no array of ml_dtypes by DLPack or as a buffer: they are read through a view of their codes."""
    library = _ml_dtypes()
    if library is None:
        return
    for format, carrier in _CARRIERS.items():
        dtype = getattr(library, _DTYPE_NAMES[format], None)
        if dtype is not None:
            _core.register_dtype(np.dtype(dtype), format, getattr(np, carrier))
    _core.register_dtype(np.dtype(library.float4_e2m1fn), "", None)  # one to a byte


def learn_dtypes(array: Array) -> None:
    """Called for an array that could not be read: older versions of torch do not export fp8 or fp4 by DLPack."""
    if not is_torch(array):
        return
    torch = sys.modules["torch"]
    for format, carrier in _CARRIERS.items():
        dtype = getattr(torch, _DTYPE_NAMES[format], None)
        if dtype is not None and carrier == "uint8":
            _core.register_dtype(dtype, format, torch.uint8)
    if hasattr(torch, "float4_e2m1fn_x2"):
        _core.register_dtype(torch.float4_e2m1fn_x2, "e2m1", torch.uint8)


register_ml_dtypes()
