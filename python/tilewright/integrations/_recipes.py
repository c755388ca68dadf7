"""The names of recipes that a user of an engine may write, and what they mean."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.integrations._fit import unfit
from tilewright.torch import RECIPES


class Sides(NamedTuple):
    """How the weights and the activations of both products are quantized."""

    weights: str
    activations: str


OF_PACKED = {
    "1x128:mxfp4": Sides("mxfp4", "1x128"),
    "bf16:mxfp4": Sides("mxfp4", "bf16"),
}
"""Recipes for inference only, activations first: weights are quantized to MXFP4 and packed once."""


def sides_of(recipe: str) -> Sides:
    """Raises `Unfit` if there is no such recipe."""
    if recipe in OF_PACKED:
        return OF_PACKED[recipe]
    if recipe in RECIPES:
        return Sides(RECIPES[recipe].weights, RECIPES[recipe].activations)
    unfit("recipe", repr(recipe), "one of " + ", ".join([*RECIPES, *OF_PACKED]))


def check_training(recipe: str) -> None:
    """Raises `Unfit` if the recipe has no gradients: if it is none of `tilewright.torch.RECIPES`."""
    if recipe not in RECIPES:
        unfit("recipe", f"{recipe!r} with gradients", "one of " + ", ".join(RECIPES))
