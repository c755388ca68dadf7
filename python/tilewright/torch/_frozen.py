"""Layers that are frozen: a copy of W that serves every call as long as W is the memory that it was made of."""

from __future__ import annotations

from typing import NamedTuple

import torch

from tilewright.torch import _checks
from tilewright.torch._memory import Memory, memory_of
from tilewright.torch._weights import Pair, copies_of

_MADE_OF: dict[tuple[torch.device, int], Memory] = {}
"""By the address of a copy's codes. Compiled programs pass tensors on without their attributes: an address is what is left of them."""


class FrozenCopy(NamedTuple):
    values: torch.Tensor
    scales: torch.Tensor
    checks: bool


def remember(values: torch.Tensor, w: torch.Tensor) -> None:
    """These codes are a copy of w as it is now."""
    _MADE_OF[values.device, values.data_ptr()] = memory_of(w)


def forget(values: torch.Tensor) -> None:
    _MADE_OF.pop((values.device, values.data_ptr()), None)


def is_copy_of(values: torch.Tensor, w: torch.Tensor) -> bool:
    return _MADE_OF.get((values.device, values.data_ptr())) == memory_of(w)


def copy_for(w: torch.Tensor, values: torch.Tensor, scales: torch.Tensor, recipe: str, checks: bool) -> Pair:
    """The frozen copy, or one that is made now, if another weight has taken the place of the frozen one."""
    if is_copy_of(values, w):
        if checks:
            _check_values(w, values, scales, recipe)
        return values, scales
    made = copies_of(w, recipe, True, False).forward
    assert made is not None
    return made


def _check_values(w: torch.Tensor, values: torch.Tensor, scales: torch.Tensor, recipe: str) -> None:
    if w.is_cuda and torch.cuda.is_current_stream_capturing():
        _checks.refuse("w", "a CUDA graph that is captured, of a layer with freeze(check=True)", "freeze()", "a graph can't compare")
    made = copies_of(w, recipe, True, False).forward
    assert made is not None
    raw = torch.uint8
    if not (torch.equal(made[0].view(raw), values.view(raw)) and torch.equal(made[1].view(raw), scales.view(raw))):
        _checks.refuse(
            "w",
            "a weight that was written since freeze()",
            "the values that were frozen",
            "call refresh() after a write, or unfreeze()",
        )
