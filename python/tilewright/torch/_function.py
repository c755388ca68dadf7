"""The autograd function behind the layers."""

from __future__ import annotations

from typing import Any

import torch

from tilewright._quantize import Quantized
from tilewright._quantize_tokens import quantize_tokens
from tilewright.torch import _products
from tilewright.torch._recipes import LayerRecipe
from tilewright.torch._weights import WeightCache, WeightCopies, quantize_weights

_FOLDED = "e4m3"  # what X and W are without scales


def _tensors(operand: Quantized | None) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    return (None, None) if operand is None else (operand.values, operand.scales)


class QuantizedLinear(torch.autograd.Function):
    """Y = X W^T (+ bias) of [tokens, K] with W [N, K], or of the rows of each group with W [groups, N, K].

    Saved for backward: X^T as fp8 with its scales (where W wants a gradient; X as forward has it where the recipe folds), W's fp8
    copy of dgrad (where X does), ends.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        x: torch.Tensor,
        w: torch.Tensor,
        bias: torch.Tensor | None,
        ends: torch.Tensor | None,
        recipe: LayerRecipe,
        cache: WeightCache | None,
        main_grad: torch.Tensor | None,
    ) -> torch.Tensor:
        x_wants, w_wants = ctx.needs_input_grad[:2]
        copies = quantize_weights(w, recipe, x_wants) if cache is None else cache.copies(w, recipe, x_wants)
        groups = _one_group(x) if ends is None else ends
        rows, columns = quantize_tokens(
            x.detach(), groups, rows=recipe.activations, columns=recipe.columns if w_wants and not recipe.folds else None
        )
        assert rows is not None
        kept = rows if recipe.folds and w_wants else columns
        y = _products.forward(rows, copies, ends, x.dtype)
        if bias is not None:
            y += bias.to(y.dtype) if ends is None else _bias_of_rows(bias, ends, y)
        backward = copies.backward if x_wants else None
        ctx.save_for_backward(*_tensors(kept), *_tensors(backward), ends, main_grad)
        ctx.recipe, ctx.layout = recipe, copies.backward_layout
        ctx.backward_recipe = None if backward is None else backward.recipe
        ctx.dtypes, ctx.bias_shape = (x.dtype, w.dtype), None if bias is None else bias.shape
        ctx.bias_dtype, ctx.w_shape = None if bias is None else bias.dtype, w.shape
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        x_values, x_scales, w_values, w_scales, ends, main_grad = ctx.saved_tensors
        recipe: LayerRecipe = ctx.recipe
        x_wants, w_wants, bias_wants = ctx.needs_input_grad[:3]
        dx = dw = dbias = None
        if bias_wants:
            dbias = _bias_gradient(dy, ends, ctx.bias_shape).to(ctx.bias_dtype)
        if x_wants or w_wants:
            groups = _one_group(dy) if ends is None else ends
            rows, columns = quantize_tokens(
                dy.contiguous(),
                groups,
                rows=recipe.gradients if x_wants else None,
                columns=recipe.columns if w_wants else None,
                rows_feature_factors=w_scales if recipe.folds else None,
                columns_token_factors=x_scales if recipe.folds else None,
            )
        if x_wants:
            assert rows is not None
            weights = Quantized(w_values, *((_FOLDED,) if recipe.folds else (ctx.backward_recipe, w_scales)))
            dx = _products.dgrad(rows, WeightCopies(weights, weights, ctx.layout), ends, ctx.dtypes[0])
        if w_wants:
            assert columns is not None
            tokens = dy.shape[0]
            if recipe.folds:
                x_columns, layout = Quantized(_products.aligned_rows(x_values, groups), _FOLDED), "nn"
            else:
                x_columns, layout = Quantized(x_values, recipe.columns, x_scales), "nt"
            grouped = None if main_grad is None else main_grad.view(-1, *ctx.w_shape[-2:])
            dw = _products.wgrad(
                columns, x_columns, _products.aligned_ends(groups, tokens), ctx.dtypes[1], grouped, layout
            ).view(ctx.w_shape)
            if main_grad is not None:  # what Megatron's hooks look for: a gradient that is there, and says nothing
                dw = torch.zeros((), dtype=ctx.dtypes[1], device=dy.device).expand(ctx.w_shape)
        return dx, dw, dbias, None, None, None, None


def _one_group(x: torch.Tensor) -> torch.Tensor:
    return torch.full((1,), x.shape[0], dtype=torch.int64, device=x.device)


def _bias_of_rows(bias: torch.Tensor, ends: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """[tokens, N]: the bias of each token's group, 0 for tokens of none."""
    with_none = torch.cat([bias, bias.new_zeros(1, bias.shape[1])]).to(y.dtype)
    return with_none[_products.group_of_rows(ends, y.shape[0])]


def _bias_gradient(dy: torch.Tensor, ends: torch.Tensor | None, shape: torch.Size) -> torch.Tensor:
    """Sums over the tokens of each group, in f32, in the order of the tokens."""
    if ends is None:
        return dy.float().sum(0)
    # A product with the groups' masks: index_add is not deterministic on a GPU.
    groups = torch.arange(shape[0], device=dy.device).unsqueeze(1)
    return (_products.group_of_rows(ends, dy.shape[0]).unsqueeze(0) == groups).float() @ dy.float()
