"""DeepGEMM's rules of quantization, in the library's threads."""

from __future__ import annotations

from tilewright import _core
from tilewright._arrays import Array
from tilewright._quantize import Quantized


def cast(x: Array, recipe: str, *, round_up: bool = False, threads: int = 0) -> Quantized:
    """`tilewright.quantize` on the CPU by DeepGEMM's rules: s = max(amax, 1e-4) / 448, values encode(x * (1 / s)).

    Args:
        x: Host array [rows, k] or [groups, rows, k] of float32, bfloat16 or float16.
        recipe: A side of a recipe whose values are e4m3 or e2m1.
        round_up: scales are powers of two.
        threads: CPU threads; 0 = all.

    Raises:
        ValueError: DeepGEMM has no such cast, or x is on a GPU.
    """
    values, scales, tensor_scale = _core.quantize(x, recipe, round_up, True, threads, None)
    return Quantized(values, recipe, scales, tensor_scale)
