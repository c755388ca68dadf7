"""Tilewright: low-precision matrix multiplication, dense and grouped, for Hopper GPUs and any CPU."""

try:
    from tilewright import _core
except ImportError as error:
    from tilewright import _openmp

    if "libgomp" not in str(error):
        raise
    if not _openmp.load_torch_copy():
        raise ImportError(
            f"{error}: install OpenMP's run time, e.g. apt-get install libgomp1, or torch, whose copy is taken then"
        ) from error
    from tilewright import _core

from tilewright import _multiply
from tilewright._arrays import Array
from tilewright._core import Explanation, Finding, Plan, RawArray
from tilewright._errors import InvalidCall
from tilewright._multiply import (
    batched_gemm,
    explain,
    gemm,
    grouped_gemm,
    k_grouped_gemm,
    validate,
    workspace_bytes,
)
from tilewright._packing import PackedWeights, pack_weights
from tilewright._quantize import Quantized, decode, encode, quantize, recipes
from tilewright._quantize_tokens import quantize_tokens, transpose_codes
from tilewright._settings import (
    is_invariant,
    is_overlapping,
    planned_device,
    set_invariant,
    set_overlap,
    set_planned_device,
)

__version__: str = _core.version
if __doc__ and _multiply.__doc__:  # python -OO removes them
    __doc__ += "\n\n" + _multiply.__doc__

__all__ = [
    "Array",
    "Explanation",
    "Finding",
    "InvalidCall",
    "PackedWeights",
    "Plan",
    "Quantized",
    "RawArray",
    "batched_gemm",
    "decode",
    "encode",
    "explain",
    "gemm",
    "grouped_gemm",
    "is_invariant",
    "is_overlapping",
    "k_grouped_gemm",
    "pack_weights",
    "planned_device",
    "quantize",
    "quantize_tokens",
    "recipes",
    "set_invariant",
    "set_overlap",
    "set_planned_device",
    "transpose_codes",
    "validate",
    "workspace_bytes",
]
