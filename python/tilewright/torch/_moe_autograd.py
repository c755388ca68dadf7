"""Autograd of layers of experts: what is kept for backward, and the gradients. Eager calls and the operator share it."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.torch import _checks, _moe_operators, _operators
from tilewright.torch._autograd import SECOND
from tilewright.torch._moe_passes import Given, Kept, Layer, Rows, Saved, Wanted
from tilewright.torch._weights import Pair, copies_of, quantized

_COUNT = 32  # inputs of the operator
_WANTED = 7  # inputs that have gradients: x, weights, up, down, up_bias, down_bias, addend


def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    """Saves what backward needs of the inputs and the results. A tensor is saved only if a gradient needs it."""
    x, weights, up, down, up_bias, down_bias, addend = inputs[:_WANTED]
    of_up, of_down, main_grads = inputs[11:13], inputs[15:17], inputs[17:19]
    keeps, ctx.requantizes = inputs[19:21]
    ctx.layer = layer = Layer(*inputs[23:])
    ctx.shapes, ctx.dtypes = (up.shape, down.shape), (up.dtype, down.dtype)
    ctx.bias_dtypes = tuple(None if bias is None else bias.dtype for bias in (up_bias, down_bias))
    ctx.addend_dtype = None if addend is None else addend.dtype
    ctx.set_materialize_grads(False)
    if not keeps[0]:
        ctx.save_for_backward()
        return
    wants = Wanted(*ctx.needs_input_grad[: _WANTED - 1])
    wants_d_h = wants.x or wants.weights or wants.up or wants.up_bias
    at_input = layer.weights_at == "input"
    wants_rows = wants.x or (wants.weights and at_input)
    ctx.save_for_backward(
        x if wants.weights and at_input else None,
        weights if wants.weights or (wants.x and at_input) else None,
        down_bias if wants.weights and layer.weights_at == "combine" else None,
        output[1] if wants_d_h else None,
        *(output[2:4] if wants.up else (None, None)),
        *(output[4:6] if wants.down else (None, None)),
        *output[6:9],
        None if weights is None else output[9],
        *((up, None) if ctx.requantizes else of_up if wants_rows else (None, None)),
        *((down, None) if ctx.requantizes else of_down if wants_d_h else (None, None)),
    )
    # Not in save_for_backward, as in `_autograd.keep`.
    ctx.main_grads, ctx.masters = main_grads, (up, down)


def keep_of_operator(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    ctx.mark_non_differentiable(*output[1:])
    keep(ctx, inputs, output)


def gradients(ctx: Any, d_out: torch.Tensor | None, *_: Any) -> tuple[torch.Tensor | None, ...]:
    """The gradient of each input of the operator; None where there is none."""
    if d_out is None:
        return (None,) * _COUNT
    if _operators.is_legacy_batch(d_out):
        _checks.refuse(
            "d_out",
            "a batch of gradients (is_grads_batched=True or vectorize=True)",
            "one gradient",
            "Call backward once per gradient.",
        )
    if torch.is_grad_enabled():
        raise RuntimeError(f"{SECOND} Call backward without create_graph=True.")
    wanted, layer = Wanted(*ctx.needs_input_grad[: _WANTED - 1]), ctx.layer
    d_addend = d_out.to(ctx.addend_dtype) if ctx.needs_input_grad[6] else None
    if not any(wanted):
        return (*(None,) * len(wanted), d_addend, *(None,) * (_COUNT - _WANTED))
    x, weights, down_bias, gate_up, *kept = ctx.saved_tensors
    x_kept, h_kept = _moe_operators.pair(*kept[:2]), _moe_operators.pair(*kept[2:4])
    up, down = _dgrad_of(ctx, *kept[8:10]), _dgrad_of(ctx, *kept[10:12])
    rows = Rows(*kept[4:8])
    gate_up = d_out.new_empty(0) if gate_up is None else gate_up
    saved = Saved(x, weights, down_bias, Kept(gate_up, x_kept, h_kept, rows), up, down)
    up_shape, down_shape = ctx.shapes
    sizes = [up_shape[0], up_shape[1], up_shape[2], down_shape[2]]
    made = list(_moe_operators.gradients(d_out, saved, ctx.main_grads, ctx.dtypes, sizes, wanted, layer))
    for i, (master, main_grad) in enumerate(zip(ctx.masters, ctx.main_grads)):
        if wanted[2 + i] and main_grad is not None:
            master.grad_added_to_main_grad = True
            # As `_autograd.gradients` says: hooks want a gradient that is not None.
            made[2 + i] = torch.zeros((), dtype=master.dtype, device=master.device).expand(master.shape)
    for i, dtype in enumerate(ctx.bias_dtypes):
        made[4 + i] = None if made[4 + i] is None else made[4 + i].to(dtype)
    return (*made, d_addend, *(None,) * (_COUNT - _WANTED))


def _dgrad_of(ctx: Any, values: torch.Tensor | None, scales: torch.Tensor | None) -> Pair | None:
    if values is None or not ctx.requantizes:
        return _moe_operators.pair(values, scales)
    quantizer = _operators.watched_quantizer if _operators.is_watched(values) else quantized
    return copies_of(values, ctx.layer.recipe, False, True, quantizer).dgrad


class QuantizedExperts(torch.autograd.Function):
    """The node of autograd of eager calls."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> torch.Tensor:  # type: ignore[override]
        x, weights, _, _, up_bias, down_bias, addend, experts, expert_map = inputs[:9]
        given = Given(x, weights, up_bias, down_bias, addend, experts, expert_map)
        output = _moe_operators.run_forward(given, inputs[9:11], inputs[13:15], inputs[19], Layer(*inputs[23:]))
        keep(ctx, inputs, output)
        return output[0]

    @staticmethod
    def backward(ctx: Any, d_out: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        return gradients(ctx, d_out)


if _operators.AVAILABLE:
    torch.library.register_autograd("tilewright::moe", gradients, setup_context=keep_of_operator, lib=_operators.LIBRARY)
