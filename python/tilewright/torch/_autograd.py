"""Autograd of the layers: what is kept for backward, and the gradients. Eager calls and the operator share it."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.torch import _checks, _operators
from tilewright.torch._passes import Wanted, forward_pass
from tilewright.torch._weights import Pair, copies_of, quantized

_COUNT = 17  # inputs of the operator
NOTHING = (None, None)
SECOND = (
    "tilewright.torch: got a second derivative; expected first derivatives only, because backward rounds its operands to fp8."
)


def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor | None, ...]) -> None:
    """Saves the fp8 operands of backward, and ends.

    For dW: X^T in fp8 with its scales. For dX: the fp8 copy of W for dgrad, or W itself with `keep="weight"`. An operand is
    saved only if its gradient is required.
    """
    x, w, bias, ends, _, _, *dgrad, main_grad, recipe, gradient_format, promoted, keeps, requantizes = inputs[: _COUNT - 3]
    wants_dgrad, wants_wgrad = ctx.needs_input_grad[:2]
    ctx.save_for_backward(
        *(output[1:] if keeps and wants_wgrad else NOTHING),
        *((w, None) if wants_dgrad and requantizes else dgrad if wants_dgrad else NOTHING),
        ends,
    )
    # Not in save_for_backward: others may write main_grad between forward and backward, and autograd refuses a saved
    # tensor that was written.
    ctx.main_grad = main_grad
    ctx.weight = None if main_grad is None else w
    ctx.recipe, ctx.gradient_format, ctx.promoted, ctx.requantizes = recipe, gradient_format, promoted, requantizes
    ctx.options = inputs[_COUNT - 1]
    ctx.w_shape, ctx.w_dtype = w.shape, w.dtype
    ctx.bias_dtype = None if bias is None else bias.dtype
    ctx.set_materialize_grads(False)


def keep_of_operator(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    ctx.mark_non_differentiable(*output[1:])
    keep(ctx, inputs, output)


def gradients(ctx: Any, dy: torch.Tensor | None, *_: Any) -> tuple[torch.Tensor | None, ...]:
    """The gradient of each input of the operator; None where there is none."""
    if dy is None:
        return (None,) * _COUNT
    if _operators.is_legacy_batch(dy):
        _checks.refuse(
            "dy",
            "a batch of gradients (is_grads_batched=True or vectorize=True)",
            "one gradient",
            "Call backward once per gradient, or use torch.func.jacrev.",
        )
    if torch.is_grad_enabled():
        # Refused now: no saved tensor leads back to x, so torch could take the later gradient for zero.
        raise RuntimeError(f"{SECOND} Call backward without create_graph=True.")
    x_values, x_scales, *of_w, ends = ctx.saved_tensors
    wanted = Wanted(*ctx.needs_input_grad[:3])
    x = (x_values, x_scales) if wanted.w else None
    has_elements = ctx.w_shape.numel() > 0
    w = _dgrad_of(ctx, *of_w) if wanted.x and has_elements else None
    main_grad = None if ctx.main_grad is None or not has_elements else ctx.main_grad.view(-1, *ctx.w_shape[-2:])
    made = wanted if has_elements else Wanted(False, False, wanted.bias)
    dx, dw, dbias = _operators.gradients(
        dy, x, w, ends, main_grad, ctx.recipe, ctx.gradient_format, ctx.promoted, made, ctx.w_dtype, ctx.options
    )
    if wanted.x and dx is None:  # w has no elements
        dx = dy.new_zeros(dy.shape[0], ctx.w_shape[-1])
    if wanted.w and ctx.weight is not None:
        ctx.weight.grad_added_to_main_grad = True
    if wanted.w:
        dw = no_gradient(ctx.w_shape, ctx.w_dtype, dy.device) if dw is None else dw.view(ctx.w_shape)
    if dbias is not None:
        dbias = dbias.to(ctx.bias_dtype).view(ctx.w_shape[:-1])
    return (dx, dw, dbias, *(None,) * (_COUNT - 3))


def no_gradient(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Zeros in place of a gradient that is in main_grad, because Megatron-LM's hooks look for one that is not None."""
    return torch.zeros((), dtype=dtype, device=device).expand(shape)


def _dgrad_of(ctx: Any, values: torch.Tensor, scales: torch.Tensor | None) -> Pair:
    if not ctx.requantizes:
        assert scales is not None
        return values, scales
    quantizer = _operators.watched_quantizer if _operators.is_watched(values) else quantized
    copy = copies_of(values, ctx.recipe, False, True, quantizer).dgrad
    assert copy is not None
    return copy


class QuantizedLinear(torch.autograd.Function):
    """The node of autograd of eager calls."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> torch.Tensor:  # type: ignore[override]
        x, w, bias, ends, values, scales = inputs[:6]
        recipe, promoted, keeps, options = inputs[9], inputs[11], inputs[12], inputs[_COUNT - 1]
        copy = None if values is None else (values, scales)
        y, kept, made = forward_pass(x, w, copy, bias, ends, recipe, promoted, keeps, options)
        if made is not None:  # for the recipes whose backward reads the copy of forward
            inputs = (*inputs[:4], *made, *made, *inputs[8:])
        keep(ctx, inputs, (y, *(kept or NOTHING)))
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        return gradients(ctx, dy)


if _operators.AVAILABLE:
    torch.library.register_autograd(
        "tilewright::linear", gradients, setup_context=keep_of_operator, lib=_operators.LIBRARY
    )
