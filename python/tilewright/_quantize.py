"""Quantised operands, quantisers, and numbers as codes of a format."""

from __future__ import annotations

from typing import Literal, TypeAlias

from tilewright import _core
from tilewright._arrays import Array
from tilewright._options import OutputFormat

Format: TypeAlias = Literal["e4m3", "e5m2", "e2m1", "ue8m0", "ue4m3", "bf16", "f16", "f32"]

_READ_ONLY = frozenset(("values", "recipe", "scales", "tensor_scale", "shape", "addresses"))


class Quantized(_core.Operand):
    """Values with their scales: one side of a multiplication.

    `quantize` makes them; the constructor takes arrays that are already there, without a copy.

    Args:
        values: [rows, k] or [groups, rows, k] (a transposed matrix for the layouts that say so), in any strides.
            fp8 as ml_dtypes or torch float8, or its codes as uint8; e2m1 as uint8, int8 or torch's float4_e2m1fn_x2,
            two to a byte along the dimension of stride 1, low nibble first, so [rows, k / 2].
        recipe: what the arrays are: tensor, row, 1x128, 128x128, mxfp8, mxfp4, nvfp4, or with formats written out:
            e5m2.row, 1x128.ue8m0. bf16, f16 and f32 are values without scales, and so are e4m3 and e5m2, for a weight
            side whose scales were multiplied into the activation side before that was quantised.
        scales: float32 (tensor, row, 1x128, 128x128), ue8m0 (MX) or ue4m3 (NVFP4), the latter two also as uint8. They
            follow the logical operand, whatever the layout of the values, in any strides: tensor [1]; row [rows];
            1x128, mxfp8, mxfp4, nvfp4 [rows, ceil(k / block)]; 128x128 [ceil(rows / 128), ceil(k / 128)]. With groups
            in front: [groups, ...].
        tensor_scale: NVFP4 only: float32 [1], or [groups].

    values, scales, tensor_scale and recipe can be read back, not replaced; calls see what is written into the arrays.

    Raises:
        ValueError: an array is of no use here; the message names it and says what it must be. Shapes are checked by
            the multiplication.

    >>> import numpy as np
    >>> Quantized(np.full((2, 16), 0x22, np.uint8), "mxfp4", np.full((2, 1), 127, np.uint8)).shape
    (2, 32)
    """

    __slots__ = ("_recipe",)
    _recipe: str

    def __init__(
        self, values: Array, recipe: str, scales: Array | None = None, tensor_scale: Array | None = None
    ) -> None:
        _core.Operand.__init__(self, values, recipe, scales, tensor_scale)
        self._recipe = recipe

    @property
    def recipe(self) -> str:
        """As it was given."""
        return self._recipe

    def __setattr__(self, name: str, value: object) -> None:
        if name in _READ_ONLY:
            raise AttributeError(f"Quantized.{name} is read-only: make a new Quantized, or write into the array")
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[type[Quantized], tuple[Array, str, Array | None, Array | None]]:
        return type(self), (self.values, self.recipe, self.scales, self.tensor_scale)

    def dequantize(self, dtype: OutputFormat = "f32", *, threads: int = 0) -> Array:
        """The real matrix [rows, k] or [groups, rows, k] in `dtype`: f32, bf16 or f16, as `out_dtype` names them. Not for transposed values.

        threads: of the CPU; 0 = all.
        """
        return _core.dequantize(self, dtype, threads)

    def __repr__(self) -> str:
        return f"<Quantized {self.recipe} {list(self.shape)}>"


def quantize(
    x: Array, recipe: str, *, round_up: bool = False, threads: int = 0, stream: object = None
) -> Quantized:
    """Quantises a real matrix along its last dimension.

    Args:
        x: [rows, k] or [groups, rows, k] of float32, bfloat16 or float16, in any strides. Each group is quantised on
            its own. To quantise along the other dimension, pass the transposed view.
        recipe: the side of a recipe, as `Quantized` takes it.
        round_up: round scales up to a power of two; for MX scales in place of OCP's floor rule, which saturates the
            largest values of a block.
        threads: of the CPU; 0 = all. The GIL is released meanwhile, and Ctrl-C ends the call.
        stream: of a GPU, which quantises by every recipe with scales; None: the one that torch works on.

    Returns:
        New arrays in a `Quantized`: of torch for a torch tensor, else of numpy with dtypes of ml_dtypes (codes as uint8
        where it is not installed). e2m1 is packed into uint8, low nibble first.

    Raises:
        ValueError: no such recipe, or x cannot be quantised so.

    >>> import numpy as np
    >>> q = quantize(np.float32([[1, -2, 448, 0.5]]), "row")
    >>> q.scales
    array([1.], dtype=float32)
    >>> q.dequantize()
    array([[  1. ,  -2. , 448. ,   0.5]], dtype=float32)
    """
    values, scales, tensor_scale = _core.quantize(x, recipe, round_up, False, threads, stream)
    return Quantized(values, recipe, scales, tensor_scale)


def encode(x: Array, format: Format, *, saturate: bool = True) -> Array:
    """Rounds float32 numbers to `format`, to nearest, ties to even (ue8m0: to the larger power of two).

    Args:
        x: float32, up to three dimensions, rows one after another.
        format: of the result; e2m1 packs two to a byte along the last dimension, low nibble first.
        saturate: numbers beyond the largest become the largest; else infinity, or NaN where there is none.

    >>> import numpy as np
    >>> encode(np.float32([0.5, 6, -1, 100]), "e2m1")
    array([113, 122], dtype=uint8)
    """
    return _core.encode(x, format, saturate)


def decode(codes: Array, format: Format | None = None) -> Array:
    """float32 numbers from codes, exactly.

    Args:
        codes: an array whose dtype names its format, or uint8 / uint16 codes; rows one after another.
        format: needed for codes; e2m1 doubles the last dimension.

    >>> import numpy as np
    >>> decode(np.uint8([113, 122]), "e2m1")
    array([ 0.5,  6. , -1. ,  6. ], dtype=float32)
    """
    return _core.decode(codes, format)


def recipes() -> list[str]:
    """Every pair of sides that a multiplication accepts, activations first: 'row:row', '1x128:128x128', 'bf16:nvfp4'.

    >>> "1x128:128x128" in recipes()
    True
    """
    return _core.recipes()
