"""The recipes of the layers: how the two sides of forward, dgrad and wgrad are scaled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerRecipe:
    """Sides of the three products, each as `tilewright.Quantized` names it.

    activations, weights: of forward, Y = X W^T, both along K.
    gradients: of dY in dgrad, dX = dY W, along N.
    backward_weights: of W in dgrad, along N. None: the codes of forward are read as they are, for none of their scales varies
        along N within a block that has one scale in dgrad too.
    columns: of dY^T and X^T in wgrad, dW = dY^T X, along the tokens of a group.
    folds: dgrad and wgrad multiply the codes of forward, without their scales: dY is multiplied by those of W's rows before it is
        quantised for dgrad, and by those of X's tokens before it is quantised for wgrad (docs/numerics.md). `columns` is dY's alone.
    """

    activations: str
    weights: str
    gradients: str
    backward_weights: str | None
    columns: str
    folds: bool = False


RECIPES = {
    "row": LayerRecipe("row", "row", "row", "row", "row"),
    "tensor": LayerRecipe("tensor", "tensor", "tensor", None, "tensor"),
    "1x128": LayerRecipe("1x128", "128x128", "1x128", None, "1x128"),
    "fold": LayerRecipe("row", "row", "row", None, "128x128", folds=True),
}
"""By the names that the layers take: a scale for each token and each row of W; for each tensor; for each 128 elements of a
token and each 128 x 128 of W, as DeepSeek-V3 was trained (arXiv 2412.19437, section 3.3); forward's of `row`, whose codes of X
and W serve all three products."""
