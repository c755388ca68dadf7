"""Tilewright: low-precision matrix multiplication, dense and grouped, for Hopper GPUs and any CPU.

- `quantize` makes operands of a multiplication, `pack_weights` packs FP4 weights once. `recipes` lists the pairs.
- `gemm`, `batched_gemm`, `grouped_gemm` and `k_grouped_gemm` multiply.
- `moe` computes a layer of experts in one call, `route` sorts its tokens.
- `validate`, `explain` and `workspace_bytes` answer questions about a call. They take its arguments. `validate_moe` and
  `explain_moe` do for `moe`.
- `options` and `defaults` set what calls leave out.

`help` of each function describes its arguments.

Arrays are anything with DLPack or the buffer protocol, or a `RawArray`: memory by its address. On a GPU all arrays of a call
are on that GPU. Operands without scales have one format on both sides, or are bf16 or f16 with an MX or NVFP4 operand.

On the CPU a call computes on several threads, also in children of os.fork(). Its threads may have stacks of 128 KiB.
"""

try:
    from tilewright import _core
except ImportError as error:
    from tilewright import _openmp

    if "libgomp" not in str(error):
        raise
    if not _openmp.load_torch_copy():
        raise ImportError(
            f"{error}: install OpenMP's run time, e.g. with apt-get install libgomp1, or install torch, whose copy is then used."
        ) from error
    from tilewright import _core

from tilewright._arrays import Array
from tilewright._core import Explanation, Finding, MoeStep, Plan, RawArray
from tilewright._errors import InvalidCall
from tilewright._explanation import MoeExplanation
from tilewright._moe import Routed, moe, route
from tilewright._moe_questions import explain_moe, validate_moe
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
from tilewright._settings import Settings, defaults, options

__version__: str = _core.version

__all__ = [
    "Array",
    "Explanation",
    "Finding",
    "InvalidCall",
    "MoeExplanation",
    "MoeStep",
    "PackedWeights",
    "Plan",
    "Quantized",
    "RawArray",
    "Routed",
    "Settings",
    "batched_gemm",
    "decode",
    "defaults",
    "encode",
    "explain",
    "explain_moe",
    "gemm",
    "grouped_gemm",
    "k_grouped_gemm",
    "moe",
    "options",
    "pack_weights",
    "quantize",
    "quantize_tokens",
    "recipes",
    "route",
    "transpose_codes",
    "validate",
    "validate_moe",
    "workspace_bytes",
]
