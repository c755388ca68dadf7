"""fp8 copies of a master weight for forward and dgrad, in one pass over the weight if both are requested.

This module stores no copy. Its callers decide how long a copy serves (`_function`, `_reuse`, `_frozen`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch

from tilewright import _core
from tilewright._quantize_tokens import quantize_tokens
from tilewright.torch import _checks
from tilewright.torch._recipes import RECIPES

Pair: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""Quantized values and their scales."""

ALIGNMENT = 128  # of groups in the columns that quantize_tokens writes


class Copies(NamedTuple):
    """The copies of W that forward and dgrad read; None if not requested."""

    forward: Pair | None
    dgrad: Pair | None


Quantizer: TypeAlias = Callable[[torch.Tensor, str, bool, bool], Copies]
"""`quantized`, or its torch operator."""


def in_one_pass(w: torch.Tensor) -> bool:
    """Whether one pass over w writes the rows and the columns of all groups.

    Two conditions: the groups follow each other in memory, like the rows of one matrix. And padding costs at most an eighth
    of the copy's memory, because each group begins at a multiple of 128 in the columns.
    """
    if w.numel() == 0 or w.dim() == 2:
        return w.numel() > 0
    groups, n, _ = w.shape
    follow = groups == 1 or w.stride(0) == n * w.stride(1)
    return bool(follow and 8 * columns_of_groups(groups, n) <= 9 * groups * n)


def columns_of_groups(groups: int, n: int) -> int:
    """The columns that quantize_tokens allocates. It does not know that all groups have n tokens."""
    return (groups * n + (ALIGNMENT - 1) * groups) // ALIGNMENT * ALIGNMENT


def transposed_groups(columns: torch.Tensor, groups: int, n: int) -> torch.Tensor:
    """The columns [K, columns] of quantize_tokens as a view [groups, K, N]."""
    step = (n + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    return columns.as_strided((groups, columns.shape[0], n), (step, columns.stride(0), 1))


def quantized(w: torch.Tensor, recipe: str, forward: bool, dgrad: bool) -> Copies:
    """Quantizes W [..., N, K] along K, and W^T [..., K, N] along N if dgrad has its own copy."""
    _checks.check_memory("w", w)
    layer, w = RECIPES[recipe], w.detach()
    along_n = layer.backward_weights
    if forward and dgrad and along_n is not None and in_one_pass(w):
        return _rows_and_columns(w, layer.weights, along_n)
    return Copies(
        _pair(w, layer.weights) if forward else None,
        _pair(w.transpose(-1, -2), along_n) if dgrad and along_n is not None else None,
    )


def _pair(w: torch.Tensor, side: str) -> Pair:
    """As `tilewright.quantize`, without an object of Python around the arrays."""
    values, scales, _ = _core.quantize(w, side, False, False, 0, None)
    return values, scales


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
    """The copies for forward and dgrad, as requested.

    The copy for dgrad has the layout `dgrad_layout`. Without backward_weights it is forward's.
    """
    layer = RECIPES[recipe]
    if layer.backward_weights is not None:
        return quantizer(w, recipe, forward, dgrad)
    rows = quantizer(w, recipe, True, False).forward
    return Copies(rows if forward else None, rows if dgrad else None)
