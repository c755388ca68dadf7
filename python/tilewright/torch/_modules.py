"""The linear layers as modules that own their weights."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.torch import _operators
from tilewright.torch._frozen import FrozenCopy
from tilewright.torch._linear import Kept, Options, call_dense, call_grouped
from tilewright.torch._quantized_module import QuantizedModule, check_sizes
from tilewright.torch._recipes import GradientFormat


class _LinearModule(QuantizedModule):
    """One weight and one bias."""

    weight: torch.nn.Parameter
    bias: torch.nn.Parameter | None
    frozen_values: torch.Tensor | None
    frozen_scales: torch.Tensor | None

    def __init__(self, shape: tuple[int, ...], bias_shape: tuple[int, ...] | None, *options: Any) -> None:
        shapes = {"weight": shape} if bias_shape is None else {"weight": shape, "bias": bias_shape}
        super().__init__(shapes, *options)
        if bias_shape is None:
            self.register_parameter("bias", None)

    def _call(self) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None, Options, FrozenCopy | None]:
        """The weight, the bias, main_grad, the options and the frozen copy, in as few steps as possible.

        torch's own lookup of a parameter fails once before it looks where parameters are.
        """
        is_usual = type(self) in _USUAL and not (_operators.AVAILABLE and torch.compiler.is_dynamo_compiling())
        own: Any = self._parameters if is_usual else ()
        weight = own["weight"] if "weight" in own else self.weight
        bias = own["bias"] if "bias" in own else self.bias
        how = (self.recipe, self.gradient_format, self.promoted, "weight" if self._is_sharded else self.keep)
        frozen = self._frozen_copy("weight", weight) if self._frozen_ids else None
        return weight, bias, getattr(weight, "main_grad", None), how, frozen

    def extra_repr(self) -> str:
        """The shape and the options, for repr(layer)."""
        return self._extra_repr(list(self.weight.shape), self.bias is not None)


class Linear(_LinearModule):
    """A linear layer like torch.nn.Linear whose forward, dgrad and wgrad are fp8 products: y = x W^T + b.

    The call `layer(x)` maps x [..., in_features] (float32, bfloat16 or float16) to y [..., out_features] in the dtype of x.
    Weights stay in float32 or bfloat16, and each forward quantizes them:

        layer = tilewright.torch.Linear(4096, 14336, device="cuda", dtype=torch.bfloat16)
        layer(x).sum().backward()

    For inference, `freeze()` quantizes the weight once for all calls. Call `refresh()` after a write to the weight, and
    `unfreeze()` to train again.

    Args:
        in_features: K, the columns of x.
        out_features: N, the columns of y.
        bias: whether the layer has a bias. Default True.
        recipe: scaling of the three products: "row", "tensor", "1x128" (default), "1x128:128x128" or "fold". See `RECIPES`.
        gradient_format: format of dY in dgrad and wgrad, "e4m3" (default) or "e5m2".
        promoted: float32 sums every 128 products (default True). `grouped_linear` describes False.
        keep: what forward keeps for dgrad. With "copy" (default) it is the fp8 copy of the weight, with "weight" the weight
            itself. A layer whose weight FSDP shards keeps the weight itself in both cases.
        device: device of the parameters. Default: torch's default device.
        dtype: dtype of the parameters, torch.float32 (default) or torch.bfloat16.

    Attributes:
        weight: Parameter [out_features, in_features]. If it has an attribute `main_grad` (float32 or bfloat16, same shape),
            dW is added to that buffer. See `grouped_linear`.
        bias: Parameter [out_features], or None.

    Raises:
        ValueError: a wrong option here, or a wrong x in a call. The message names it, as in `linear`.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        recipe: str = "1x128",
        gradient_format: GradientFormat = "e4m3",
        promoted: bool = True,
        keep: Kept = "copy",
        device: Any = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        check_sizes(0, in_features=in_features, out_features=out_features)
        bias_shape = (out_features,) if bias else None
        super().__init__((out_features, in_features), bias_shape, recipe, gradient_format, promoted, keep, device, dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """y [..., out_features] of x [..., in_features]."""
        return call_dense(x, *self._call())


class GroupedLinear(_LinearModule):
    """The linear layers of all experts of a mixture in one call, with fp8 products in forward, dgrad and wgrad.

    The call `layer(x, ends)` maps x [tokens, in_features], sorted by expert, to y [tokens, out_features] in the dtype of x.
    The ends, int32 or int64 [groups], are the cumulative end tokens of the experts. Experts may have any number of tokens,
    and nothing is padded:

        experts = tilewright.torch.GroupedLinear(8, 2048, 7168, device="cuda", dtype=torch.bfloat16)
        y = experts(x, torch.cumsum(tokens_per_expert, 0))

    For inference, `freeze()` quantizes the weight once for all calls. Call `refresh()` after a write to the weight, and
    `unfreeze()` to train again.

    Args:
        groups: the number of experts.
        in_features: K, the columns of x.
        out_features: N, the columns of y.
        bias: whether each expert has a bias. Default False.
        recipe: scaling of the three products: "row", "tensor", "1x128" (default), "1x128:128x128" or "fold". See `RECIPES`.
        gradient_format: format of dY in dgrad and wgrad, "e4m3" (default) or "e5m2".
        promoted: float32 sums every 128 products (default True). `grouped_linear` describes False.
        keep: what forward keeps for dgrad. With "copy" (default) it is the fp8 copy of the weight, with "weight" the weight
            itself. A layer whose weight FSDP shards keeps the weight itself in both cases.
        device: device of the parameters. Default: torch's default device.
        dtype: dtype of the parameters, torch.float32 (default) or torch.bfloat16.

    Attributes:
        weight: Parameter [groups, out_features, in_features]. If it has an attribute `main_grad` (float32 or bfloat16, same
            shape), dW is added to that buffer. See `grouped_linear`.
        bias: Parameter [groups, out_features], or None.

    Raises:
        ValueError: a wrong option here, or a wrong x or ends in a call. The message names it, as in `grouped_linear`.
    """

    def __init__(
        self,
        groups: int,
        in_features: int,
        out_features: int,
        bias: bool = False,
        *,
        recipe: str = "1x128",
        gradient_format: GradientFormat = "e4m3",
        promoted: bool = True,
        keep: Kept = "copy",
        device: Any = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        check_sizes(0, groups=groups, in_features=in_features, out_features=out_features)
        shape = (groups, out_features, in_features)
        super().__init__(shape, shape[:2] if bias else None, recipe, gradient_format, promoted, keep, device, dtype)

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """y [tokens, out_features] of x [tokens, in_features] and ends [groups]. Tokens after the last end get zeros."""
        return call_grouped(x, ends, *self._call())


_USUAL = (Linear, GroupedLinear)
"""Classes in which no property hides a parameter. torch's parametrizations derive classes that have such properties."""
