"""The names of recipes that a user of an engine may write, and what they mean."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.integrations._fit import unfit
from tilewright.torch import RECIPES


class Sides(NamedTuple):
    """How the weights and the activations of both products are quantized."""

    weights: str
    activations: str
    packed_for: str | None
    """"fp8" or "bf16": the weights are packed for these activations. None: not packed."""


OF_PACKED = {
    "1x128:mxfp4": Sides("mxfp4", "1x128", "fp8"),
    "bf16:mxfp4": Sides("mxfp4", "bf16", "bf16"),
}
"""Recipes for inference only, activations first: weights are quantized to MXFP4 and packed once."""


def sides_of(recipe: str) -> Sides:
    """Raises `Unfit` if there is no such recipe."""
    if recipe in OF_PACKED:
        return OF_PACKED[recipe]
    if recipe in RECIPES:
        return Sides(RECIPES[recipe].weights, RECIPES[recipe].activations, None)
    unfit("recipe", repr(recipe), "one of " + ", ".join([*RECIPES, *OF_PACKED]))


def trains(recipe: str) -> bool:
    """Whether the recipe has gradients: one of `tilewright.torch.RECIPES`."""
    return recipe in RECIPES
