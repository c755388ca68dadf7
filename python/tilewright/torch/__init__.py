"""Linear layers for torch with fp8 products in forward, dgrad and wgrad.

`Linear` and `linear` are dense. `GroupedLinear` and `grouped_linear` multiply tokens by the weights of their expert.
`Experts` and `moe` are a whole layer of experts. The calls are the same on the CPU and on Hopper GPUs:

    y = grouped_linear(x, w, ends, recipe="1x128")      # x [tokens, K], w [groups, N, K]
    layer = GroupedLinear(groups, K, N, recipe="row")   # owns its weights
    out = moe(x, experts, weights, up, down)            # experts and weights [tokens, k]

`ExpertGroup` spreads the experts of such layers over the ranks of torch.distributed. `explain_moe` predicts the times of a layer.

See docs/torch.md for the products, the memory kept for backward and the guarantees.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise ImportError(
        "tilewright.torch needs torch: pip install torch. The products of numpy arrays in tilewright do not need it."
    ) from _error

from tilewright.torch._expert_group import ExpertGroup
from tilewright.torch._experts import Experts
from tilewright.torch._linear import grouped_linear, linear
from tilewright.torch._moe import explain_moe, moe
from tilewright.torch._modules import GroupedLinear, Linear
from tilewright.torch._recipes import RECIPES, LayerRecipe
from tilewright.torch._reuse import reuse_weights

__all__ = ["RECIPES", "ExpertGroup", "Experts", "GroupedLinear", "LayerRecipe", "Linear", "explain_moe", "grouped_linear", "linear", "moe", "reuse_weights"]
