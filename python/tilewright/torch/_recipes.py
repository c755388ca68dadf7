"""The recipes of the layers: how the two sides of forward, dgrad and wgrad are scaled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from tilewright._options import Layout

GradientFormat: TypeAlias = Literal["e4m3", "e5m2"]
GRADIENT_FORMATS = ("e4m3", "e5m2")


@dataclass(frozen=True)
class LayerRecipe:
    """Sides of the three products, each as `tilewright.Quantized` names it.

    activations, weights: of forward, Y = X W^T, both along K.
    gradients: of dY in dgrad, dX = dY W, along N.
    backward_weights: of W in dgrad, along N. None: the codes of forward are read as they are, for none of their scales varies
        along N within a block that has one scale in dgrad too.
    gradient_columns, columns: of dY^T and of X^T in wgrad, dW = dY^T X, along the tokens of a group.
    folds: dgrad and wgrad multiply the codes of forward, without their scales: dY is multiplied by those of W's rows before it is
        quantised for dgrad, and by those of X's tokens before it is quantised for wgrad (docs/numerics.md). columns is None.
    """

    activations: str
    weights: str
    gradients: str
    backward_weights: str | None
    gradient_columns: str
    columns: str | None
    folds: bool = False

    @property
    def dgrad_layout(self) -> Layout:
        """Of W in dgrad: codes [N, K] or [K, N]."""
        return "nn" if self.backward_weights is None else "nt"


RECIPES = {
    "row": LayerRecipe("row", "row", "row", "row", "row", "row"),
    "tensor": LayerRecipe("tensor", "tensor", "tensor", None, "tensor", "tensor"),
    "1x128": LayerRecipe("1x128", "128x128", "1x128", None, "1x128", "1x128"),
    "1x128:128x128": LayerRecipe("1x128", "128x128", "1x128", None, "1x128", "128x128"),
    "fold": LayerRecipe("row", "row", "row", None, "1x128", None, folds=True),
}
"""By the names that the layers take: a scale for each token and each row of W; for each tensor; for each 128 elements of a
token and each 128 x 128 of W, as DeepSeek-V3 was trained (arXiv 2412.19437, section 3.3); that with squares of X in wgrad too,
so that all three products are 1x128 : 128x128; forward's of `row`, whose codes of X
and W serve all three products. dY is e4m3."""

UNPROMOTED = ("row", "tensor")
"""Those whose products can be summed in the tensor core alone, without promotion to float32 every 128 (docs/numerics.md)."""


def with_gradients(recipe: LayerRecipe, gradient_format: str) -> LayerRecipe:
    """The recipe with dY in this format, in dgrad and in wgrad."""
    if gradient_format == "e4m3":
        return recipe
    return replace(
        recipe,
        gradients=f"{gradient_format}.{recipe.gradients}",
        gradient_columns=f"{gradient_format}.{recipe.gradient_columns}",
    )
