"""fp8 copies of a master weight: for forward and for dgrad, from one pass over it where both are wanted.

Nothing here is kept: who calls decides for how long a copy serves (`_function`, `_reuse`, `_frozen`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch

from tilewright._quantize import quantize
from tilewright._quantize_tokens import quantize_tokens
from tilewright.torch import _checks
from tilewright.torch._recipes import RECIPES

Pair: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""Codes and scales."""

ALIGNMENT = 128  # of groups in the columns that quantize_tokens writes


class Copies(NamedTuple):
    """What forward and dgrad read of W; None where it is not wanted."""

    forward: Pair | None
    dgrad: Pair | None


Quantizer: TypeAlias = Callable[[torch.Tensor, str, bool, bool], Copies]
"""`quantized`, or the operator of it."""


def in_one_pass(w: torch.Tensor) -> bool:
    """Whether rows and columns of all groups are written together.

    Groups have to follow each other in memory, as the rows of one matrix. In the columns each begins at a multiple of 128: that
    may cost an eighth of the copy's memory, not more.
    """
    if w.numel() == 0 or w.dim() == 2:
        return w.numel() > 0
    groups, n, _ = w.shape
    follow = groups == 1 or w.stride(0) == n * w.stride(1)
    return bool(follow and 8 * columns_of_groups(groups, n) <= 9 * groups * n)


def columns_of_groups(groups: int, n: int) -> int:
    """That quantize_tokens allocates, which does not know that groups are alike."""
    return (groups * n + (ALIGNMENT - 1) * groups) // ALIGNMENT * ALIGNMENT


def transposed_groups(columns: torch.Tensor, groups: int, n: int) -> torch.Tensor:
    """[groups, K, N] of those columns, [K, columns]."""
    step = (n + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    return columns.as_strided((groups, columns.shape[0], n), (step, columns.stride(0), 1))


def quantized(w: torch.Tensor, recipe: str, forward: bool, dgrad: bool) -> Copies:
    """W [..., N, K] along K, and transposed, [..., K, N] along N, where dgrad has codes of its own."""
    _checks.check_memory("w", w)
    layer, w = RECIPES[recipe], w.detach()
    along_n = layer.backward_weights
    if forward and dgrad and along_n is not None and in_one_pass(w):
        return _rows_and_columns(w, layer.weights, along_n)
    rows = quantize(w, layer.weights) if forward else None
    columns = quantize(w.transpose(-1, -2), along_n) if dgrad and along_n is not None else None
    return Copies(
        None if rows is None else (rows.values, rows.scales),
        None if columns is None else (columns.values, columns.scales),
    )


def _rows_and_columns(w: torch.Tensor, along_k: str, along_n: str) -> Copies:
    n, k = w.shape[-2:]
    ends = None if w.dim() == 2 else torch.arange(n, w.shape[0] * n + 1, n, device=w.device)
    rows, columns = quantize_tokens(w.reshape(-1, k), ends, rows=along_k, columns=along_n)
    assert rows is not None and columns is not None
    if ends is None:
        return Copies((rows.values, rows.scales), (columns.values, columns.scales))
    return Copies(
        (rows.values.view(w.shape), rows.scales.view(w.shape[:-1])),
        (transposed_groups(columns.values, w.shape[0], n), columns.scales),
    )


def copies_of(w: torch.Tensor, recipe: str, forward: bool, dgrad: bool, quantizer: Quantizer = quantized) -> Copies:
    """dgrad: as `dgrad_layout` says, forward's codes where they serve it, with the scales of the transposed operand.

    Where the recipe folds, the scales are those that dY is multiplied by.
    """
    layer = RECIPES[recipe]
    if layer.backward_weights is not None:
        return quantizer(w, recipe, forward, dgrad)
    rows = quantizer(w, recipe, True, False).forward
    assert rows is not None
    return Copies(rows if forward else None, dgrad_of(rows, recipe) if dgrad else None)


def dgrad_of(forward: Pair, recipe: str) -> Pair:
    """Forward's codes, of a recipe in which they serve dgrad."""
    values, scales = forward
    return values, scales.transpose(-1, -2) if RECIPES[recipe].weights == "128x128" else scales
