"""The phases of an `_exchange` as torch operators with gradients, for eager and compiled calls.

    ranks_tokens  the tokens of all ranks          its adjoint: ranks_token_gradients
    ranks_sums    the sums of this rank's tokens   its adjoint: ranks_result_gradients

Gathering and summing over the ranks are each other's adjoint. Every rank must take part in all phases of backward, also one whose
x needs no gradient, or that has no tokens. So in training the gathered tokens always require gradients. An empty tensor that
requires one, the anchor of the group, is an operand of ranks_tokens for that.
"""

from __future__ import annotations

from typing import Any

import torch

from tilewright.torch import _operators
from tilewright.torch._autograd import SECOND
from tilewright.torch._exchange import exchange_of


def _tokens(
    x: torch.Tensor, numbers: torch.Tensor, weights: torch.Tensor | None, anchor: torch.Tensor | None, group: str
) -> tuple[torch.Tensor, ...]:
    return tuple(exchange_of(group).tokens(x, numbers, weights, anchor is not None))


def _fake_tokens(x: Any, numbers: Any, weights: Any, anchor: Any, group: str) -> tuple[torch.Tensor, ...]:
    exchange = exchange_of(group)
    rows, sizes = exchange.ranks * exchange.sizes.room, exchange.sizes
    return (
        x.new_empty(rows, sizes.hidden, dtype=sizes.sums),
        x.new_empty(rows, sizes.choices, dtype=torch.int32),
        x.new_empty(rows, sizes.choices, dtype=torch.float32),
    )


def _token_gradients(
    d_x: torch.Tensor, d_weights: torch.Tensor, tokens: int, choices: int, group: str, call: int
) -> tuple[torch.Tensor, ...]:
    of_x, of_weights = exchange_of(group).token_gradients(d_x, d_weights, tokens, call)
    # The shared experts have the last choices. Their weight is 1.
    return of_x, of_weights[:, :choices].contiguous(), d_x.new_zeros(1, dtype=torch.float32)


def _fake_token_gradients(d_x: Any, d_weights: Any, tokens: Any, choices: int, group: str, call: int) -> tuple[torch.Tensor, ...]:
    sizes = exchange_of(group).sizes
    return (
        d_x.new_empty(tokens, sizes.hidden, dtype=sizes.dtype),
        d_x.new_empty(tokens, choices, dtype=torch.float32),
        d_x.new_empty(1, dtype=torch.float32),
    )


def _sums(parts: torch.Tensor, addend: torch.Tensor | None, tokens: int, group: str) -> torch.Tensor:
    exchange = exchange_of(group)
    return exchange.sums(parts, tokens, addend, exchange.calls)


def _fake_sums(parts: Any, addend: Any, tokens: Any, group: str) -> torch.Tensor:
    return parts.new_empty(tokens, parts.shape[1], dtype=exchange_of(group).sizes.dtype)


def _result_gradients(d_out: torch.Tensor, group: str, call: int) -> torch.Tensor:
    return exchange_of(group).gradients(d_out, call)


def _fake_result_gradients(d_out: Any, group: str, call: int) -> torch.Tensor:
    exchange = exchange_of(group)
    sizes = exchange.sizes
    return d_out.new_empty(exchange.ranks * sizes.room, sizes.hidden, dtype=sizes.sums)


def _call_of(tensor: torch.Tensor, group: str) -> int:
    """The number of the call, for messages of its backward. A compiler traces one call for many: 0."""
    return 0 if _operators.is_watched(tensor) else exchange_of(group).calls


def _keep_of_tokens(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    x, numbers, weights, _, ctx.group = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.tokens, ctx.choices = x.shape[0], numbers.shape[1] if weights is None else weights.shape[1]
    ctx.weights_dtype = None if weights is None else weights.dtype
    ctx.call = _call_of(x, ctx.group)


def _gradients_of_tokens(ctx: Any, d_x: torch.Tensor, _: Any, d_weights: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    made = torch.ops.tilewright.ranks_token_gradients(d_x, d_weights, ctx.tokens, ctx.choices, ctx.group, ctx.call)
    wants_x, _, wants_weights, _, _ = ctx.needs_input_grad
    of_weights = made[1].to(ctx.weights_dtype) if wants_weights else None
    # A compiler drops an operator whose results are not used. The other ranks would wait for it.
    anchor = made[2] if _operators.is_watched(d_x) else None
    return made[0] if wants_x else None, None, of_weights, anchor, None


def _keep_of_sums(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    parts, addend, _, ctx.group = inputs
    ctx.addend_dtype = None if addend is None else addend.dtype
    ctx.call = _call_of(parts, ctx.group)


def _gradients_of_sums(ctx: Any, d_out: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    if torch.is_grad_enabled():
        raise RuntimeError(f"{SECOND} Call backward without create_graph=True.")
    wants_parts, wants_addend = ctx.needs_input_grad[:2]
    d_parts = torch.ops.tilewright.ranks_result_gradients(d_out, ctx.group, ctx.call) if wants_parts else None
    return d_parts, d_out.to(ctx.addend_dtype) if wants_addend else None, None, None


if _operators.AVAILABLE:
    _ANNOUNCED = "Tensor x, Tensor numbers, Tensor? weights, Tensor? anchor, str group"
    _operators.define("ranks_tokens", _ANNOUNCED, "Tensor, Tensor, Tensor", _tokens, _fake_tokens)
    _operators.define("ranks_sums", "Tensor parts, Tensor? addend, SymInt tokens, str group", "Tensor", _sums, _fake_sums)
    _RETURNED = "Tensor d_x, Tensor d_weights, SymInt tokens, int choices, str group, int call"
    _operators.define("ranks_token_gradients", _RETURNED, "Tensor, Tensor, Tensor", _token_gradients, _fake_token_gradients)
    _GRADIENT = "Tensor d_out, str group, int call"
    _operators.define("ranks_result_gradients", _GRADIENT, "Tensor", _result_gradients, _fake_result_gradients)
    for _name, _gradients, _keep in (
        ("ranks_tokens", _gradients_of_tokens, _keep_of_tokens),
        ("ranks_sums", _gradients_of_sums, _keep_of_sums),
    ):
        torch.library.register_autograd(f"tilewright::{_name}", _gradients, setup_context=_keep, lib=_operators.LIBRARY)
