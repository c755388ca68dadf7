"""Arrays that speak DLPack and nothing else, made with ctypes: element types and devices that numpy does not export."""

import ctypes

CPU, CUDA = 1, 2
UINT, FLOAT, BFLOAT, E4M3FN, E5M2, E8M0FNU, E2M1FN = 1, 2, 4, 10, 12, 14, 17


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _ManagedTensor(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class Producer:
    """The memory of a contiguous numpy array under another element type. `released` counts the deleter's calls."""

    def __init__(self, array, code, bits, *, lanes=1, device=CPU, strides=None):
        self.array = array
        self.type = (code, bits, lanes)
        self.device = device
        self.exported = self.released = 0
        self._shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self._strides = (ctypes.c_int64 * array.ndim)(*strides) if strides else None
        self._deleter = _Deleter(self._release)
        self._managed = []

    def _release(self, _):
        self.released += 1

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, *, stream=None):
        """The protocol before 1.0: no max_version, strides left out when rows follow one another."""
        code, bits, lanes = self.type
        tensor = _Tensor(self.array.ctypes.data, self.device, 0, self.array.ndim, code, bits, lanes, self._shape)
        tensor.strides = self._strides
        managed = _ManagedTensor(tensor, None, self._deleter)
        self._managed.append(managed)
        self.exported += 1
        return _new_capsule(ctypes.addressof(managed), b"dltensor", None)


class _VersionedTensor(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_FromPython = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))


_CurrentStream = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class _Exchange(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("from_python", _FromPython),
        ("to_python", ctypes.c_void_p),
        ("view_from_python", ctypes.c_void_p),
        ("current_stream", _CurrentStream),
    )


@_FromPython
def _from_python(producer, out):
    code, bits, lanes = producer.type
    tensor = _Tensor(
        producer.array.ctypes.data, producer.device, 0, producer.array.ndim, code, bits, lanes, producer._shape
    )
    managed = _VersionedTensor((1, 1), None, producer._deleter, 0, tensor)
    producer._managed.append(managed)
    producer.exported += 1
    out[0] = ctypes.addressof(managed)
    return 0


streams_asked_for: list[tuple[int, int]] = []


@_CurrentStream
def _current_stream(device_type, device, out):
    streams_asked_for.append((device_type, device))
    out[0] = 0x1234
    return 0


_EXCHANGE_NAME = b"dlpack_exchange_api"  # capsules keep the pointer
_exchange = _Exchange((1, 2), None, None, _from_python, None, None, _current_stream)


class ExchangeProducer(Producer):
    """Offers DLPack's C exchange, as torch does, and no __dlpack__."""

    __dlpack_c_exchange_api__ = _new_capsule(ctypes.addressof(_exchange), _EXCHANGE_NAME, None)
    __dlpack__ = None
