"""The units between the two products of a layer of experts, and their gradients, in float32 by torch.

Training computes units other than SwiGLU here, because no quantizer of the library does. `tilewright.moe` describes the units.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

UNITS = ("swiglu", "situ", "geglu", "relu_squared")
_GELU, _CUBIC = 2 * math.sqrt(2 / math.pi), 0.044715


class Unit(NamedTuple):
    """The unit of a layer, with the numbers that the kind uses."""

    kind: str
    alpha: float
    beta: float
    limit: float
    gate_bound: float
    up_bound: float
    interleaved: bool

    @property
    def keywords(self) -> dict[str, Any]:
        """The unit as keywords of `tilewright.moe`."""
        own = self._asdict()
        return {"activation": own.pop("kind"), **own}

    @property
    def gates(self) -> int:
        """Rows of W_up per feature of h."""
        return 1 if self.kind == "relu_squared" else 2


def _parts(gate_up: torch.Tensor, interleaved: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Gates and ups in float32."""
    numbers = gate_up.float()
    if interleaved:
        return numbers[..., 0::2], numbers[..., 1::2]
    gate, up = numbers.chunk(2, dim=-1)
    return gate, up


def _joined(gate: torch.Tensor, up: torch.Tensor, interleaved: bool) -> torch.Tensor:
    return torch.stack([gate, up], dim=-1).flatten(-2) if interleaved else torch.cat([gate, up], dim=-1)


def activated(gate_up: torch.Tensor, unit: Unit) -> torch.Tensor:
    """h [rows, inner] in float32."""
    if unit.kind == "relu_squared":
        return gate_up.float().relu().square()
    gate, up = _parts(gate_up, unit.interleaved)
    if unit.kind == "swiglu":
        gate, up = gate.clamp(max=unit.limit), up.clamp(-unit.limit, unit.limit)
        return gate * torch.sigmoid(unit.alpha * gate) * (up + unit.beta)
    if unit.kind == "geglu":
        return gate * torch.sigmoid(_GELU * (gate + _CUBIC * gate**3)) * up
    bounded = unit.gate_bound * torch.tanh(gate / unit.gate_bound)
    return bounded * torch.sigmoid(gate) * _bounded_up(up, unit.up_bound)


def _bounded_up(up: torch.Tensor, bound: float) -> torch.Tensor:
    return up if math.isinf(bound) else bound * torch.tanh(up / bound)


def gradient(gate_up: torch.Tensor, d_h: torch.Tensor, unit: Unit) -> torch.Tensor:
    """The gradient of gate_up in float32, of that of h."""
    d_h = d_h.float()
    if unit.kind == "relu_squared":
        return 2 * d_h * gate_up.float().relu()
    gate, up = _parts(gate_up, unit.interleaved)
    if unit.kind == "swiglu":
        within_gate, within_up = gate <= unit.limit, up.abs() <= unit.limit
        gate, up = gate.clamp(max=unit.limit), up.clamp(-unit.limit, unit.limit) + unit.beta
        share = torch.sigmoid(unit.alpha * gate)
        slope = share + unit.alpha * gate * share * (1 - share)
        return _joined(d_h * up * slope * within_gate, d_h * gate * share * within_up, unit.interleaved)
    if unit.kind == "geglu":
        share = torch.sigmoid(_GELU * (gate + _CUBIC * gate**3))
        slope = share + gate * share * (1 - share) * _GELU * (1 + 3 * _CUBIC * gate**2)
        return _joined(d_h * up * slope, d_h * gate * share, unit.interleaved)
    ratio, share = torch.tanh(gate / unit.gate_bound), torch.sigmoid(gate)
    slope = (1 - ratio**2) * share + unit.gate_bound * ratio * share * (1 - share)
    up_slope = 1.0 if math.isinf(unit.up_bound) else 1 - torch.tanh(up / unit.up_bound) ** 2
    d_up = d_h * unit.gate_bound * ratio * share * up_slope
    return _joined(d_h * _bounded_up(up, unit.up_bound) * slope, d_up, unit.interleaved)
