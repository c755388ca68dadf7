"""Layers of experts as torch operators, torch.ops.tilewright.moe, moe_quantized and moe_gradients, which torch.compile keeps whole.

`moe` is differentiable (see `_moe_autograd`). A result that is not requested is an empty tensor.
"""

from __future__ import annotations

from typing import Any

import torch

from tilewright import _core
from tilewright.torch import _checks, _operators
from tilewright.torch._frozen import copy_for
from tilewright.torch._moe_passes import (
    Given,
    Kept,
    Layer,
    Rows,
    Saved,
    Wanted,
    backward_pass,
    forward_only,
    forward_pass,
    weights_operand,
)
from tilewright.torch._recipes import RECIPES

_LAYER = (
    "str recipe, str gradient_format, bool promoted, str activation, float[] numbers, bool interleaved, str weights_at, "
    "int shared, str options"
)
_MOE = (
    "Tensor x, Tensor? weights, Tensor up, Tensor down, Tensor? up_bias, Tensor? down_bias, Tensor? addend, Tensor experts, "
    "Tensor? expert_map, Tensor up_values, Tensor up_scales, Tensor? up_dgrad_values, Tensor? up_dgrad_scales, "
    "Tensor down_values, Tensor down_scales, Tensor? down_dgrad_values, Tensor? down_dgrad_scales, Tensor? up_main_grad, "
    "Tensor? down_main_grad, bool[] keeps, bool requantizes, bool frozen, bool checks, " + _LAYER
)
_QUANTIZED = (
    "Tensor x, Tensor? weights, Tensor? up_bias, Tensor? down_bias, Tensor? addend, Tensor experts, Tensor? expert_map, "
    "Tensor[] up, str up_recipe, Tensor[] down, str down_recipe, str activations, " + _LAYER
)
_GRADIENTS = (
    "Tensor d_out, Tensor? x, Tensor? weights, Tensor? down_bias, Tensor gate_up, Tensor? x_values, Tensor? x_scales, "
    "Tensor? h_values, Tensor? h_scales, Tensor rows, Tensor sources, Tensor ends, Tensor? row_weights, Tensor? up_values, "
    "Tensor? up_scales, Tensor? down_values, Tensor? down_scales, Tensor(a!)? up_main_grad, Tensor(b!)? down_main_grad, "
    "ScalarType up_dtype, ScalarType down_dtype, int[] sizes, bool[] wanted, " + _LAYER
)
OUTPUTS = 10  # of `moe`: out, gate_up, the operands of both wgrads, rows, sources, ends, weights of rows


def pair(values: torch.Tensor | None, scales: torch.Tensor | None) -> Any:
    return None if values is None or scales is None else (values, scales)


def flat_kept(kept: Kept | None, like: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The further results of `moe`."""
    parts: tuple[torch.Tensor | None, ...] = (None,) * (OUTPUTS - 1)
    if kept is not None:
        parts = (kept.gate_up, *(kept.x or (None, None)), *(kept.h or (None, None)), *kept.rows)
    return tuple(like.new_empty(0) if part is None else part for part in parts)  # results share no memory


def _moe(*given: Any) -> tuple[torch.Tensor, ...]:
    x, weights, up, down, up_bias, down_bias, addend, experts, expert_map = given[:9]
    up_values, up_scales, _, _, down_values, down_scales = given[9:15]
    keeps, _, frozen, checks = given[19:23]
    layer = Layer(*given[23:])
    if frozen:
        up_values, up_scales = copy_for(up, up_values, up_scales, layer.recipe, checks)
        down_values, down_scales = copy_for(down, down_values, down_scales, layer.recipe, checks)
    tensors = Given(x, weights, up_bias, down_bias, addend, experts, expert_map)
    return run_forward(tensors, (up_values, up_scales), (down_values, down_scales), keeps, layer)


def run_forward(given: Given, up: Any, down: Any, keeps: Any, layer: Layer) -> tuple[torch.Tensor, ...]:
    """keeps: whether backward follows, and whether it needs the operands of wgrad of up and of down."""
    _checks.check_memory("x", given.x)
    if not keeps[0]:
        operands = (weights_operand(up, layer), weights_operand(down, layer))
        return (forward_only(given, *operands, layer, layer.sides.activations), *flat_kept(None, given.x))
    out, kept = forward_pass(given, up, down, keeps[1], keeps[2], layer)
    return (out, *flat_kept(kept, given.x))


def _fake_kept(like: Any, features: int, rows: int, groups: int, layer: Layer, wanted: bool) -> tuple[Any, Any]:
    if not wanted:
        return like.new_empty(0), like.new_empty(0)
    recipe = RECIPES[layer.recipe]
    return _operators.fake_operand_of_wgrad(like, (rows, features), groups, recipe)


def _fake_moe(*given: Any) -> tuple[torch.Tensor, ...]:
    x, weights, up, down = given[:4]
    experts, keeps, layer = given[7], given[19], Layer(*given[23:])
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    if not keeps[0]:
        return (out, *(x.new_empty(0) for _ in range(OUTPUTS - 1)))
    tokens, choices = experts.shape[0], experts.shape[1] + layer.shared
    rows, groups = tokens * choices, up.shape[0]
    integers = {"dtype": torch.int32}
    return (
        out,
        x.new_empty(rows, up.shape[1], dtype=torch.bfloat16),
        *_fake_kept(x, x.shape[1], rows, groups, layer, keeps[1]),
        *_fake_kept(x, down.shape[2], rows, groups, layer, keeps[2]),
        x.new_empty(tokens, choices, **integers),
        x.new_empty(rows, **integers),
        x.new_empty(groups, **integers),
        x.new_empty(0) if weights is None else x.new_empty(rows, dtype=torch.float32),
    )


def operand_of(tensors: list[torch.Tensor], recipe: str) -> Any:
    """An operand of the library from values, scales and the scale of the tensor; packed weights have their header as `recipe`."""
    if recipe.startswith("packed:"):
        return _core.Operand(tensors[0], bytes.fromhex(recipe.removeprefix("packed:")))
    return _core.Operand(tensors[0], recipe, *(tensors[1:] + [None, None])[:2])


def moe_quantized(*given: Any) -> torch.Tensor:
    x, weights, up_bias, down_bias, addend, experts, expert_map, up, up_recipe, down, down_recipe, activations = given[:12]
    tensors = Given(x, weights, up_bias, down_bias, addend, experts, expert_map)
    layer = Layer(*given[12:])
    return forward_only(tensors, operand_of(up, up_recipe), operand_of(down, down_recipe), layer, activations or None)


def _fake_moe_quantized(x: Any, *_: Any) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _moe_gradients(*given: Any) -> tuple[torch.Tensor, ...]:
    d_out, x, weights, down_bias, gate_up = given[:5]
    saved = Saved(
        x,
        weights,
        down_bias,
        Kept(gate_up, pair(given[5], given[6]), pair(given[7], given[8]), Rows(*given[9:13])),
        pair(given[13], given[14]),
        pair(given[15], given[16]),
    )
    wanted = Wanted(*given[22])
    made = backward_pass(d_out, saved, (given[17], given[18]), (given[19], given[20]), wanted, Layer(*given[23:]))
    return tuple(d_out.new_empty(0) if tensor is None else tensor for tensor in made)


def _fake_moe_gradients(d_out: Any, *given: Any) -> tuple[torch.Tensor, ...]:
    weights, up_main_grad, down_main_grad, up_dtype, down_dtype, sizes, wanted = given[1], *given[16:22]
    experts, gate_up_rows, hidden, inner = sizes
    wanted_up, wanted_down = wanted[2] and up_main_grad is None, wanted[3] and down_main_grad is None
    f32 = {"dtype": torch.float32}
    return (
        torch.empty_like(d_out, memory_format=torch.contiguous_format) if wanted[0] else d_out.new_empty(0),
        torch.empty_like(weights, memory_format=torch.contiguous_format) if wanted[1] else d_out.new_empty(0),
        d_out.new_empty(experts, gate_up_rows, hidden, dtype=up_dtype) if wanted_up else d_out.new_empty(0),
        d_out.new_empty(experts, hidden, inner, dtype=down_dtype) if wanted_down else d_out.new_empty(0),
        d_out.new_empty(experts, gate_up_rows, **f32) if wanted[4] else d_out.new_empty(0),
        d_out.new_empty(experts, hidden, **f32) if wanted[5] else d_out.new_empty(0),
    )


def gradients(d_out: torch.Tensor, saved: Saved, main_grads: Any, dtypes: Any, sizes: list[int], wanted: Wanted, layer: Layer) -> Any:
    """`backward_pass`, through its operator if something observes operators."""
    if not _operators.is_watched(d_out):
        return backward_pass(d_out, saved, main_grads, dtypes, wanted, layer)
    nothing, kept = (None, None), saved.kept
    made = torch.ops.tilewright.moe_gradients(
        d_out, saved.x, saved.weights, saved.down_bias, kept.gate_up, *(kept.x or nothing), *(kept.h or nothing), *kept.rows,
        *(saved.up or nothing), *(saved.down or nothing), *main_grads, *dtypes, sizes, list(wanted), *layer,
    )  # fmt: skip
    there = (*wanted[:2], wanted.up and main_grads[0] is None, wanted.down and main_grads[1] is None, *wanted[4:])
    return [tensor if is_there else None for tensor, is_there in zip(made, there)]


if _operators.AVAILABLE:
    _RESULTS = ", ".join(["Tensor"] * OUTPUTS)
    _operators.define("moe", _MOE, _RESULTS, _moe, _fake_moe)
    _operators.define("moe_quantized", _QUANTIZED, "Tensor", moe_quantized, _fake_moe_quantized)
    _operators.define("moe_gradients", _GRADIENTS, ", ".join(["Tensor"] * 6), _moe_gradients, _fake_moe_gradients)
