"""The layers as functions."""

from __future__ import annotations

import torch

from tilewright.torch import _checks
from tilewright.torch._function import QuantizedLinear
from tilewright.torch._weights import WeightCache


def grouped_linear(
    x: torch.Tensor,
    w: torch.Tensor,
    ends: torch.Tensor,
    *,
    recipe: str = "1x128",
    bias: torch.Tensor | None = None,
    main_grad: torch.Tensor | None = None,
    cache: WeightCache | None = None,
) -> torch.Tensor:
    """Rows of X through the weights of their group: Y[i] = X[i] W[g]^T + bias[g] for ends[g - 1] <= i < ends[g].

    Args:
        x: [tokens, K] of float32, bfloat16 or float16.
        w: [groups, N, K], master weights of float32 or bfloat16.
        ends: int32 or int64 [groups], the token at which each group ends; on a GPU they are never read on the host.
        recipe: row, tensor, 1x128 or fold (`RECIPES`).
        bias: [groups, N].
        main_grad: float32 [groups, N, K]: dW is added to it, and the gradient that torch sees is zeros (Megatron's
            `main_grad`).
        cache: keeps the fp8 copies of w from call to call (`GroupedLinear` has one).

    Returns:
        [tokens, N] in the dtype of x; tokens of no group are zeros. Results and gradients are deterministic.

    Raises:
        ValueError: an argument is of no use here; the message names it and says what it must be.
    """
    layer_recipe = _checks.layer_recipe(recipe)
    _checks.check_weights(w, "groups, N, K")
    _checks.check_activations(x, w.shape[2])
    if x.dim() != 2:
        _checks.refuse("x", list(x.shape), f"[tokens, {w.shape[2]}]")
    _checks.check_devices(x, w)
    _checks.check_ends(ends, x, w.shape[0])
    _checks.check_bias(bias, [w.shape[0], w.shape[1]])
    _checks.check_main_grad(main_grad, w)
    return QuantizedLinear.apply(x, w, bias, ends, layer_recipe, cache, main_grad)


def linear(
    x: torch.Tensor,
    w: torch.Tensor,
    *,
    recipe: str = "1x128",
    bias: torch.Tensor | None = None,
    main_grad: torch.Tensor | None = None,
    cache: WeightCache | None = None,
) -> torch.Tensor:
    """Y = X W^T + bias, X [..., K], W [N, K], bias [N], main_grad float32 [N, K]; the rest as `grouped_linear`."""
    layer_recipe = _checks.layer_recipe(recipe)
    _checks.check_weights(w, "N, K")
    _checks.check_activations(x, w.shape[1])
    _checks.check_devices(x, w)
    _checks.check_bias(bias, [w.shape[0]])
    _checks.check_main_grad(main_grad, w)
    rows = x.reshape(-1, w.shape[1])
    y = QuantizedLinear.apply(rows, w, bias, None, layer_recipe, cache, main_grad)
    return y.view(*x.shape[:-1], w.shape[0])
