"""The layers as modules that own their weights."""

from __future__ import annotations

import math
from typing import Any

import torch

from tilewright.torch import _checks
from tilewright.torch._linear import grouped_linear, linear
from tilewright.torch._recipes import RECIPES, GradientFormat
from tilewright.torch._weights import FrozenCopy, WeightCache, forward_copy


class _QuantizedModule(torch.nn.Module):
    """Weights, their fp8 copies, and the buffer that their gradient is added to, if the weight has one."""

    weight: torch.nn.Parameter
    bias: torch.nn.Parameter | None
    frozen_values: torch.Tensor | None
    frozen_scales: torch.Tensor | None

    def __init__(
        self,
        shape: tuple[int, ...],
        bias_shape: tuple[int, ...] | None,
        recipe: str,
        gradient_format: GradientFormat,
        promoted: bool,
        device: Any,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        _checks.check_recipe(recipe, gradient_format, promoted)
        self.recipe, self.gradient_format, self.promoted = recipe, gradient_format, promoted
        self._cache = WeightCache()
        self._is_sharded = False
        self.register_buffer("frozen_values", None, persistent=False)
        self.register_buffer("frozen_scales", None, persistent=False)
        self.weight = torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.register_parameter("bias", None)
        if bias_shape is not None:
            self.bias = torch.nn.Parameter(torch.empty(bias_shape, device=device, dtype=dtype))
        self.reset_parameters()

    def __setattr__(self, name: str, value: Any) -> None:
        """FSDP puts its shard and the whole weight here in turn, and writes into the latter without counting a version."""
        if name == "weight":
            self._cache.refresh()
            self.unfreeze()
            self._is_sharded = self._is_sharded or _checks.is_shard(value)
        super().__setattr__(name, value)

    def reset_parameters(self) -> None:
        """As torch.nn.Linear: uniform within 1 / sqrt(K)."""
        bound = 1 / math.sqrt(self.weight.shape[-1])
        torch.nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            torch.nn.init.uniform_(self.bias, -bound, bound)

    def refresh(self) -> None:
        """After a write to the weight that torch does not count: the next call makes its fp8 copies anew.

        Of a frozen layer, after any write: its copy is made anew now, in the memory that it has.
        """
        self._cache.refresh()
        if self.frozen_values is not None and self.frozen_scales is not None:
            with torch.inference_mode(False), torch.no_grad():
                values, scales = forward_copy(self.weight, RECIPES[self.recipe])
                self.frozen_values.copy_(values)
                self.frozen_scales.copy_(scales)

    def freeze(self) -> None:
        """Quantises the weight now; until `unfreeze()` every call takes this copy, compiled ones and captured ones too.

        For inference: a call that wants a gradient raises a ValueError. After a write to the weight, call `refresh()`.
        """
        _checks.check_whole("weight", self.weight)
        self._cache.refresh()
        with torch.inference_mode(False), torch.no_grad():
            self.frozen_values, self.frozen_scales = forward_copy(self.weight, RECIPES[self.recipe])

    def unfreeze(self) -> None:
        """Calls quantise the weight themselves again. So they do after another one was put in its place."""
        self.frozen_values = self.frozen_scales = None

    def _load_from_state_dict(self, *given: Any, **options: Any) -> None:
        super()._load_from_state_dict(*given, **options)
        self.refresh()

    def _apply(self, *given: Any, **options: Any) -> Any:
        """Of `to` and its like, which convert every tensor: fp8 copies are made of the converted weight."""
        was_frozen = self.frozen_values is not None
        self.unfreeze()
        super()._apply(*given, **options)
        if was_frozen:
            self.freeze()
        return self

    def _options(self) -> dict[str, Any]:
        main_grad = getattr(self.weight, "main_grad", None)
        values, scales = self.frozen_values, self.frozen_scales
        return {
            "recipe": self.recipe,
            "gradient_format": self.gradient_format,
            "promoted": self.promoted,
            "bias": self.bias,
            "main_grad": main_grad,
            "cache": self._cache if values is None or scales is None else FrozenCopy(values, scales),
            "requantize": self._is_sharded,
        }

    def extra_repr(self) -> str:
        gradients = "" if self.gradient_format == "e4m3" else f", gradient_format={self.gradient_format}"
        sums = "" if self.promoted else ", promoted=False"
        return f"{list(self.weight.shape)}, recipe={self.recipe}{gradients}{sums}, bias={self.bias is not None}"


class Linear(_QuantizedModule):
    """y = x W^T + b with fp8 products. weight [N, K] and bias [N] of float32 or bfloat16; x [..., K].

    Where weight has an attribute `main_grad` (float32 or bfloat16 [N, K]), dW is added there.

    Raises:
        ValueError: as `linear`.
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
        device: Any = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        bias_shape = (out_features,) if bias else None
        super().__init__((out_features, in_features), bias_shape, recipe, gradient_format, promoted, device, dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return linear(x, self.weight, **self._options())


class GroupedLinear(_QuantizedModule):
    """The linear layers of `groups` experts in one call. weight [groups, N, K], bias [groups, N]; x [tokens, K], ends [groups].

    Where weight has an attribute `main_grad` (float32 or bfloat16 [groups, N, K]), dW is added there.

    Raises:
        ValueError: as `grouped_linear`.
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
        device: Any = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        shape = (groups, out_features, in_features)
        super().__init__(shape, shape[:2] if bias else None, recipe, gradient_format, promoted, device, dtype)

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return grouped_linear(x, self.weight, ends, **self._options())
