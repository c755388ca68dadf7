"""Quantized weights in buffers of an engine's module, and the end of the weights from which they were made.

Buffers move with their module. They are bytes [n], so that a change of the module's dtype leaves them and a copy has the same
strides. They are not in the module's state.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any, NoReturn

import torch

from tilewright import Quantized
from tilewright._packing import PackedWeights
from tilewright.integrations._experts import ExpertLayer

_NAMES = {"up": "tilewright_up", "down": "tilewright_down"}


def hold(module: torch.nn.Module, layer: ExpertLayer) -> None:
    """Puts the quantized weights of a layer into buffers of the module, in place of former ones."""
    for side, name in _NAMES.items():
        operand: Any = getattr(layer, side)
        module.register_buffer(name, _bytes_of(operand.values), persistent=False)
        scales = None if isinstance(operand, PackedWeights) else _bytes_of(operand.scales)
        module.register_buffer(f"{name}_scales", scales, persistent=False)


def held(module: torch.nn.Module, layer: ExpertLayer) -> ExpertLayer:
    """The layer on the buffers as they are now. `layer` is the one that was put there."""
    return replace(layer, **{side: _operand(module, name, getattr(layer, side)) for side, name in _NAMES.items()})


def place_of_held(module: torch.nn.Module) -> torch.device:
    return module.get_buffer(_NAMES["up"]).device


def drop(module: torch.nn.Module) -> None:
    """Removes the buffers."""
    for name in _NAMES.values():
        module._buffers.pop(name, None)
        module._buffers.pop(f"{name}_scales", None)


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The memory from the first to the last element, without a copy."""
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((span,), (1,)).view(torch.uint8)


def _like(data: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    return data.view(tensor.dtype).as_strided(tensor.shape, tensor.stride())


def _operand(module: torch.nn.Module, name: str, like: Any) -> Quantized | PackedWeights:
    values = getattr(module, name)
    if isinstance(like, PackedWeights):
        return PackedWeights(values, like.header)
    return Quantized(_like(values, like.values), like.recipe, _like(getattr(module, f"{name}_scales"), like.scales))


def free(module: torch.nn.Module, names: tuple[str, ...], explanation: str) -> None:
    """Deletes parameters of the module. Whoever asks for them later, or for the module's state, gets the explanation.

    The module gets a subclass of its class with attributes of these names: torch looks for parameters only where there are none.
    """
    for name in names:
        del module._parameters[name]
    module.__class__ = _without(type(module), names, explanation)
    module.register_state_dict_pre_hook(functools.partial(_refuse, explanation))
    module.register_load_state_dict_pre_hook(functools.partial(_refuse, explanation))


def _refuse(explanation: str, *_: object) -> NoReturn:
    raise RuntimeError(explanation)


def _without(kind: type, names: tuple[str, ...], explanation: str) -> type:
    freed = property(functools.partial(_refuse, explanation))
    return type(kind.__name__, (kind,), {"__module__": kind.__module__, **dict.fromkeys(names, freed)})
