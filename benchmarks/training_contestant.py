"""One timed call of training_peers.py, and the error of its result against float64 sums of its dequantized operands.

Also the functions that the calls of several products share.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tilewright as tw
import torch

SAMPLED_GROUPS, SAMPLED_ROWS = 3, 64
# Limits of the relative error of a right result. D is rounded to bf16, and sums that stay in the tensor core have 14 bits. fp8
# operands from normal bf16 numbers give an error of 0.037 of dW.
MOST_ERROR, MOST_ERROR_OF_FP8 = 0.02, 0.045
BEFORE = 0.5  # the value of an f32 D before the call that is checked
TORCH = f"torch {torch.__version__.partition('+')[0]}"
TILEWRIGHT = f"Tilewright {tw.__version__}"


class MissingError(RuntimeError):
    """A contestant that is not installed or does not support a product. The table says so."""


class Contestant(NamedTuple):
    call: Callable[[], Any]
    result: Callable[[], torch.Tensor]  # D of the last call
    error: Callable[[], float]  # of D
    limit: float
    fields: dict[str, Any]  # the fields of its line
    tokens: int  # the tokens that the rate counts


Maker = Callable[[], Contestant]
Real = Callable[..., torch.Tensor]
"""Some values of an operand in float64, of a group: [rows, k]."""


def codes(values: torch.Tensor) -> torch.Tensor:
    """fp8 as bytes, because some versions of torch cannot index or copy fp8."""
    return values.view(torch.uint8)


def fp8(values: torch.Tensor) -> torch.Tensor:
    return values.view(named(torch, "float8_e4m3fn"))


def numbers(values: torch.Tensor) -> torch.Tensor:
    """bf16 or e4m3 as float64."""
    if values.dtype == torch.bfloat16:
        return values.double()
    return torch.tensor(tw.decode(np.arange(256, dtype=np.uint8), "e4m3").tolist(), dtype=torch.float64, device=values.device)[values.long()]


def ends_of(sizes: tuple[int, ...], device: str) -> torch.Tensor:
    return torch.tensor(sizes).cumsum(0).to(torch.int32).to(device)


def begins_of(sizes: tuple[int, ...], step: int = 1) -> list[int]:
    begins = [0]
    for size in sizes:
        begins.append(begins[-1] + -(-size // step) * step)
    return begins


def sampled(sizes: tuple[int, ...]) -> list[int]:
    """The first, the last and the largest group."""
    return sorted({0, len(sizes) - 1, max(range(len(sizes)), key=sizes.__getitem__)})[:SAMPLED_GROUPS]


def some_rows(count: int, device: str) -> torch.Tensor:
    """A sample of indices: neighbours at both ends, and some between."""
    if count <= SAMPLED_ROWS:
        return torch.arange(count, device=device)
    ends = SAMPLED_ROWS // 4
    inner = ends + torch.randperm(count - 2 * ends, generator=torch.Generator().manual_seed(0))[: SAMPLED_ROWS - 2 * ends]
    return torch.cat([torch.arange(ends), inner, torch.arange(count - ends, count)]).to(device)


def relative(given: list[torch.Tensor], exact: list[torch.Tensor]) -> float:
    """The largest error of the groups; infinite if a result is not a number."""
    worst = 0.0
    for of_given, of_exact in zip(given, exact, strict=True):
        distance = float((of_given.double() - of_exact).norm() / of_exact.norm().clamp(min=1e-30))
        worst = max(worst, distance) if distance == distance else float("inf")
    return worst


def named(where: Any, *names: str) -> Any:
    for name in names:
        if hasattr(where, name):
            return getattr(where, name)
    raise MissingError(f"{where.__name__} {getattr(where, '__version__', '')} has no {' or '.join(names)}")


def deep_gemm() -> Any:
    try:
        return importlib.import_module("deep_gemm")
    except Exception as why:  # its import needs a compiler
        raise MissingError(f"DeepGEMM cannot be imported: {why or type(why).__name__}") from why


def deep_gemm_name() -> str:
    try:
        return f"DeepGEMM {getattr(deep_gemm(), '__version__', '')} (1d1d, fp32 accumulate)"
    except MissingError:
        return "DeepGEMM (1d1d, fp32 accumulate)"
