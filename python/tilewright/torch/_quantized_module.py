"""The base of the modules: weights that are quantized at each call, or once, after `freeze()`."""

from __future__ import annotations

import math
from typing import Any

import torch

from tilewright._arrays import torch_dtype
from tilewright.torch import _checks, _operators
from tilewright.torch._frozen import FrozenCopy, forget, is_copy_of, remember
from tilewright.torch._linear import Kept
from tilewright.torch._recipes import GradientFormat
from tilewright.torch._weights import Pair, copies_of


def _buffers_of(weight: str) -> tuple[str, str]:
    """The names of the buffers of a frozen copy."""
    part = "" if weight == "weight" else f"{weight}_"
    return f"frozen_{part}values", f"frozen_{part}scales"


def check_sizes(least: int, **sizes: Any) -> None:
    """Refuses sizes that are not integers, and those less than `least`."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not hasattr(size, "__index__") or size < least:
            _checks.refuse(name, repr(size), f"an integer of at least {least}")


class QuantizedModule(torch.nn.Module):
    """Owns weights, their frozen copies, and the options of the calls."""

    weight_names: tuple[str, ...] = ("weight",)

    def __init__(
        self,
        shapes: dict[str, tuple[int, ...]],
        recipe: str,
        gradient_format: GradientFormat,
        promoted: bool,
        keep: Kept,
        device: Any,
        dtype: torch.dtype,
    ) -> None:
        """shapes: of the weights, and of the biases that there are."""
        super().__init__()
        _checks.check_recipe(recipe, gradient_format, promoted, keep)
        if dtype not in (None, *_checks.REAL[:2]):
            _checks.refuse("dtype", repr(dtype), "torch.float32 or torch.bfloat16")
        self.recipe, self.gradient_format, self.promoted = recipe, gradient_format, promoted
        self.keep = keep
        self._is_sharded = False
        self._frozen_ids: dict[str, int] = {}
        self._frozen_checks = False
        for weight in self.weight_names:
            for name in _buffers_of(weight):
                self.register_buffer(name, None, persistent=False)
        for name, shape in shapes.items():
            self.register_parameter(name, torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()

    def __setattr__(self, name: str, value: Any) -> None:
        """A new weight ends the frozen copies. FSDP sets its shard and the full weight in turn."""
        if name in self.weight_names:
            self.unfreeze()
            self._is_sharded = self._is_sharded or _checks.is_shard(value)
        super().__setattr__(name, value)

    def reset_parameters(self) -> None:
        """Fills weights and biases uniformly within 1 / sqrt(K), as torch.nn.Linear does."""
        for name in self.weight_names:
            weight, bias = getattr(self, name), getattr(self, self._bias_of(name), None)
            bound = 1 / math.sqrt(weight.shape[-1]) if weight.shape[-1] > 0 else 0
            torch.nn.init.uniform_(weight, -bound, bound)
            if bias is not None:
                torch.nn.init.uniform_(bias, -bound, bound)

    def _bias_of(self, weight: str) -> str:
        return "bias" if weight == "weight" else f"{weight}_bias"

    @property
    def is_frozen(self) -> bool:
        """Whether calls use the frozen copies. False if a weight is not the tensor that was frozen."""
        return all(self._is_frozen(name, getattr(self, name)) for name in self.weight_names)

    def _is_frozen(self, name: str, weight: torch.Tensor) -> bool:
        values = self._frozen(name)[0]
        return values is not None and self._frozen_ids.get(name) == id(weight) and is_copy_of(values, weight)

    def _frozen(self, name: str) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        values, scales = _buffers_of(name)
        return getattr(self, values), getattr(self, scales)

    @property
    def _has_copies(self) -> bool:
        return any(self._frozen(name)[0] is not None for name in self.weight_names)

    def freeze(self, check: bool = False) -> None:
        """Quantizes the weights once, for inference. Every call uses these copies until `unfreeze()`.

        This includes compiled calls and calls captured in a CUDA graph. After a write to a weight, call `refresh()`. A
        copy serves only the weight from which it was made. While another Parameter, storage or address is in its place,
        calls quantize that weight.

        Args:
            check: True makes each call quantize the weights too, and compare. This is slow, waits for the GPU, and cannot be
                captured in a CUDA graph. Default False.

        Raises:
            ValueError: here, if a weight is sharded or has no memory. In a later call, if a gradient is required, or
                with check=True if a weight differs from the copy.
        """
        copies = {name: self._copy(name) for name in self.weight_names}
        for name, copy in copies.items():
            self._keep_frozen(name, copy)
        self._frozen_checks = check

    def refresh(self) -> None:
        """Quantizes the weights of a frozen layer again, after a write. The copies keep their memory.

        CUDA graphs that were captured before the write read the new copies. Does nothing if the layer is not frozen.
        """
        for name in self.weight_names:
            kept = self._frozen(name)
            if kept[0] is None or kept[1] is None:
                continue
            values, scales = self._copy(name)
            with torch.inference_mode(False), torch.no_grad():
                kept[0].copy_(values)
                kept[1].copy_(scales)
            self._keep_frozen(name, (kept[0], kept[1]))

    def unfreeze(self) -> None:
        """Drops the frozen copies. Each call quantizes the weights again. Setting a weight does the same."""
        for name in self.weight_names:
            if self._frozen(name)[0] is not None:
                self._keep_frozen(name, None)

    def _copy(self, name: str) -> Pair:
        weight = getattr(self, name)
        _checks.check_whole(name, weight)
        if weight.is_meta:
            _checks.refuse(name, "a tensor on meta", "a tensor with memory", "Give the weight values before freeze().")
        with torch.inference_mode(False), torch.no_grad():  # refresh() could not write an inference tensor
            copy = copies_of(weight, self.recipe, True, False).forward
        assert copy is not None
        return copy

    def _keep_frozen(self, name: str, copy: Pair | None) -> None:
        values = self._frozen(name)[0]
        if values is not None and (copy is None or copy[0] is not values):
            forget(values)
        for buffer, tensor in zip(_buffers_of(name), copy or (None, None)):
            setattr(self, buffer, tensor)
        if copy is not None:
            weight = getattr(self, name)
            remember(copy[0], weight)
            self._frozen_ids[name] = id(weight)

    def _load_from_state_dict(self, *given: Any, **options: Any) -> None:
        was_frozen = self._has_copies
        super()._load_from_state_dict(*given, **options)
        if self._has_copies:
            self.refresh()
        elif was_frozen:  # assign=True replaced the weights by tensors of the state
            self.freeze(self._frozen_checks)

    def _apply(self, *given: Any, **options: Any) -> Any:
        """Called by `to` and similar methods, which convert every tensor. Frozen copies are made from the converted weights."""
        was_frozen = self._has_copies
        self.unfreeze()
        super()._apply(*given, **options)
        if was_frozen and not getattr(self, self.weight_names[0]).is_meta:
            self.freeze(self._frozen_checks)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """The state for copy and pickle. It includes the frozen copies, if they were made from the present weights."""
        state = self.__dict__.copy()
        if self._has_copies:
            kept: dict[str, torch.Tensor | None] = {}
            is_frozen = self.is_frozen
            for weight in self.weight_names:
                names, (values, scales) = _buffers_of(weight), self._frozen(weight)
                # As bytes, because pickle, unlike torch.save, cannot write fp8 tensors.
                there = is_frozen and values is not None
                kept |= dict(zip(names, (values.view(torch.uint8), scales) if there else (None, None)))
            state["_buffers"] = {**state["_buffers"], **kept}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._frozen_ids = dict(self._frozen_ids)
        for name in self.weight_names:
            values, scales = self._frozen(name)
            if values is not None and scales is not None:
                self._keep_frozen(name, (values.view(torch_dtype("e4m3")), scales))

    @property
    def _keeps(self) -> Kept:
        """The `keep` of a call."""
        return "weight" if self._is_sharded else self.keep

    def _frozen_copy(self, name: str, weight: torch.Tensor) -> FrozenCopy | None:
        """The copy that a call with this weight uses. A call reads a parameter once: a parametrization computes it at each access."""
        if not self._frozen_ids:  # since it was made; the common case, without torch's slow lookup of buffers
            return None
        values, scales = self._frozen(name)
        # A compiled program cannot tell one Parameter from another. The operator compares the memory at run time.
        if values is not None and scales is not None and (_operators.is_compiling() or self._is_frozen(name, weight)):
            return FrozenCopy(values, scales, self._frozen_checks)
        return None

    def _extra_repr(self, shape: list[int], bias: bool) -> str:
        gradients = "" if self.gradient_format == "e4m3" else f", gradient_format={self.gradient_format}"
        sums = "" if self.promoted else ", promoted=False"
        kept = "" if self.keep == "copy" else f", keep={self.keep}"
        return f"{shape}, recipe={self.recipe}{gradients}{sums}{kept}, bias={bias}"
