"""Linear layers of torch whose three products, forward, dgrad and wgrad, are fp8: dense, and grouped for mixtures of experts.

    y = grouped_linear(x, w, ends, recipe="1x128")      # x [tokens, K], w [groups, N, K], ends [groups]
    layer = GroupedLinear(groups, K, N, recipe="row")   # a module with its own weights

On the CPU and on Hopper GPUs, with the same API. docs/torch.md says what is computed, saved and promised.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise ImportError(
        "tilewright.torch has layers of torch: install it, e.g. pip install torch; products of numpy arrays need none"
    ) from _error

from tilewright.torch._linear import grouped_linear, linear
from tilewright.torch._modules import GroupedLinear, Linear
from tilewright.torch._recipes import RECIPES, LayerRecipe
from tilewright.torch._reuse import reuse_weights

__all__ = ["RECIPES", "GroupedLinear", "LayerRecipe", "Linear", "grouped_linear", "linear", "reuse_weights"]
