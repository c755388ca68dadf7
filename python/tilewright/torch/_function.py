"""A call of a layer, dense or grouped: the copies of W that it reads, and its node of autograd.

Dense: Y = X W^T + bias, with X [tokens, K] and W [N, K]. Grouped: the rows of each group with its W of [groups, N, K].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from tilewright.torch import _checks, _in_force, _operators, _transforms
from tilewright.torch._autograd import NOTHING, QuantizedLinear
from tilewright.torch._frozen import FrozenCopy, copy_for
from tilewright.torch._recipes import RECIPES
from tilewright.torch._reuse import reusable_copies
from tilewright.torch._weights import Copies, copies_of


class How(NamedTuple):
    """The options of a call; `grouped_linear` documents them."""

    recipe: str
    gradient_format: str
    promoted: bool
    keep: str


def differentiable_linear(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    ends: torch.Tensor | None,
    main_grad: torch.Tensor | None,
    how: How,
    frozen: FrozenCopy | None,
) -> torch.Tensor:
    """The call as one node of autograd. Goes through the torch operator if a compiler or a dispatch mode observes operators.

    The copies of w are made in this call, and backward uses the one for dgrad. A later change of w does not reach a gradient.
    """
    wants = torch.is_grad_enabled()
    if frozen is not None:
        _checks.check_frozen(wants, x, w, bias)
    _transforms.check_forward_gradients(x, w, bias)
    if frozen is None and _transforms.are_active():
        return _transforms.transformed_linear(x, w, bias, ends, main_grad, *how[:3], _in_force.word)
    keeps, requantizes = wants and w.requires_grad, how.keep == "weight"
    wants_dgrad = wants and x.requires_grad and not requantizes
    checks = frozen is not None and frozen.checks
    options = (main_grad, *how[:3], keeps, requantizes, frozen is not None, checks, _in_force.word)
    if _operators.is_watched(x, w, bias, ends, main_grad):
        if _operators.is_compiling() and keeps and main_grad is not None:
            w.grad_added_to_main_grad = True
        with torch.no_grad():
            copies = _copies_in_sight(w, how.recipe, wants_dgrad, frozen)
        y: torch.Tensor = torch.ops.tilewright.linear(x, w, bias, ends, *copies, *options)[0]
        return y
    if frozen is not None:
        copies: Copies | None = Copies(copy_for(w, frozen.values, frozen.scales, how.recipe, frozen.checks), None)
    else:
        copies = None if requantizes else reusable_copies(w, how.recipe, wants_dgrad)
        if copies is None and RECIPES[how.recipe].backward_weights is not None:
            copies = copies_of(w, how.recipe, True, wants_dgrad)
    # Without copies, forward quantizes w in the same call of the library, and backward reads that copy.
    made = (None,) * 4 if copies is None else _flat(copies)
    result: torch.Tensor = QuantizedLinear.apply(x, w, bias, ends, *made, *options)
    return result


def _copies_in_sight(w: torch.Tensor, recipe: str, dgrad: bool, frozen: FrozenCopy | None) -> tuple[Any, ...]:
    """The copies, made by the torch operator. The operator that reads a frozen copy checks at run time that it is current."""
    if frozen is not None:
        return (frozen.values, frozen.scales, None, None)
    return _flat(copies_of(w, recipe, True, dgrad, _operators.watched_quantizer))


def _flat(copies: Copies) -> tuple[torch.Tensor | None, ...]:
    return (*(copies.forward or NOTHING), *(copies.dgrad or NOTHING))
