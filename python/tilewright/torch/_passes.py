"""Forward and backward of a layer on tensors. Autograd and the torch operators call them.

Results that are not requested are None. The host reads no values from a GPU.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from tilewright import _core
from tilewright.torch import _checks, _sums
from tilewright.torch._weights import Pair


class Wanted(NamedTuple):
    """The gradients that are requested from backward."""

    x: bool
    w: bool
    bias: bool


def forward_pass(
    x: torch.Tensor,
    w: torch.Tensor,
    copy: Pair | None,
    bias: torch.Tensor | None,
    ends: torch.Tensor | None,
    recipe: str,
    promoted: bool,
    keeps: bool,
    options: str,
) -> tuple[torch.Tensor, Pair | None, Pair | None]:
    """Y, the operand of wgrad (with `keeps`), and the copy of w that this call made (without `copy`).

    The operand of wgrad is X^T, quantized along the tokens of each group; if the recipe folds, it is X as forward quantized it.
    `options` is a word of `_in_force`.
    """
    _checks.check_memory("x", x)
    _checks.check_memory("bias", bias)
    if ends is not None:
        _checks.check_values_of_ends(ends, x.shape[0])
    if w.numel() == 0:
        return _biases(x, w, bias, ends), None, None
    addend = None if bias is None else bias.detach()
    if copy is None:
        _checks.check_memory("w", w)
    return _core.linear_forward(x.detach(), w.detach(), copy, addend, ends, recipe, promoted, keeps, options)


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
    options: str,
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """The gradients dX, dW and dbias. A dense layer is one group.

    Args:
        dy: [tokens, N].
        x: the operand that forward kept for wgrad.
        w: the copy of W for dgrad. None if dX is not requested.
        main_grad: the buffer to which dW is added, or None.
        dtype: the dtype of dW.
        options: a word of `_in_force`.

    Returns:
        dX in the dtype of dY. dW [groups, N, K]; None if it was added to main_grad. dbias [groups, N] of float32.
    """
    dx = dw = None
    if (wanted.x and w is not None) or (wanted.w and x is not None):
        _checks.check_memory("main_grad", main_grad)
        format, both = _sums.OUTPUTS[dtype], (wanted.x, wanted.w)
        dx, dw = _core.linear_backward(
            dy.contiguous(), x, w, ends, main_grad, recipe, gradient_format, promoted, both, format, options
        )
    return dx, None if main_grad is not None else dw, _sums.sums_of_groups(dy, ends) if wanted.bias else None


def _biases(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, ends: torch.Tensor | None) -> torch.Tensor:
    """Y for weights without elements (no group, no input or no output): the bias, or zeros."""
    y, tokens = x.new_zeros(x.shape[0], w.shape[-2]), x.shape[0]
    if bias is None or bias.numel() == 0:
        return y
    if ends is None:
        return y.copy_(bias)
    of_none = bias.new_zeros(1, w.shape[-2])  # for tokens after the last end
    return y.copy_(torch.cat([bias.detach(), of_none])[_sums.group_of_rows(ends, tokens)])
