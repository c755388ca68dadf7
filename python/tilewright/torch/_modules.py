"""The layers as modules that own their weights."""

from __future__ import annotations

import math
from typing import Any

import torch

from tilewright._arrays import torch_dtype
from tilewright.torch import _checks, _operators
from tilewright.torch._frozen import FrozenCopy, forget, is_copy_of, remember
from tilewright.torch._function import How
from tilewright.torch._linear import Kept, call_dense, call_grouped
from tilewright.torch._recipes import GradientFormat
from tilewright.torch._weights import Pair, copies_of

_FROZEN = ("frozen_values", "frozen_scales")


class _QuantizedModule(torch.nn.Module):
    """Owns the weight, its frozen copy, and the options of the calls."""

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
        keep: Kept,
        device: Any,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        _checks.check_recipe(recipe, gradient_format, promoted, keep)
        self.recipe, self.gradient_format, self.promoted = recipe, gradient_format, promoted
        self.keep = keep
        self._is_sharded = False
        self._frozen_id, self._frozen_checks = 0, False
        for name in _FROZEN:
            self.register_buffer(name, None, persistent=False)
        self.weight = torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.register_parameter("bias", None)
        if bias_shape is not None:
            self.bias = torch.nn.Parameter(torch.empty(bias_shape, device=device, dtype=dtype))
        self.reset_parameters()

    def __setattr__(self, name: str, value: Any) -> None:
        """A new weight ends the frozen copy. FSDP sets its shard and the full weight in turn."""
        if name == "weight":
            self.unfreeze()
            self._is_sharded = self._is_sharded or _checks.is_shard(value)
        super().__setattr__(name, value)

    def reset_parameters(self) -> None:
        """Fills weight and bias uniformly within 1 / sqrt(K), as torch.nn.Linear does."""
        bound = 1 / math.sqrt(self.weight.shape[-1]) if self.weight.shape[-1] > 0 else 0
        torch.nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            torch.nn.init.uniform_(self.bias, -bound, bound)

    @property
    def is_frozen(self) -> bool:
        """Whether calls use the frozen copy. False if the weight is not the tensor that was frozen."""
        return self._is_frozen(self.weight)

    def _is_frozen(self, weight: torch.Tensor) -> bool:
        values = self.frozen_values
        return values is not None and self._frozen_id == id(weight) and is_copy_of(values, weight)

    def freeze(self, check: bool = False) -> None:
        """Quantizes the weight once, for inference. Every call uses this copy until `unfreeze()`.

        This includes compiled calls and calls captured in a CUDA graph. After a write to the weight, call `refresh()`. The
        copy serves only the weight from which it was made. While another Parameter, storage or address is in its place,
        calls quantize that weight.

        Args:
            check: True makes each call quantize the weight too, and compare. This is slow, waits for the GPU, and cannot be
                captured in a CUDA graph. Default False.

        Raises:
            ValueError: here, if the weight is sharded or has no memory. In a later call, if a gradient is required, or
                with check=True if the weight differs from the copy.
        """
        self._keep_frozen(self._copy())
        self._frozen_checks = check

    def refresh(self) -> None:
        """Quantizes the weight of a frozen layer again, after a write. The copy keeps its memory.

        CUDA graphs that were captured before the write read the new copy. Does nothing if the layer is not frozen.
        """
        if self.frozen_values is None or self.frozen_scales is None:
            return
        values, scales = self._copy()
        with torch.inference_mode(False), torch.no_grad():
            self.frozen_values.copy_(values)
            self.frozen_scales.copy_(scales)
        self._keep_frozen((self.frozen_values, self.frozen_scales))

    def unfreeze(self) -> None:
        """Drops the frozen copy. Each call quantizes the weight again. Setting `weight` does the same."""
        if self.frozen_values is not None:
            self._keep_frozen(None)

    def _copy(self) -> Pair:
        _checks.check_whole("weight", self.weight)
        if self.weight.is_meta:
            _checks.refuse("weight", "a tensor on meta", "a tensor with memory", "Give the weight values before freeze().")
        with torch.inference_mode(False), torch.no_grad():  # refresh() could not write an inference tensor
            copy = copies_of(self.weight, self.recipe, True, False).forward
        assert copy is not None
        return copy

    def _keep_frozen(self, copy: Pair | None) -> None:
        if self.frozen_values is not None and (copy is None or copy[0] is not self.frozen_values):
            forget(self.frozen_values)
        self.frozen_values, self.frozen_scales = copy or (None, None)
        if copy is not None:
            remember(copy[0], self.weight)
            self._frozen_id = id(self.weight)

    def _load_from_state_dict(self, *given: Any, **options: Any) -> None:
        was_frozen = self.frozen_values is not None
        super()._load_from_state_dict(*given, **options)
        if self.frozen_values is not None:
            self.refresh()
        elif was_frozen:  # assign=True replaced the weight by the tensor of the state
            self.freeze(self._frozen_checks)

    def _apply(self, *given: Any, **options: Any) -> Any:
        """Called by `to` and similar methods, which convert every tensor. The frozen copy is made from the converted weight."""
        was_frozen = self.frozen_values is not None
        self.unfreeze()
        super()._apply(*given, **options)
        if was_frozen and not self.weight.is_meta:
            self.freeze(self._frozen_checks)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """The state for copy and pickle. It includes the frozen copy, if the copy was made from the present weight."""
        state = self.__dict__.copy()
        if self.frozen_values is not None:
            # As bytes, because pickle, unlike torch.save, cannot write fp8 tensors.
            kept = {"frozen_values": self.frozen_values.view(torch.uint8)} if self.is_frozen else dict.fromkeys(_FROZEN)
            state["_buffers"] = {**state["_buffers"], **kept}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.frozen_values is not None and self.frozen_scales is not None:
            self._keep_frozen((self.frozen_values.view(torch_dtype("e4m3")), self.frozen_scales))

    def _call(self, weight: torch.Tensor) -> tuple[torch.Tensor | None, How, FrozenCopy | None]:
        """main_grad, the options, and the frozen copy.

        Each call reads `self.weight` only once, because a parametrization computes it at each access.
        """
        keep = "weight" if self._is_sharded else self.keep
        values, scales, frozen = self.frozen_values, self.frozen_scales, None
        # A compiled program cannot tell one Parameter from another. The operator compares the memory at run time.
        if values is not None and scales is not None and (_operators.is_compiling() or self._is_frozen(weight)):
            frozen = FrozenCopy(values, scales, self._frozen_checks)
        how = How(self.recipe, self.gradient_format, self.promoted, keep)
        return getattr(weight, "main_grad", None), how, frozen

    def extra_repr(self) -> str:
        """The shape and the options, for repr(layer)."""
        gradients = "" if self.gradient_format == "e4m3" else f", gradient_format={self.gradient_format}"
        sums = "" if self.promoted else ", promoted=False"
        kept = "" if self.keep == "copy" else f", keep={self.keep}"
        return f"{list(self.weight.shape)}, recipe={self.recipe}{gradients}{sums}{kept}, bias={self.bias is not None}"


class Linear(_QuantizedModule):
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
        bias_shape = (out_features,) if bias else None
        super().__init__((out_features, in_features), bias_shape, recipe, gradient_format, promoted, keep, device, dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """y [..., out_features] of x [..., in_features]."""
        weight = self.weight
        return call_dense(x, weight, self.bias, *self._call(weight))


class GroupedLinear(_QuantizedModule):
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
        shape = (groups, out_features, in_features)
        super().__init__(shape, shape[:2] if bias else None, recipe, gradient_format, promoted, keep, device, dtype)

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """y [tokens, out_features] of x [tokens, in_features] and ends [groups]. Tokens after the last end get zeros."""
        weight = self.weight
        return call_grouped(x, weight, ends, self.bias, *self._call(weight))
