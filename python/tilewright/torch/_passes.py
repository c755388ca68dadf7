"""Forward and backward of a layer on tensors. Autograd and the torch operators call them.

Results that are not requested are None. The host reads no values from a GPU.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from tilewright._quantize import Quantized
from tilewright._quantize_tokens import quantize_tokens
from tilewright.torch import _checks, _products
from tilewright.torch._recipes import RECIPES, LayerRecipe, with_gradients
from tilewright.torch._weights import Pair

_FOLDED = "e4m3"  # the recipe of X and W without scales


class Wanted(NamedTuple):
    """The gradients that are requested from backward."""

    x: bool
    w: bool
    bias: bool


def forward_pass(
    x: torch.Tensor,
    w: Pair,
    bias: torch.Tensor | None,
    ends: torch.Tensor | None,
    recipe: str,
    promoted: bool,
    keeps: bool,
) -> tuple[torch.Tensor, Pair | None]:
    """Y, and with `keeps` the operand of wgrad.

    That operand is X^T, quantized along the tokens of each group; if the recipe folds, it is X as forward quantized it.
    """
    _checks.check_memory("x", x)
    _checks.check_memory("bias", bias)
    if ends is not None:
        _checks.check_values_of_ends(ends, x.shape[0])
    if w[0].numel() == 0:
        return _biases(x, w[0], bias, ends), None
    layer = RECIPES[recipe]
    rows, columns = quantize_tokens(
        x.detach(), _groups(ends, x), rows=layer.activations, columns=layer.columns if keeps else None
    )
    assert rows is not None
    weights = Quantized(w[0], layer.weights, w[1])
    y = _products.forward(rows, weights, None if bias is None else bias.detach(), ends, x.dtype, promoted)
    kept = rows if layer.folds and keeps else columns
    return y, None if kept is None else (kept.values, kept.scales)


def backward_pass(
    dy: torch.Tensor,
    x: Pair | None,
    w: Pair | None,
    ends: torch.Tensor | None,
    main_grad: torch.Tensor | None,
    recipe: str,
    gradient_format: str,
    promoted: bool,
    wanted: Wanted,
    dtype: torch.dtype,
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """The gradients dX, dW and dbias. A dense layer is one group.

    Args:
        dy: [tokens, N].
        x: the operand that forward kept for wgrad.
        w: the copy of W for dgrad. None if dX is not requested.
        main_grad: the buffer to which dW is added, or None.
        dtype: the dtype of dW.

    Returns:
        dX in the dtype of dY. dW [groups, N, K]; None if it was added to main_grad. dbias [groups, N] of float32.
    """
    layer = with_gradients(RECIPES[recipe], gradient_format)
    groups, dx, dw = _groups(ends, dy), None, None
    if wanted.x or wanted.w:
        _checks.check_memory("main_grad", main_grad)
        rows, columns = quantize_tokens(
            dy.contiguous(),
            groups,
            rows=layer.gradients if wanted.x else None,
            columns=layer.gradient_columns if wanted.w else None,
            rows_feature_factors=w[1] if layer.folds and w is not None else None,
            columns_token_factors=x[1] if layer.folds and x is not None else None,
        )
        if rows is not None and w is not None:
            side = layer.backward_weights or layer.weights
            weights = Quantized(w[0], _FOLDED) if layer.folds else Quantized(w[0], side, w[1])
            dx = _products.dgrad(rows, weights, ends, dy.dtype, layer.dgrad_layout, promoted)
        if columns is not None and x is not None:
            operand = _columns_of_x(x, groups, layer)
            # A single group begins at 0, so its end is known without work on the device.
            ends_of_columns = groups if ends is None else _products.aligned_ends(ends, dy.shape[0])
            dw = _products.wgrad(columns, operand, ends_of_columns, dtype, main_grad, promoted)
    return dx, None if main_grad is not None else dw, _products.sums_of_groups(dy, ends) if wanted.bias else None


def _biases(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, ends: torch.Tensor | None) -> torch.Tensor:
    """Y for weights without elements (no group, no input or no output): the bias, or zeros."""
    y, tokens = x.new_zeros(x.shape[0], w.shape[-2]), x.shape[0]
    if bias is None or bias.numel() == 0:
        return y
    if ends is None:
        return y.copy_(bias)
    of_none = bias.new_zeros(1, w.shape[-2])  # for tokens after the last end
    return y.copy_(torch.cat([bias.detach(), of_none])[_products.group_of_rows(ends, tokens)])


def _columns_of_x(x: Pair, groups: torch.Tensor, layer: LayerRecipe) -> Quantized:
    if layer.columns is None:
        return _products.columns_of_codes(x[0], groups)
    return Quantized(x[0], layer.columns, x[1])


def _groups(ends: torch.Tensor | None, rows: torch.Tensor) -> torch.Tensor:
    if ends is not None:
        return ends
    return torch.full((1,), rows.shape[0], dtype=torch.int64, device=rows.device)
