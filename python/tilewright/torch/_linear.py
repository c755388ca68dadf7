"""The layers as functions."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch

from tilewright.torch import _checks
from tilewright.torch._frozen import FrozenCopy
from tilewright.torch._function import How, differentiable_linear
from tilewright.torch._planned import planned_linear
from tilewright.torch._recipes import GradientFormat

Kept = Literal["copy", "weight"]
Options: TypeAlias = tuple[str, str, bool, str]
"""recipe, gradient_format, promoted and keep."""


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
    """Multiplies the tokens of each group by the fp8 weights of the group, with autograd.

    Y[i] = X[i] W[g]^T + bias[g] for each token i of group g: ends[g - 1] <= i < ends[g]. Each call quantizes w as it is at
    that moment, except inside of `reuse_weights`.

    Args:
        x: activations [tokens, K], sorted by group. Dtype: float32, bfloat16 or float16.
        w: master weights [groups, N, K]. Dtype: float32 or bfloat16.
        ends: cumulative end token of each group, int32 or int64 [groups], on the device of x. On a GPU the host never reads
            the values. Kernels clamp them to the tokens of x.
        recipe: scaling of the three products: "row", "tensor", "1x128" (default), "1x128:128x128" or "fold". See `RECIPES`.
        gradient_format: format of dY in dgrad and wgrad, "e4m3" (default) or "e5m2".
        promoted: True (default) adds the tensor core's sums to float32 sums every 128 products. Pass False, for the recipes "row"
            and "tensor", to leave all of a sum in the tensor core, which has 14 bits on a GPU. This matches torch's
            grouped fp8 products. `fast` sums on a CPU use neither scheme.
        bias: [groups, N] of float32 or bfloat16, or None (default). Added before Y is rounded once.
        main_grad: buffer [groups, N, K] of float32 or bfloat16, or None (default). Backward adds dW to it, as Megatron-LM
            expects. `w.grad_added_to_main_grad` becomes True, and the gradient that torch sees is zeros.
        keep: what forward keeps for dgrad. With "copy" (default) it is the fp8 copy of w that forward made. With "weight" it
            is w itself, and backward quantizes w again. Use "weight" with FSDP, which frees w between forward and backward.

    Returns:
        Y [tokens, N] in the dtype of x. Tokens after the last end are zeros. Y and all gradients are deterministic.

    Raises:
        ValueError: an argument has the wrong type, shape, dtype, device or value. The message names the argument.
        RuntimeError: in backward, with keep="weight", if w was written in place after forward, as with torch.nn.Linear.
    """
    return call_grouped(x, ends, w, bias, main_grad, (recipe, gradient_format, promoted, keep), None)


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
    """Multiplies x by fp8 weights, with autograd: Y = X W^T + bias.

    Each call quantizes w as it is at that moment, except inside of `reuse_weights`.

    Args:
        x: activations [..., K]. Dtype: float32, bfloat16 or float16.
        w: master weights [N, K]. Dtype: float32 or bfloat16.
        recipe: scaling of the three products: "row", "tensor", "1x128" (default), "1x128:128x128" or "fold". See `RECIPES`.
        gradient_format: format of dY in dgrad and wgrad, "e4m3" (default) or "e5m2".
        promoted: float32 sums every 128 products (default True). `grouped_linear` describes False.
        bias: [N] of float32 or bfloat16, or None (default).
        main_grad: buffer [N, K] of float32 or bfloat16, or None (default). Backward adds dW to it. See `grouped_linear`.
        keep: what forward keeps for dgrad, "copy" (default) or "weight". See `grouped_linear`.

    Returns:
        Y [..., N] in the dtype of x. Y and all gradients are deterministic.

    Raises:
        ValueError: an argument has the wrong type, shape, dtype, device or value. The message names the argument.
        RuntimeError: in backward, with keep="weight", if w was written in place after forward, as with torch.nn.Linear.
    """
    return call_dense(x, w, bias, main_grad, (recipe, gradient_format, promoted, keep), None)


def call_grouped(
    x: torch.Tensor,
    ends: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    main_grad: torch.Tensor | None,
    options: Options,
    frozen: FrozenCopy | None,
) -> torch.Tensor:
    """`grouped_linear`, or the call of a frozen layer with its copy."""
    if frozen is None and ends is not None:
        planned = planned_linear(x, w, bias, ends, main_grad, options)
        if planned is not None:
            return planned
    how = How(*options)
    _checks.check_recipe(*how)
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
    options: Options,
    frozen: FrozenCopy | None,
) -> torch.Tensor:
    """`linear`, or the call of a frozen layer with its copy."""
    if frozen is None:
        planned = planned_linear(x, w, bias, None, main_grad, options)
        if planned is not None:
            return planned
    how = How(*options)
    _checks.check_recipe(*how)
    _checks.check_weights(w, "N, K")
    _checks.check_activations(x, w.shape[1])
    _checks.check_devices(x, w)
    _checks.check_bias(bias, w)
    _checks.check_main_grad(main_grad, w)
    if x.dim() == 2:  # without views, which are nodes of autograd
        return differentiable_linear(x, w, bias, None, main_grad, how, frozen)
    rows = x.reshape(x.shape[:-1].numel(), w.shape[1])
    y = differentiable_linear(rows, w, bias, None, main_grad, how, frozen)
    return y.view(*x.shape[:-1], w.shape[0])
