"""One call of training_peers.py's comparisons: what is timed, and how far its result is from float64 sums of what its codes and scales
are. What the calls of several products share."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tilewright as tw
import torch

SAMPLED_GROUPS, SAMPLED_ROWS = 3, 64
# Relative errors that a right result stays below: D is rounded to bf16, and sums in the tensor core alone have 14 bits; what fp8 makes of
# normal numbers in bf16 is 0.037 of dW.
MOST_ERROR, MOST_ERROR_OF_FP8 = 0.02, 0.045
BEFORE = 0.5  # what D of f32 has before it is added to, where the result is looked at
TORCH = f"torch {torch.__version__.partition('+')[0]}"
TILEWRIGHT = f"Tilewright {tw.__version__}"


class MissingError(RuntimeError):
    """A contestant that is not on this machine, or does not take this product: said in the table."""


class Contestant(NamedTuple):
    call: Callable[[], Any]
    result: Callable[[], torch.Tensor]  # D of the last call
    error: Callable[[], float]  # of D
    limit: float
    fields: dict[str, Any]  # what its line says
    tokens: int  # that count in the rate


Maker = Callable[[], Contestant]
Real = Callable[..., torch.Tensor]
"""Some values of an operand in float64, of a group: [rows, k]."""


def codes(values: torch.Tensor) -> torch.Tensor:
    """As torch takes them: indexing and copies of fp8 go by bytes in some versions."""
    return values.view(torch.uint8)


def fp8(values: torch.Tensor) -> torch.Tensor:
    return values.view(named(torch, "float8_e4m3fn"))


def numbers(values: torch.Tensor) -> torch.Tensor:
    """In float64: of bf16, or of the codes of e4m3."""
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
    """The first group, the last and the largest."""
    return sorted({0, len(sizes) - 1, max(range(len(sizes)), key=sizes.__getitem__)})[:SAMPLED_GROUPS]


def some_rows(count: int, device: str) -> torch.Tensor:
    """Neighbours at both ends and others in between."""
    if count <= SAMPLED_ROWS:
        return torch.arange(count, device=device)
    ends = SAMPLED_ROWS // 4
    inner = ends + torch.randperm(count - 2 * ends, generator=torch.Generator().manual_seed(0))[: SAMPLED_ROWS - 2 * ends]
    return torch.cat([torch.arange(ends), inner, torch.arange(count - ends, count)]).to(device)


def relative(given: list[torch.Tensor], exact: list[torch.Tensor]) -> float:
    """The largest of the groups'; infinite where a number is none."""
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
    except Exception as why:  # it asks for a compiler when it is imported
        raise MissingError(f"DeepGEMM cannot be imported: {why or type(why).__name__}") from why


def deep_gemm_name() -> str:
    try:
        return f"DeepGEMM {getattr(deep_gemm(), '__version__', '')} (1d1d, fp32 accumulate)"
    except MissingError:
        return "DeepGEMM (1d1d, fp32 accumulate)"
