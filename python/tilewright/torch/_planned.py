"""The usual eager call of a layer: one call of the extension for forward, and one for backward.

The extension remembers what follows from shapes and options. It takes no call that is wrong, unusual or observed. Those go
the general way (`_function`), which checks and explains, with the same bits.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from tilewright import _core
from tilewright._arrays import torch_dtype
from tilewright.torch import _autograd, _checks, _in_force, _operators, _reuse, _sums

_CALLS: dict[tuple[Any, ...], _core.LinearCalls] = {}
"""The calls of layers with the same options."""


def planned_linear(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    ends: torch.Tensor | None,
    main_grad: torch.Tensor | None,
    how: tuple[str, str, bool, str],
) -> torch.Tensor | None:
    """Y of a layer that is not frozen. None: the general way has to take the call.

    x may have any number of leading dimensions. `how`: recipe, gradient_format, promoted and keep.
    """
    if not _operators.AVAILABLE or torch.compiler.is_dynamo_compiling() or _reuse.is_active():
        return None
    if type(how[2]) is not bool:  # 1 would find the calls of True
        return None
    key = how, _in_force.word_now()
    calls = _CALLS.get(key)
    if calls is None:
        calls = _new_calls(*key)
    call = None if calls is None else calls.call(x, w, bias, ends, main_grad)
    if call is None:
        return None
    if not call.is_differentiable:
        y: torch.Tensor = call.forward()[0]
        return y
    return _apply(x, w, bias, call, (ends, main_grad, None if main_grad is None else w, key))


def _new_calls(how: tuple[str, str, bool, str], word: str) -> _core.LinearCalls | None:
    recipe, gradient_format, promoted, keep = how
    _checks.check_recipe(*how)
    if not word.endswith("automatic"):  # a device file may change between calls
        return None
    calls = _core.LinearCalls(recipe, gradient_format, promoted, keep == "weight", word)
    _CALLS[how, word] = calls
    return calls


class PlannedLinear(torch.autograd.Function):
    """The node of autograd of usual calls. torch handles each input for some time, so that the others are one."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, bias: Any, call: Any, others: Any) -> torch.Tensor:  # type: ignore[override]
        y, kept = call.forward()
        ctx.save_for_backward(kept, w if call.reads_w_again else None, others[0])
        ctx.call, ctx.others = call, others  # with main_grad, for the reason that `_autograd.keep` gives
        ctx.set_materialize_grads(False)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        kept, w, ends = ctx.saved_tensors
        call, (_, main_grad, weight, _) = ctx.call, ctx.others
        made = call.backward(dy, kept, w, ends, main_grad)
        if made is None:
            return _generally(ctx, dy)
        dx, dw = made
        if weight is not None and call.wants_w:
            weight.grad_added_to_main_grad = True
            dw = _autograd.no_gradient(weight.shape, weight.dtype, weight.device)
        return dx, dw, _bias_gradient(call, dy, ends) if call.wants_bias else None, None, None


_apply: Any = super(torch.autograd.Function, PlannedLinear).apply  # without what only torch.func needs


def _bias_gradient(call: _core.LinearCall, dy: torch.Tensor, ends: torch.Tensor | None) -> torch.Tensor:
    rows = dy if dy.dim() == 2 else dy.reshape(-1, dy.shape[-1])
    sums = _sums.sum_of_rows(rows) if ends is None else _sums.sums_of_groups(rows, ends)
    return sums if call.bias_format == "f32" else sums.to(torch_dtype(call.bias_format))


def _generally(ctx: Any, dy: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    """Backward the general way, which reads operands as tensors."""
    call, (_, main_grad, weight, (how, word)) = ctx.call, ctx.others
    kept, w, ends = ctx.saved_tensors
    parts = [None if part is None else _part(kept, *part) for part in call.parts()]
    of_w = (w, None) if call.reads_w_again else parts[2:]
    context = SimpleNamespace(
        saved_tensors=(*parts[:2], *of_w, ends),
        needs_input_grad=ctx.needs_input_grad[:3],
        main_grad=main_grad,
        weight=weight,
        recipe=how[0],
        gradient_format=how[1],
        promoted=how[2],
        requantizes=call.reads_w_again,
        options=word,
        w_shape=torch.Size(call.w_shape),
        w_dtype=torch_dtype(call.w_format),
        bias_dtype=None if call.bias_format is None else torch_dtype(call.bias_format),
    )
    rows = dy if dy is None or dy.dim() == 2 else dy.reshape(-1, dy.shape[-1])
    dx, *others = _autograd.gradients(context, rows)[:3]
    return None if dx is None else dx.view(*dy.shape[:-1], dx.shape[-1]), *others, None, None


def _part(kept: torch.Tensor, begin: int, end: int, format: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    return kept[begin:end].view(torch_dtype(format)).as_strided(shape, strides)
