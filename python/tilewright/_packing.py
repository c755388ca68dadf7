"""Packed weights: MXFP4 and NVFP4 weights in the order of a tensor core's registers."""

from __future__ import annotations

from typing import Literal, TypeAlias

from tilewright import _core
from tilewright._arrays import Array
from tilewright._quantize import Format, Quantized

PackedFor: TypeAlias = Literal["fp8", "bf16"]

_HEADER_BYTES = 128
_READ_ONLY = frozenset(("data", "header", "recipe", "activations", "version", "shape"))


def _is_on_gpu(data: Array) -> bool:
    """Whether it is a tensor of torch on a GPU, which can be copied to the host."""
    return bool(getattr(data, "is_cuda", False))


class PackedWeights(_core.Operand):
    """Packed weights [n, k] or [groups, n, k]: the b of a multiplication, in layouts nt and tt.

    `pack_weights` makes them. They are one array of bytes, which any file format stores. The constructor reads it again:
    `PackedWeights(tensors["experts.packed"])`.

    Args:
        data: [bytes] of uint8, header first.
        header: The first 128 bytes of data, needed if data is on a GPU: `PackedWeights(packed.data.cuda(), packed.header)`.

    Raises:
        ValueError: data is not a complete result of `pack_weights`. Multiplications refuse weights of another layout
            version, or packed for other activations, and say to pack again.
    """

    __slots__ = ()

    def __init__(self, data: Array, header: bytes | None = None) -> None:
        _core.Operand.__init__(self, data, header)

    @property
    def data(self) -> Array:
        """The array of bytes."""
        return self.values

    @property
    def header(self) -> bytes:
        """The first 128 bytes."""
        return _core.packed_header(self)

    @property
    def recipe(self) -> str:
        """'mxfp4' or 'nvfp4'."""
        return _core.packed_recipe(self)

    @property
    def activations(self) -> str:
        """'fp8' (packed for fp8 and MXFP4 activations) or 'bf16' (for bf16, f16, f32 and NVFP4 activations).

        NVFP4 weights go with all activations in either case.
        """
        return _core.packed_for(self)

    @property
    def version(self) -> int:
        """The version of the layout of the bytes."""
        return _core.packed_version(self)

    def __setattr__(self, name: str, value: object) -> None:
        if name in _READ_ONLY:
            raise AttributeError(f"PackedWeights.{name} is read-only: pack again")
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[type[PackedWeights], tuple[Array, bytes]]:
        return type(self), (self.data, self.header)

    def unpack(self, *, threads: int = 0) -> Quantized:
        """The weights before packing, bit for bit, in new arrays on the device of the packed ones.

        The CPU unpacks. Tensors of torch on a GPU are copied to the host and back; other arrays on a GPU are refused.

        Args:
            threads: CPU threads; 0 = all. Default: 0.
        """
        values, scales, tensor_scale = (self._as_data(x) for x in _core.unpack_weights(self._on_host(), threads))
        return Quantized(values, self.recipe, scales, tensor_scale)

    def dequantize(self, dtype: Format = "f32", *, threads: int = 0) -> Array:
        """The real matrix, on the device where `unpack` would put the weights.

        Args:
            dtype: "f32", "bf16" or "f16". Default: "f32".
            threads: CPU threads; 0 = all. Default: 0.
        """
        return self._as_data(self._on_host().unpack(threads=threads).dequantize(dtype, threads=threads))

    def _on_host(self) -> PackedWeights:
        return PackedWeights(self.data.cpu()) if _is_on_gpu(self.data) else self

    def _as_data(self, array: Array) -> Array:
        """Moves the array to the device of the packed weights."""
        return array.to(self.data.device) if array is not None and _is_on_gpu(self.data) else array

    def __repr__(self) -> str:
        return f"<PackedWeights {self.recipe} {list(self.shape)} for {self.activations}>"


def pack_weights(
    weights: Quantized, activations: PackedFor, *, threads: int = 0, stream: object = None
) -> PackedWeights:
    """Packs MXFP4 or NVFP4 weights once. Without it, a call on a GPU packs them, or their scales, each time.

    Args:
        weights: `Quantized` [n, k] or [groups, n, k] of mxfp4 or nvfp4, values adjacent along k. The packed weights are
            on the same device. A GPU gives the CPU's bytes, and the call waits.
        activations: "fp8" for fp8 and MXFP4 activations, "bf16" for bf16, f16, f32 and NVFP4 activations. Packed NVFP4
            weights differ only in the header, and go with all activations.
        threads: CPU threads; 0 = all. Default: 0.
        stream: The stream of a GPU. None: torch's current one.

    Returns:
        `PackedWeights` with a new array of bytes.

    Raises:
        ValueError: the weights cannot be packed. The message says why.

    >>> import numpy as np
    >>> from tilewright import quantize
    >>> packed = pack_weights(quantize(np.eye(32, dtype=np.float32), "mxfp4"), "bf16")

    >>> packed
    <PackedWeights mxfp4 [32, 32] for bf16>
    >>> bool((packed.dequantize() == np.eye(32)).all())
    True
    """
    data: Array = _core.pack_weights(weights, activations, threads, stream)
    return PackedWeights(data, data[:_HEADER_BYTES].cpu().numpy().tobytes() if _is_on_gpu(data) else None)
