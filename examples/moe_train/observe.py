"""Observes one layer of experts during training: compares dW of down with bfloat16, and plants faults on purpose."""

from __future__ import annotations

import math
from typing import Any

import tilewright
import torch
from model import product_of_groups
from tilewright.torch import Experts, grouped_linear
from torch import nn
from torch.nn import functional

FAULTS = ("none", "neighbouring-scales", "flushed")
FLUSHED = 2.0**-3  # the fault `flushed` zeroes gradients of the result below this share of the largest one


def sqnr(reference: torch.Tensor, other: torch.Tensor) -> float:
    """The signal-to-quantization-noise ratio in dB."""
    noise = (reference.double() - other.double()).square().sum()
    return math.inf if noise == 0 else float(10 * torch.log10(reference.double().square().sum() / noise))


def products_of_groups(dy: torch.Tensor, x: torch.Tensor, ends: list[int]) -> torch.Tensor:
    """dW [groups, N, K] of bfloat16 operands, summed in float32."""
    dy, x = dy.bfloat16().float(), x.bfloat16().float()
    return torch.stack([dy[begin:end].t() @ x[begin:end] for begin, end in zip([0, *ends], ends)])


class Observer:
    """Hooks of a layer that is called as `layer(x, chosen, weights)`. Keeps what dW of the last step follows from, and plants a
    fault in backward."""

    def __init__(self, layer: nn.Module, fault: str = "none") -> None:
        self.layer, self.fault = layer, fault
        layer.register_forward_hook(self._forward)
        if fault == "neighbouring-scales":
            layer.down.register_hook(self._with_neighbouring_scales)

    def _forward(self, _: nn.Module, inputs: Any, output: torch.Tensor) -> None:
        if not output.requires_grad:
            return
        x, chosen, self.weights = (tensor.detach() for tensor in inputs)
        routed = tilewright.route(chosen, len(self.layer.up))
        self.tokens, self.ends, self.x = routed.sources, routed.ends, x[routed.sources]
        output.register_hook(self._backward)

    def _backward(self, dy: torch.Tensor) -> torch.Tensor | None:
        """dY of down: the rows of each expert, times their weights."""
        self.dy = (dy.detach() * self.weights)[self.tokens]
        if self.fault != "flushed":
            return None
        return torch.where(dy.abs() < FLUSHED * dy.abs().max(), torch.zeros_like(dy), dy)

    def _with_neighbouring_scales(self, dw: torch.Tensor) -> torch.Tensor:
        """The scales of dY belong to its columns. The fault multiplies each row of dW by the scale of the next column."""
        scaled, ends = torch.empty_like(dw), self.ends.tolist()
        for group, (begin, end) in enumerate(zip([0, *ends], ends)):
            largest = self.dy[begin:end].abs().amax(dim=0) if end > begin else dw.new_ones(dw.shape[1])
            largest = largest.clamp_min(1e-30)
            scaled[group] = dw[group] * (largest.roll(-1) / largest)[:, None].to(dw.dtype)
        return scaled

    def _h(self) -> torch.Tensor:
        """The operand of down, from the product that forward computes."""
        up = self.layer.up.detach()
        if isinstance(self.layer, Experts):
            gate_up = grouped_linear(self.x, up, self.ends, recipe=self.layer.recipe)
        else:
            gate_up = product_of_groups(self.x, up, torch.diff(self.ends, prepend=self.ends.new_zeros(1)).tolist())
        gate, linear = gate_up.chunk(2, dim=-1)
        return functional.silu(gate) * linear

    def sqnr(self) -> float:
        """The SQNR of the gradient of down against dW in bfloat16."""
        return sqnr(products_of_groups(self.dy, self._h(), self.ends.tolist()), self.layer.down.grad)
