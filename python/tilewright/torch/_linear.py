"""The layers as functions."""

from __future__ import annotations

from typing import Literal

import torch

from tilewright.torch import _checks
from tilewright.torch._frozen import FrozenCopy
from tilewright.torch._function import How, differentiable_linear
from tilewright.torch._recipes import GradientFormat

Kept = Literal["copy", "weight"]


def grouped_linear(
    x: torch.Tensor,
    w: torch.Tensor,
    ends: torch.Tensor,
    *,
    recipe: str = "1x128",
    gradient_format: GradientFormat = "e4m3",
    promoted: bool = True,
    bias: torch.Tensor | None = None,
    main_grad: torch.Tensor | None = None,
    keep: Kept = "copy",
) -> torch.Tensor:
    """Rows of X through the weights of their group: Y[i] = X[i] W[g]^T + bias[g] for ends[g - 1] <= i < ends[g].

    Every call quantises w as it is then, unless it is inside of `reuse_weights`.

    Args:
        x: [tokens, K] of float32, bfloat16 or float16.
        w: [groups, N, K], master weights of float32 or bfloat16.
        ends: int32 or int64 [groups], the token at which each group ends; on a GPU they are never read on the host.
        recipe: row, tensor, 1x128, 1x128:128x128 or fold (`RECIPES`).
        gradient_format: of dY in dgrad and wgrad, e4m3 or e5m2.
        promoted: sum in float32 every 128 products. False, with row and tensor: all of a sum in the tensor core, which a GPU has
            with 14 bits; for parity with what does so (torch's grouped fp8 products). A CPU's `fast` sums have neither.
        bias: [groups, N] of float32 or bfloat16, added before the one rounding of Y.
        main_grad: float32 or bfloat16 [groups, N, K]: dW is added to it, `w.grad_added_to_main_grad` set to True, and the
            gradient that torch sees is zeros (Megatron-LM's convention).
        keep: for dgrad, copy: the fp8 copy that the call makes. weight: w itself, which backward quantises again: for FSDP, which
            frees w between. If w was changed in place meanwhile, backward raises torch's RuntimeError, as torch.nn.Linear's does.

    Returns:
        [tokens, N] in the dtype of x; tokens of no group are zeros. Results and gradients are deterministic.

    Raises:
        ValueError: an argument is of no use here; the message names it and says what it must be.
    """
    return call_grouped(x, w, ends, bias, main_grad, How(recipe, gradient_format, promoted, keep), None)


def linear(
    x: torch.Tensor,
    w: torch.Tensor,
    *,
    recipe: str = "1x128",
    gradient_format: GradientFormat = "e4m3",
    promoted: bool = True,
    bias: torch.Tensor | None = None,
    main_grad: torch.Tensor | None = None,
    keep: Kept = "copy",
) -> torch.Tensor:
    """Y = X W^T + bias, X [..., K], W [N, K], bias [N], main_grad [N, K]; the rest as `grouped_linear`."""
    return call_dense(x, w, bias, main_grad, How(recipe, gradient_format, promoted, keep), None)


def call_grouped(
    x: torch.Tensor,
    w: torch.Tensor,
    ends: torch.Tensor,
    bias: torch.Tensor | None,
    main_grad: torch.Tensor | None,
    how: How,
    frozen: FrozenCopy | None,
) -> torch.Tensor:
    """`grouped_linear`, or with the copy of a layer that is frozen."""
    _checks.check_recipe(how.recipe, how.gradient_format, how.promoted, how.keep)
    _checks.check_weights(w, "groups, N, K")
    _checks.check_activations(x, w.shape[2])
    if x.dim() != 2:
        _checks.refuse("x", list(x.shape), f"[tokens, {w.shape[2]}]")
    _checks.check_devices(x, w)
    _checks.check_ends(ends, x, w.shape[0])
    _checks.check_bias(bias, w)
    _checks.check_main_grad(main_grad, w)
    return differentiable_linear(x, w, bias, ends, main_grad, how, frozen)


def call_dense(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    main_grad: torch.Tensor | None,
    how: How,
    frozen: FrozenCopy | None,
) -> torch.Tensor:
    """`linear`, or with the copy of a layer that is frozen."""
    _checks.check_recipe(how.recipe, how.gradient_format, how.promoted, how.keep)
    _checks.check_weights(w, "N, K")
    _checks.check_activations(x, w.shape[1])
    _checks.check_devices(x, w)
    _checks.check_bias(bias, w)
    _checks.check_main_grad(main_grad, w)
    rows = x.reshape(x.shape[:-1].numel(), w.shape[1])
    y = differentiable_linear(rows, w, bias, None, main_grad, how, frozen)
    return y.view(*x.shape[:-1], w.shape[0])
