"""Frozen layers: one fp8 copy of W serves every call, as long as W is the memory from which the copy was made."""

from __future__ import annotations

from typing import NamedTuple

import torch

from tilewright.torch import _checks
from tilewright.torch._memory import Memory, memory_of
from tilewright.torch._weights import Pair, copies_of

_MADE_OF: dict[tuple[torch.device, int], Memory] = {}
"""The memory of W, by the device and the address of the values of its copy.

Compiled programs pass tensors on without their Python attributes, so that only the address identifies a copy.
"""


class FrozenCopy(NamedTuple):
    values: torch.Tensor
    scales: torch.Tensor
    checks: bool


def remember(values: torch.Tensor, w: torch.Tensor) -> None:
    """Records that `values` is a copy of the present w."""
    _MADE_OF[values.device, values.data_ptr()] = memory_of(w)


def forget(values: torch.Tensor) -> None:
    _MADE_OF.pop((values.device, values.data_ptr()), None)


def is_copy_of(values: torch.Tensor, w: torch.Tensor) -> bool:
    return _MADE_OF.get((values.device, values.data_ptr())) == memory_of(w)


def copy_for(w: torch.Tensor, values: torch.Tensor, scales: torch.Tensor, recipe: str, checks: bool) -> Pair:
    """The frozen copy; or a new copy, if w is not the weight that was frozen."""
    if is_copy_of(values, w):
        if checks:
            _check_values(w, values, scales, recipe)
        return values, scales
    made = copies_of(w, recipe, True, False).forward
    assert made is not None
    return made


def _check_values(w: torch.Tensor, values: torch.Tensor, scales: torch.Tensor, recipe: str) -> None:
    if w.is_cuda and torch.cuda.is_current_stream_capturing():
        _checks.refuse("w", "freeze(check=True) during a CUDA graph capture", "freeze()", "A graph cannot compare values.")
    made = copies_of(w, recipe, True, False).forward
    assert made is not None
    raw = torch.uint8
    if not (torch.equal(made[0].view(raw), values.view(raw)) and torch.equal(made[1].view(raw), scales.view(raw))):
        _checks.refuse(
            "w",
            "a weight that was written after freeze()",
            "the values that were frozen",
            "Call refresh() after a write, or unfreeze().",
        )
