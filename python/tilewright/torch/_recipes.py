"""The recipes of the layers: how both operands of forward, dgrad and wgrad are scaled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tilewright import _core
from tilewright._options import Layout

GradientFormat: TypeAlias = Literal["e4m3", "e5m2"]
GRADIENT_FORMATS = ("e4m3", "e5m2")


@dataclass(frozen=True)
class LayerRecipe:
    """The scaling of each operand of the three products, by the names of `tilewright.Quantized`.

    Args:
        activations: X in forward, along K. Forward is Y = X W^T.
        weights: W in forward, along K.
        gradients: dY in dgrad, along N. Dgrad is dX = dY W.
        backward_weights: W in dgrad, along N. If None, dgrad reads the values of forward. It can, because each block of
            N x K with one scale in forward also has one scale in dgrad.
        gradient_columns: dY^T in wgrad, along the tokens of a group. Wgrad is dW = dY^T X.
        columns: X^T in wgrad, along the tokens of a group. If None, the recipe folds: dgrad and wgrad
            multiply the values of forward without their scales (docs/numerics.md). Instead dY is multiplied by the scales of
            W's rows before it is quantized for dgrad. For wgrad it is multiplied by the scales of X's tokens.
    """

    activations: str
    weights: str
    gradients: str
    backward_weights: str | None
    gradient_columns: str
    columns: str | None

    @property
    def folds(self) -> bool:
        return self.columns is None

    @property
    def dgrad_layout(self) -> Layout:
        """The layout of W in dgrad, which is "nn" for values [N, K] and "nt" for values [K, N]."""
        return "nn" if self.backward_weights is None else "nt"


RECIPES = {name: LayerRecipe(*sides) for name, sides in _core.linear_recipes().items()}
"""The recipes by the names that the layers accept. dY is e4m3, or e5m2 with `gradient_format="e5m2"`.

- row: a scale per token and per row of W.
- tensor: a scale per tensor.
- 1x128: a scale per 128 elements of a token and per 128 x 128 of W. DeepSeek-V3 was trained with this recipe (arXiv
  2412.19437, section 3.3).
- 1x128:128x128: as 1x128, with 128 x 128 blocks of X in wgrad. All three products are then 1x128 x 128x128.
- fold: forward as in row. Its values of X and W serve all three products.
"""

UNPROMOTED = ("row", "tensor")
"""The recipes that support promoted=False: sums stay in the tensor core, without float32 promotion every 128 products."""
