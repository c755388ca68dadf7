"""fp8 copies of a master weight, and when they are stale."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from tilewright._quantize import quantize
from tilewright.torch import _checks
from tilewright.torch._recipes import LayerRecipe

Pair: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""Codes and scales."""


def copy_of(w: torch.Tensor, side: str, transposed: bool) -> Pair:
    """[..., N, K] along K, or, transposed, [..., K, N] along N."""
    _checks.check_memory("w", w)
    w = w.detach()
    quantized = quantize(w.transpose(-1, -2) if transposed else w, side)
    return quantized.values, quantized.scales


def forward_copy(w: torch.Tensor, recipe: LayerRecipe, copy: Callable[..., Pair] = copy_of) -> Pair:
    return copy(w, recipe.weights, False)


def dgrad_copy(w: torch.Tensor, recipe: LayerRecipe, forward: Pair | None, copy: Callable[..., Pair] = copy_of) -> Pair:
    """W as dgrad reads it, in `dgrad_layout`: forward's codes where they serve it, with the scales of the transposed operand.

    Where the recipe folds, the scales are those that dY is multiplied by.
    """
    if recipe.backward_weights is not None:
        return copy(w, recipe.backward_weights, True)
    values, scales = forward_copy(w, recipe, copy) if forward is None else forward
    return values, scales.transpose(-1, -2) if recipe.weights == "128x128" else scales


class FrozenCopy(NamedTuple):
    """W's copy of forward that calls take as it is, whatever W has become: of layers that are frozen."""

    values: torch.Tensor
    scales: torch.Tensor


def is_captured(w: torch.Tensor) -> bool:
    """Whether the calls of this moment go into a CUDA graph."""
    return w.is_cuda and torch.cuda.is_current_stream_capturing()


class WeightCache:
    """The copies of one weight, made anew when its version counter, its address or its storage has changed.

    A write that torch does not count (through `.data`, by another library, by a CUDA graph that is replayed) is not seen: call
    `refresh()` after it. In a CUDA graph that is captured the copies are made at each call, so that each replay makes them of
    what W is then; from then on calls outside of graphs make theirs anew each time too, as a replay may have written W.
    """

    def __init__(self) -> None:
        self._was_captured = False
        self.refresh()

    def __reduce__(self) -> tuple[type[WeightCache], tuple[()]]:
        """A copy of a layer has a weight of its own: nothing is copied."""
        return type(self), ()

    def refresh(self) -> None:
        """The next call makes the copies anew."""
        self._forward: Pair | None = None
        self._dgrad: Pair | None = None
        # The storage too: another tensor may get the address of one that is gone, and count from 0 as well.
        self._made_of: tuple[int, int, StorageWeakRef, LayerRecipe] | None = None

    def forward(self, w: torch.Tensor, recipe: LayerRecipe) -> Pair:
        if not self._may_keep(w):
            return forward_copy(w, recipe)
        self._drop_stale(w, recipe)
        if self._forward is None:
            with torch.inference_mode(False):  # what is made in inference mode can't be kept for backward by a later call
                self._forward = forward_copy(w, recipe)
        return self._forward

    def dgrad(self, w: torch.Tensor, recipe: LayerRecipe, forward: Pair | None = None) -> Pair:
        """forward: what the same call got from `forward`."""
        if not self._may_keep(w):
            return dgrad_copy(w, recipe, forward)
        self._drop_stale(w, recipe)
        if self._dgrad is None:
            with torch.inference_mode(False):
                self._dgrad = dgrad_copy(w, recipe, self._forward)
        return self._dgrad

    def _may_keep(self, w: torch.Tensor) -> bool:
        if is_captured(w):
            self._was_captured = True
        if self._was_captured or w.is_inference():  # a tensor of inference mode counts no versions
            self.refresh()
            return False
        return True

    def _drop_stale(self, w: torch.Tensor, recipe: LayerRecipe) -> None:
        made_of = (w._version, w.data_ptr(), StorageWeakRef(_checks.storage(w)), recipe)
        if made_of != self._made_of:
            self.refresh()
            self._made_of = made_of
