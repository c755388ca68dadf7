"""The layers as torch operators, torch.ops.tilewright.*, which torch.compile keeps whole. Needs torch 2.4 or newer.

`linear` is differentiable (see `_autograd`), and `linear_gradients` adds to main_grad. A result that is not requested is an
empty tensor. If nothing observes operators, calls bypass torch's dispatcher.
"""

from __future__ import annotations

from typing import Any

import torch

from tilewright._arrays import torch_dtype
from tilewright.torch import _sums
from tilewright.torch._passes import Wanted, backward_pass, forward_pass
from tilewright.torch._frozen import copy_for
from tilewright.torch._recipes import RECIPES, LayerRecipe
from tilewright.torch._weights import Copies, Pair, columns_of_groups, in_one_pass, quantized, transposed_groups

AVAILABLE = hasattr(torch.library, "register_autograd")

_LINEAR = (
    "Tensor x, Tensor w, Tensor? bias, Tensor? ends, Tensor values, Tensor scales, Tensor? dgrad_values, Tensor? dgrad_scales, "
    "Tensor? main_grad, str recipe, str gradient_format, bool promoted, bool keeps, bool requantizes, bool frozen, bool checks, str options"
)
_GRADIENTS = (
    "Tensor dy, Tensor? x_values, Tensor? x_scales, Tensor? w_values, Tensor? w_scales, Tensor? ends, "
    "Tensor(a!)? main_grad, str recipe, str gradient_format, bool promoted, bool[] wanted, ScalarType dtype, str options"
)
_USUAL = (torch.Tensor, torch.nn.Parameter)
_SCALE_STEP = 4  # rows of scales begin at multiples of 4 elements
_BLOCK = 128


def is_compiling() -> bool:
    return AVAILABLE and bool(torch.compiler.is_compiling())


def is_watched(*given: Any) -> bool:
    """Whether something observes operators, or a tensor has no memory that kernels could read.

    Observers are a compiler, a tracer, a dispatch mode, a tensor subclass and torch.func. Tensors on the meta device have no
    memory.
    """
    if not AVAILABLE:
        return False
    if is_compiling() or torch.jit.is_tracing() or torch._C._len_torch_dispatch_stack() > 0:
        return True
    if torch._C._are_functorch_transforms_active():
        return True
    for x in given:  # a loop of statements takes half the time of any(): this runs in each call of a layer
        if x is not None and (type(x) not in _USUAL or x.is_meta):
            return True
    return False


def is_legacy_batch(tensor: torch.Tensor) -> bool:
    """Whether autograd computes several gradients at once (is_grads_batched). Its vmap does not use the rules of operators."""
    return AVAILABLE and not is_compiling() and bool(torch._C._functorch.is_legacy_batchedtensor(tensor))


def watched_quantizer(w: torch.Tensor, recipe: str, forward: bool, dgrad: bool) -> Copies:
    made = torch.ops.tilewright.linear_weights(w.detach(), recipe, forward, dgrad)
    separate = dgrad and RECIPES[recipe].backward_weights is not None
    return Copies((made[0], made[1]) if forward else None, (made[2], made[3]) if separate else None)


def gradients(dy: torch.Tensor, *given: Any) -> tuple[torch.Tensor | None, ...]:
    """`backward_pass`, through its operator if something observes operators."""
    x, w, ends, main_grad, recipe, gradient_format, promoted, wanted, dtype, options = given
    if not is_watched(dy):
        return backward_pass(dy, *given)
    nothing = (None, None)
    made = torch.ops.tilewright.linear_gradients(
        dy, *(x or nothing), *(w or nothing), ends, main_grad, recipe, gradient_format, promoted, list(wanted), dtype, options
    )
    there = (wanted.x, wanted.w and main_grad is None, wanted.bias)
    return tuple(tensor if is_there else None for tensor, is_there in zip(made, there))


def _nothing(like: torch.Tensor) -> torch.Tensor:
    return like.new_empty(0)


def _pair(values: torch.Tensor | None, scales: torch.Tensor | None) -> Pair | None:
    return None if values is None or scales is None else (values, scales)


def _linear(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    ends: torch.Tensor | None,
    values: torch.Tensor,
    scales: torch.Tensor,
    dgrad_values: torch.Tensor | None,
    dgrad_scales: torch.Tensor | None,
    main_grad: torch.Tensor | None,
    recipe: str,
    gradient_format: str,
    promoted: bool,
    keeps: bool,
    requantizes: bool,
    frozen: bool,
    checks: bool,
    options: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if frozen:
        values, scales = copy_for(w, values, scales, recipe, checks)
    y, kept, _ = forward_pass(x, w, (values, scales), bias, ends, recipe, promoted, keeps, options)
    return (y, *(kept or (_nothing(x), _nothing(x))))


def _fake_linear(x: Any, w: Any, bias: Any, ends: Any, *given: Any) -> tuple[torch.Tensor, ...]:
    recipe, keeps = RECIPES[given[5]], given[8]
    y = x.new_empty(x.shape[0], w.shape[-2])
    if not keeps or w.numel() == 0:
        return y, _nothing(x), _nothing(x)
    return (y, *fake_operand_of_wgrad(x, x.shape, None if ends is None else ends.shape[0], recipe))


def fake_operand_of_wgrad(like: Any, shape: Any, groups: int | None, recipe: LayerRecipe) -> Pair:
    """Tensors shaped like what forward keeps of X [tokens, K] for dW. groups: None for a dense layer."""
    tokens, k = shape
    if recipe.columns is None:
        return _fake_quantized(like, recipe.activations, shape)
    count = 1 if groups is None else groups
    columns = (tokens + (_sums.ALIGNMENT - 1) * count) // _sums.ALIGNMENT * _sums.ALIGNMENT
    values, scales = _fake_quantized(like, recipe.columns, (k, columns))
    if groups is not None and recipe.columns in ("row", "tensor"):  # scales per group
        scales = scales.new_empty(count, *((k,) if recipe.columns == "row" else ()))
    if recipe.columns == "1x128":  # the scales of neighbouring features are neighbours in memory
        padded = (k + _SCALE_STEP - 1) // _SCALE_STEP * _SCALE_STEP
        scales = scales.new_empty(scales.shape[1], padded).t()[:k]
    return values, scales


def _fake_quantized(like: Any, side: str, shape: Any) -> Pair:
    """Tensors shaped like the results of `quantize` and `quantize_tokens` for [..., rows, k]."""
    *groups, rows, k = shape
    blocks = (k + _BLOCK - 1) // _BLOCK
    scales = {
        "tensor": groups or [1],
        "row": [*groups, rows],
        "1x128": [*groups, rows, blocks],
        "128x128": [*groups, (rows + _BLOCK - 1) // _BLOCK, blocks],
    }[side]
    return like.new_empty(shape, dtype=torch_dtype("e4m3")), like.new_empty(scales, dtype=torch.float32)


def _linear_weights(w: torch.Tensor, recipe: str, forward: bool, dgrad: bool) -> tuple[torch.Tensor, ...]:
    made = quantized(w, recipe, forward, dgrad)
    parts = (*(made.forward or (None, None)), *(made.dgrad or (None, None)))
    return tuple(_nothing(w) if part is None else part for part in parts)


def _fake_weights(w: Any, recipe: str, forward: bool, dgrad: bool) -> tuple[torch.Tensor, ...]:
    layer, (*groups, n, k) = RECIPES[recipe], w.shape
    made = [_nothing(w) for _ in range(4)]
    if forward:
        made[:2] = _fake_quantized(w, layer.weights, w.shape)
    if dgrad and layer.backward_weights is not None:
        made[2:] = _fake_quantized(w, layer.backward_weights, [*groups, k, n])
        if forward and groups and in_one_pass(w):
            made[2] = transposed_groups(made[2].new_empty(k, columns_of_groups(groups[0], n)), groups[0], n)
    return tuple(made)


def _gradients(
    dy: torch.Tensor,
    x_values: torch.Tensor | None,
    x_scales: torch.Tensor | None,
    w_values: torch.Tensor | None,
    w_scales: torch.Tensor | None,
    ends: torch.Tensor | None,
    main_grad: torch.Tensor | None,
    recipe: str,
    gradient_format: str,
    promoted: bool,
    wanted: list[bool],
    dtype: torch.dtype,
    options: str,
) -> tuple[torch.Tensor, ...]:
    x, w = _pair(x_values, x_scales), _pair(w_values, w_scales)
    made = backward_pass(dy, x, w, ends, main_grad, recipe, gradient_format, promoted, Wanted(*wanted), dtype, options)
    return tuple(_nothing(dy) if tensor is None else tensor for tensor in made)


def _fake_gradients(dy: Any, *given: Any) -> tuple[torch.Tensor, ...]:
    x_values, _, w_values, _, ends, main_grad, name, _, _, wanted, dtype, _ = given
    recipe, groups, n = RECIPES[name], 1 if ends is None else ends.shape[0], dy.shape[1]
    dx = dw = dbias = _nothing(dy)
    if wanted[0]:
        dx = dy.new_empty(dy.shape[0], w_values.shape[-1 if recipe.dgrad_layout == "nn" else -2])
    if wanted[1] and main_grad is None:
        dw = dy.new_empty(groups, n, x_values.shape[1 if recipe.columns is None else 0], dtype=dtype)
    else:
        dw = _nothing(dy)
    if wanted[2]:
        dbias = dy.new_empty(groups, n, dtype=torch.float32)
    return dx, dw, dbias


def _entry_by_entry(operator: Any) -> Any:
    """The vmap rule: one call per entry of the batch, because a scale may cover all of an entry."""

    def rule(info: Any, in_dims: Any, *given: Any) -> Any:
        def entry(i: int) -> Any:
            return [x.select(dim, i) if isinstance(dim, int) else x for x, dim in zip(given, in_dims)]

        made = [operator(*entry(i)) for i in range(info.batch_size)]
        stacked = tuple(map(torch.stack, zip(*made)))
        return stacked, (0,) * len(stacked)

    return rule


def define(name: str, arguments: str, results: str, function: Any, fake: Any) -> None:
    """Adds an operator to torch.ops.tilewright."""
    library = LIBRARY
    exact = [getattr(torch.Tag, tag) for tag in ("needs_exact_strides", "needs_fixed_stride_order") if hasattr(torch.Tag, tag)]
    library.define(f"{name}({arguments}) -> ({results})", tags=exact[:1])
    library.impl(name, function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"tilewright::{name}", fake, lib=library)
    operator = getattr(torch.ops.tilewright, name)
    if hasattr(torch.library, "register_vmap"):  # from torch 2.5 on
        torch.library.register_vmap(f"tilewright::{name}", _entry_by_entry(operator), lib=library)


if AVAILABLE:
    LIBRARY = torch.library.Library("tilewright", "FRAGMENT")
    define(
        "linear_weights",
        "Tensor w, str recipe, bool forward, bool dgrad",
        "Tensor, Tensor, Tensor, Tensor",
        _linear_weights,
        _fake_weights,
    )
    define("linear", _LINEAR, "Tensor, Tensor, Tensor", _linear, _fake_linear)
    define("linear_gradients", _GRADIENTS, "Tensor, Tensor, Tensor", _gradients, _fake_gradients)
