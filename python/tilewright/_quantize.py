"""Quantized operands, `quantize`, and conversion between numbers and codes of a format."""

from __future__ import annotations

from typing import Literal, TypeAlias

from tilewright import _core
from tilewright._arrays import Array
from tilewright._options import OutputFormat

Format: TypeAlias = Literal["e4m3", "e5m2", "e2m1", "ue8m0", "ue4m3", "bf16", "f16", "f32"]

_READ_ONLY = frozenset(("values", "recipe", "scales", "tensor_scale", "shape", "addresses"))


class Quantized(_core.Operand):
    """Values with their scales: one side of a multiplication.

    `quantize` makes one from a real matrix. The constructor takes existing arrays, without a copy.

    Args:
        values: Array [rows, k] or [groups, rows, k], in any strides. Layouts that store the operand transposed take
            [k, rows].

            - fp8: float8 of ml_dtypes or torch, or its codes as uint8.
            - e2m1: uint8, int8 or torch's float4_e2m1fn_x2, two values per byte along the dimension of stride 1, low
              nibble first: [rows, k / 2].

        recipe: What the arrays are.

            - "tensor", "row", "1x128", "128x128", "mxfp8", "mxfp4", "nvfp4".
            - The same with formats written out: "e5m2.row", "1x128.ue8m0".
            - "bf16", "f16" and "f32": values without scales.
            - "e4m3" and "e5m2": weights without scales, which were multiplied into the activations before those were
              quantized.

        scales: Array of float32 (tensor, row, 1x128, 128x128), ue8m0 (MX) or ue4m3 (NVFP4), in any strides. The last two
            may be uint8. Scales follow the logical operand, whatever the layout of the values. Groups come first:
            [groups, ...].

            - tensor: [1].
            - row: [rows].
            - 1x128, mxfp8, mxfp4, nvfp4: [rows, ceil(k / block)].
            - 128x128: [ceil(rows / 128), ceil(k / 128)].

        tensor_scale: NVFP4 only: float32 [1] or [groups].

    Attributes are read-only. Calls see what is written into the arrays.

    Raises:
        ValueError: an array cannot be used. The message names the array and what it must be. The multiplication checks
            shapes.

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
        """The real matrix [rows, k] or [groups, rows, k], of values that are not transposed.

        Args:
            dtype: "f32", "bf16" or "f16", or what else `out_dtype` of `gemm` takes. Default: "f32".
            threads: CPU threads; 0 = all. Default: 0.
        """
        return _core.dequantize(self, dtype, threads)

    def __repr__(self) -> str:
        return f"<Quantized {self.recipe} {list(self.shape)}>"


def quantize(
    x: Array, recipe: str, *, round_up: bool = False, threads: int = 0, stream: object = None
) -> Quantized:
    """Quantizes a real matrix along its last dimension.

    Args:
        x: [rows, k] or [groups, rows, k] of float32, bfloat16 or float16, in any strides. Each group is quantized
            separately. Pass the transposed view for the other dimension.
        recipe: One side of a recipe, as `Quantized` takes it.
        round_up: True rounds scales up to a power of two. MX scales are otherwise rounded by OCP's floor rule, which
            saturates the largest values of a block. Default: False.
        threads: CPU threads; 0 = all. The call releases the GIL, and Ctrl-C ends it. Default: 0.
        stream: The stream of a GPU, which quantizes by every recipe with scales. None: torch's current one.

    Returns:
        A `Quantized` of new arrays. They are of torch for a torch tensor, else of numpy with dtypes of ml_dtypes. Without
        ml_dtypes the codes are uint8. e2m1 is packed into uint8, low nibble first.

    Raises:
        ValueError: there is no such recipe, or it cannot quantize x.

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
        x: float32, up to three dimensions, contiguous rows.
        format: That of the result. e2m1 packs two values per byte along the last dimension, low nibble first.
        saturate: True: numbers beyond the largest become the largest. False: they become infinity, or NaN in formats
            without infinity. Default: True.

    Returns:
        A new array of x's shape, of torch for a torch tensor, else of numpy with dtypes of ml_dtypes. e2m1: uint8 [..., k / 2].

    Raises:
        ValueError: x or format is wrong. The message names it.

    >>> import numpy as np
    >>> encode(np.float32([0.5, 6, -1, 100]), "e2m1")
    array([113, 122], dtype=uint8)
    """
    return _core.encode(x, format, saturate)


def decode(codes: Array, format: Format | None = None) -> Array:
    """Converts codes to float32 numbers, exactly.

    Args:
        codes: An array whose dtype names its format, or codes as uint8 or uint16. Rows follow one another.
        format: The format of codes. e2m1 doubles the last dimension. Default: None.

    Returns:
        A new float32 array, of torch for a torch tensor, else of numpy.

    Raises:
        ValueError: codes or format are wrong. The message names them.

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
