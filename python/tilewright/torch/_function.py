"""Autograd of the layers: what is kept for backward, and the gradients; the same for eager calls and for the operator.

Y = X W^T (+ bias) of [tokens, K] with W [N, K], or of the rows of each group with W [groups, N, K].
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from tilewright.torch import _checks, _operators
from tilewright.torch._passes import Wanted, forward_pass
from tilewright.torch._recipes import RECIPES
from tilewright.torch._weights import FrozenCopy, Pair, WeightCache, copy_of, dgrad_copy, forward_copy

_COUNT = 14  # inputs of the operator


def differentiable_linear(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    ends: torch.Tensor | None,
    main_grad: torch.Tensor | None,
    recipe: str,
    gradient_format: str,
    promoted: bool,
    requantizes: bool,
    cache: WeightCache | FrozenCopy | None,
) -> torch.Tensor:
    """The call as one node of autograd; through the operator where a compiler or a mode watches, which asks no cache.

    A frozen copy is taken by both as it is.
    """
    layer, wants = RECIPES[recipe], torch.is_grad_enabled()
    keeps, wants_dgrad = wants and w.requires_grad, wants and x.requires_grad and not requantizes
    options = (main_grad, recipe, gradient_format, promoted, keeps, requantizes)
    frozen = cache if isinstance(cache, FrozenCopy) else None
    if frozen is not None:
        _checks.check_frozen(wants, x, w, bias)
    if _operators.is_watched(x, w, bias, ends, main_grad):
        if _operators.AVAILABLE and torch.compiler.is_compiling() and keeps and main_grad is not None:
            w.grad_added_to_main_grad = True
        with torch.no_grad():
            forward = forward_copy(w, layer, _operators.watched_copy_of) if frozen is None else tuple(frozen)
            dgrad = dgrad_copy(w, layer, forward, _operators.watched_copy_of) if wants_dgrad else (None, None)
        y: torch.Tensor = torch.ops.tilewright.linear(x, w, bias, ends, *forward, *dgrad, *options)[0]
        return y
    if isinstance(cache, WeightCache):
        forward = cache.forward(w, layer)
        dgrad = cache.dgrad(w, layer, forward) if wants_dgrad else (None, None)
    else:
        cache = None  # none of this call either, which would keep forward's copy until backward
        forward = forward_copy(w, layer) if frozen is None else tuple(frozen)
        dgrad = dgrad_copy(w, layer, forward) if wants_dgrad else (None, None)
    result: torch.Tensor = QuantizedLinear.apply(x, w, bias, ends, *forward, *dgrad, *options, cache)
    return result


def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor | None, ...]) -> None:
    """Saves X^T as fp8 with its scales where W wants a gradient, W's fp8 copy of dgrad where X does, or W, and ends."""
    x, w, bias, ends, _, _, *dgrad, main_grad, recipe, gradient_format, promoted, keeps, requantizes = inputs[:_COUNT]
    wants_dgrad = ctx.needs_input_grad[0]
    ctx.save_for_backward(
        *(output[1:] if keeps else (None, None)),
        *((w, None) if wants_dgrad and requantizes else dgrad if wants_dgrad else (None, None)),
        ends,
    )
    # Not saved: others may write it between forward and backward, which autograd refuses of what it saves.
    ctx.main_grad = main_grad
    ctx.weight = None if main_grad is None else w
    ctx.recipe, ctx.gradient_format, ctx.promoted, ctx.requantizes = recipe, gradient_format, promoted, requantizes
    ctx.w_shape, ctx.w_dtype = w.shape, w.dtype
    ctx.bias_dtype = None if bias is None else bias.dtype
    ctx.cache = None
    ctx.set_materialize_grads(False)


def keep_of_operator(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    ctx.mark_non_differentiable(*output[1:])
    keep(ctx, inputs, output)


@once_differentiable
def gradients(ctx: Any, dy: torch.Tensor | None, *_: Any) -> tuple[torch.Tensor | None, ...]:
    """Of each input of the operator."""
    if dy is None:
        return (None,) * _COUNT
    x_values, x_scales, *of_w, ends = ctx.saved_tensors
    wanted = Wanted(*ctx.needs_input_grad[:3])
    x = (x_values, x_scales) if wanted.w else None
    w = _dgrad_of(ctx, *of_w) if wanted.x else None
    main_grad = None if ctx.main_grad is None else ctx.main_grad.view(-1, *ctx.w_shape[-2:])
    dx, dw, dbias = _operators.gradients(
        dy, x, w, ends, main_grad, ctx.recipe, ctx.gradient_format, ctx.promoted, wanted, ctx.w_dtype
    )
    if wanted.w:
        if ctx.weight is not None:
            ctx.weight.grad_added_to_main_grad = True
        # What Megatron-LM's hooks look for where main_grad has it: that word, and a gradient that is there and says nothing.
        dw = torch.zeros((), dtype=ctx.w_dtype, device=dy.device).expand(ctx.w_shape) if dw is None else dw.view(ctx.w_shape)
    if dbias is not None:
        dbias = dbias.to(ctx.bias_dtype).view(ctx.w_shape[:-1])
    return (dx, dw, dbias, *(None,) * (_COUNT - 3))


def _dgrad_of(ctx: Any, values: torch.Tensor, scales: torch.Tensor | None) -> Pair:
    if not ctx.requantizes:
        assert scales is not None
        return values, scales
    layer = RECIPES[ctx.recipe]
    if ctx.cache is None:
        copy_here = _operators.watched_copy_of if _operators.is_watched(values) else copy_of
        return dgrad_copy(values, layer, None, copy_here)
    copy: Pair = ctx.cache.dgrad(values, layer)
    return copy


class QuantizedLinear(torch.autograd.Function):
    """Eager calls, which hand backward the cache of W's copies too."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> torch.Tensor:  # type: ignore[override]
        x, _, bias, ends, values, scales = inputs[:6]
        recipe, promoted, keeps = inputs[9], inputs[11], inputs[12]
        y, kept = forward_pass(x, (values, scales), bias, ends, recipe, promoted, keeps)
        keep(ctx, inputs, (y, *(kept or (None, None))))
        ctx.cache = inputs[-1]
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        return (*gradients(ctx, dy), None)


if _operators.AVAILABLE:
    torch.library.register_autograd(
        "tilewright::linear", gradients, setup_context=keep_of_operator, lib=_operators.LIBRARY
    )
