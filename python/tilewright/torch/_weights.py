"""fp8 copies of a master weight, and when they are stale."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tilewright._quantize import Quantized, quantize
from tilewright.torch._recipes import LayerRecipe


@dataclass(frozen=True)
class WeightCopies:
    """forward: [..., N, K] quantised along K. backward: W in dgrad, layout nn (codes [..., N, K]) or nt ([..., K, N]).

    Where the recipe folds, backward has the scales that dY is multiplied by.
    """

    forward: Quantized
    backward: Quantized | None
    backward_layout: str


def backward_of(forward: Quantized) -> Quantized:
    """The codes as they are, with the scales of the transposed operand."""
    scales = forward.scales
    if forward.recipe == "128x128":
        scales = scales.transpose(-1, -2)
    return Quantized(forward.values, forward.recipe, scales)


def quantize_weights(w: torch.Tensor, recipe: LayerRecipe, backward: bool) -> WeightCopies:
    w = w.detach()
    forward = quantize(w, recipe.weights)
    if not backward:
        return WeightCopies(forward, None, "nn")
    if recipe.backward_weights is None:
        return WeightCopies(forward, backward_of(forward), "nn")
    return WeightCopies(forward, quantize(w.transpose(-1, -2), recipe.backward_weights), "nt")


class WeightCache:
    """The copies of one weight, made anew when its version counter or its address has changed.

    A write that torch does not count (through `.data`, by another library) is not seen: call `refresh()` after it.
    """

    def __init__(self) -> None:
        self._copies: WeightCopies | None = None
        self._made_of: tuple[int, int, bool] | None = None

    def refresh(self) -> None:
        """The next call makes the copies anew."""
        self._copies = None

    def copies(self, w: torch.Tensor, recipe: LayerRecipe, backward: bool) -> WeightCopies:
        made_of = (w._version, w.data_ptr(), backward)
        if self._copies is None or self._made_of is None or self._made_of[:2] != made_of[:2] or made_of[2] > self._made_of[2]:
            self._copies = quantize_weights(w, recipe, backward)
            self._made_of = made_of
        return self._copies
