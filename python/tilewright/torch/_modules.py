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
    """Weights, the copies of them that are frozen, and the buffer that their gradient is added to, if the weight has one."""

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
        """FSDP puts its shard and the whole weight here in turn."""
        if name == "weight":
            self.unfreeze()
            self._is_sharded = self._is_sharded or _checks.is_shard(value)
        super().__setattr__(name, value)

    def reset_parameters(self) -> None:
        """As torch.nn.Linear: uniform within 1 / sqrt(K)."""
        bound = 1 / math.sqrt(self.weight.shape[-1]) if self.weight.shape[-1] > 0 else 0
        torch.nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            torch.nn.init.uniform_(self.bias, -bound, bound)

    @property
    def is_frozen(self) -> bool:
        """Whether calls take the frozen copy: not if another weight is where the one was that was frozen."""
        return self._is_frozen(self.weight)

    def _is_frozen(self, weight: torch.Tensor) -> bool:
        values = self.frozen_values
        return values is not None and self._frozen_id == id(weight) and is_copy_of(values, weight)

    def freeze(self, check: bool = False) -> None:
        """Quantises the weight now; until `unfreeze()` every call takes this copy, compiled ones and captured ones too.

        For inference: a call that wants a gradient raises a ValueError. After a write to the weight, call `refresh()`. The copy
        serves the weight that it was made of. While another Parameter, storage or address is in its place, calls quantise
        what is there.

        Args:
            check: each call quantises the weight as well, and raises a ValueError if its codes are not those of the copy. It
                is slow, waits for a GPU, and can't be captured in a CUDA graph.
        """
        self._keep_frozen(self._copy())
        self._frozen_checks = check

    def refresh(self) -> None:
        """Of a frozen layer, after a write to its weight: makes the copy anew, in the memory that it has."""
        if self.frozen_values is None or self.frozen_scales is None:
            return
        values, scales = self._copy()
        with torch.inference_mode(False), torch.no_grad():
            self.frozen_values.copy_(values)
            self.frozen_scales.copy_(scales)
        self._keep_frozen((self.frozen_values, self.frozen_scales))

    def unfreeze(self) -> None:
        """Calls quantise the weight themselves again. So they do after another one was put in its place."""
        if self.frozen_values is not None:
            self._keep_frozen(None)

    def _copy(self) -> Pair:
        _checks.check_whole("weight", self.weight)
        if self.weight.is_meta:
            _checks.refuse("weight", "a tensor on meta", "one with memory", "a frozen layer has a copy of its values")
        with torch.inference_mode(False), torch.no_grad():  # a copy of inference mode could not be written by refresh()
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
        elif was_frozen:  # the state's own tensor was put in the place of the weight
            self.freeze(self._frozen_checks)

    def _apply(self, *given: Any, **options: Any) -> Any:
        """Of `to` and its like, which convert every tensor: fp8 copies are made of the converted weight."""
        was_frozen = self.frozen_values is not None
        self.unfreeze()
        super()._apply(*given, **options)
        if was_frozen and not self.weight.is_meta:
            self.freeze(self._frozen_checks)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Of copies and pickles, which take a frozen copy along, if it is one of the weight that is there."""
        state = self.__dict__.copy()
        if self.frozen_values is not None:
            # As bytes: pickle, unlike torch.save, can't write torch's fp8.
            kept = {"frozen_values": self.frozen_values.view(torch.uint8)} if self.is_frozen else dict.fromkeys(_FROZEN)
            state["_buffers"] = {**state["_buffers"], **kept}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.frozen_values is not None and self.frozen_scales is not None:
            self._keep_frozen((self.frozen_values.view(torch_dtype("e4m3")), self.frozen_scales))

    def _call(self, weight: torch.Tensor) -> tuple[torch.Tensor | None, How, FrozenCopy | None]:
        """main_grad, how, and the frozen copy. The weight is asked for once a call: a parametrization computes it each time."""
        keep = "weight" if self._is_sharded else self.keep
        values, scales, frozen = self.frozen_values, self.frozen_scales, None
        # Compiled programs can't tell one Parameter from another; the operator looks which memory it is.
        if values is not None and scales is not None and (_operators.is_compiling() or self._is_frozen(weight)):
            frozen = FrozenCopy(values, scales, self._frozen_checks)
        how = How(self.recipe, self.gradient_format, self.promoted, keep)
        return getattr(weight, "main_grad", None), how, frozen

    def extra_repr(self) -> str:
        gradients = "" if self.gradient_format == "e4m3" else f", gradient_format={self.gradient_format}"
        sums = "" if self.promoted else ", promoted=False"
        kept = "" if self.keep == "copy" else f", keep={self.keep}"
        return f"{list(self.weight.shape)}, recipe={self.recipe}{gradients}{sums}{kept}, bias={self.bias is not None}"


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
        keep: Kept = "copy",
        device: Any = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        bias_shape = (out_features,) if bias else None
        super().__init__((out_features, in_features), bias_shape, recipe, gradient_format, promoted, keep, device, dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight
        return call_dense(x, weight, self.bias, *self._call(weight))


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
        keep: Kept = "copy",
        device: Any = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        shape = (groups, out_features, in_features)
        super().__init__(shape, shape[:2] if bias else None, recipe, gradient_format, promoted, keep, device, dtype)

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        weight = self.weight
        return call_grouped(x, weight, ends, self.bias, *self._call(weight))
