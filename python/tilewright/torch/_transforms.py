"""The layers inside of torch.func, and the refusal of forward-mode gradients."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from tilewright.torch import _autograd, _checks, _operators
from tilewright.torch._weights import copies_of

_TANGENT = "a tensor without a tangent, because the layers have no forward-mode gradients"
_FORWARD_MODE = "Use reverse mode: torch.func.vjp or jacrev."


def are_active() -> bool:
    """Whether this call is inside of torch.func.grad, vjp, jacrev or vmap."""
    return _operators.AVAILABLE and not _operators.is_compiling() and torch._C._are_functorch_transforms_active()


def check_forward_gradients(*given: torch.Tensor | None) -> None:
    """Refuses tangents. fp8 products have no forward-mode gradient, and zeros would be silently wrong."""
    forward_ad = torch.autograd.forward_ad
    if _operators.is_compiling() or getattr(forward_ad, "_current_level", -1) < 0:
        return
    for name, tensor in zip(("x", "w", "bias"), given):
        if tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None:
            _checks.refuse(
                name,
                "a tensor with a tangent (torch.func.jvp, jacfwd, hessian or forward_ad)",
                _TANGENT,
                _FORWARD_MODE,
            )


def transformed_linear(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    ends: torch.Tensor | None,
    main_grad: torch.Tensor | None,
    recipe: str,
    gradient_format: str,
    promoted: bool,
    options: str,
) -> torch.Tensor:
    if main_grad is not None:
        _checks.refuse("main_grad", "a buffer", "None inside of torch.func", "torch.func returns gradients, not buffers.")
    if w.numel() == 0:
        _checks.refuse("w", list(w.shape), "a weight with at least one element, inside of torch.func")
    y: torch.Tensor = _Linear.apply(x, w, bias, ends, recipe, gradient_format, promoted, options)[0]
    return y


class _Linear(torch.autograd.Function):
    """The node for torch.func, which keeps only inputs and results for backward. Backward quantizes W again."""

    generate_vmap_rule = True  # torch calls these methods with batched tensors; the operators run once per entry

    @staticmethod
    def forward(*inputs: Any) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
        x, w, bias, ends, recipe, gradient_format, promoted, options = inputs
        copy = copies_of(w, recipe, True, False, _operators.watched_quantizer).forward
        assert copy is not None
        y, values, scales = torch.ops.tilewright.linear(
            x, w, bias, ends, *copy, None, None, None, recipe, gradient_format, promoted, True, True, False, False, options
        )
        return y, values, scales

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        x, w, bias, ends, *how = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(x, w, *output[1:], ends)
        ctx.how, ctx.w_shape, ctx.w_dtype, ctx.bias_dtype = how, w.shape, w.dtype, None if bias is None else bias.dtype

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor, *_: Any) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        x, w, values, scales, ends = ctx.saved_tensors
        wanted = _autograd.Wanted(*ctx.needs_input_grad[:3])
        made = _Gradients.apply(dy, x, w, values, scales, ends, *ctx.how, wanted)
        dx, dw, dbias = (gradient if is_there else None for gradient, is_there in zip(made, wanted))
        if dw is not None:
            dw = dw.view(ctx.w_shape)
        if dbias is not None:
            dbias = dbias.to(ctx.bias_dtype).view(ctx.w_shape[:-1])
        return (dx, dw, dbias, *(None,) * 5)

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> NoReturn:  # type: ignore[override]
        _checks.refuse("x, w or bias", "a tensor with a tangent (torch.func.jvp, jacfwd, hessian)", _TANGENT, _FORWARD_MODE)


class _Gradients(torch.autograd.Function):
    """The node of the gradients. It refuses second derivatives, which torch would otherwise take for zero."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
        dy, _, w, values, scales, ends, recipe, gradient_format, promoted, options, wanted = inputs
        copy = copies_of(w, recipe, False, True, _operators.watched_quantizer).dgrad
        assert copy is not None
        made: tuple[torch.Tensor, ...] = torch.ops.tilewright.linear_gradients(
            dy, values, scales, *copy, ends, None, recipe, gradient_format, promoted, list(wanted), w.dtype, options
        )
        return made

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Any) -> NoReturn:  # type: ignore[override]
        raise RuntimeError(_autograd.SECOND)

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> NoReturn:  # type: ignore[override]
        _checks.refuse("x, w or bias", "a tensor with a tangent (torch.func.jvp, jacfwd, hessian)", _TANGENT, _FORWARD_MODE)
