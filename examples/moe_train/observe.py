"""Observes one grouped layer during training: compares its dW with bfloat16, and plants faults on purpose."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

FAULTS = ("none", "neighbouring-scales", "flushed")
FLUSHED = 2.0**-6  # the fault `flushed` zeroes gradients below this share of the largest one


def sqnr(reference: torch.Tensor, other: torch.Tensor) -> float:
    """The signal-to-quantization-noise ratio in dB."""
    noise = (reference.double() - other.double()).square().sum()
    return math.inf if noise == 0 else float(10 * torch.log10(reference.double().square().sum() / noise))


def products_of_groups(dy: torch.Tensor, x: torch.Tensor, ends: list[int]) -> torch.Tensor:
    """dW [groups, N, K] of bfloat16 operands, summed in float32."""
    dy, x = dy.bfloat16().float(), x.bfloat16().float()
    return torch.stack([dy[begin:end].t() @ x[begin:end] for begin, end in zip([0, *ends], ends)])


class Observer:
    """Hooks of a layer that is called as `layer(x, ends)`. Keeps x and dY of the last step, and plants a fault in backward."""

    def __init__(self, layer: nn.Module, fault: str = "none") -> None:
        self.layer, self.fault = layer, fault
        layer.register_forward_hook(self._forward)
        if fault == "neighbouring-scales":
            layer.weight.register_hook(self._with_neighbouring_scales)

    def _forward(self, _: nn.Module, inputs: Any, output: torch.Tensor) -> None:
        self.x, self.ends = inputs[0].detach(), inputs[1].tolist()
        if output.requires_grad:
            output.register_hook(self._backward)

    def _backward(self, dy: torch.Tensor) -> torch.Tensor | None:
        self.dy = dy.detach()
        if self.fault != "flushed":
            return None
        return torch.where(dy.abs() < FLUSHED * dy.abs().max(), torch.zeros_like(dy), dy)

    def _with_neighbouring_scales(self, dw: torch.Tensor) -> torch.Tensor:
        """The scales of dY belong to its columns. The fault multiplies each row of dW by the scale of the next column."""
        scaled = torch.empty_like(dw)
        for group, (begin, end) in enumerate(zip([0, *self.ends], self.ends)):
            largest = self.dy[begin:end].abs().amax(dim=0) if end > begin else dw.new_ones(dw.shape[1])
            largest = largest.clamp_min(1e-30)
            scaled[group] = dw[group] * (largest.roll(-1) / largest)[:, None].to(dw.dtype)
        return scaled

    def sqnr(self) -> float:
        """The SQNR of the weight's gradient against dW in bfloat16."""
        return sqnr(products_of_groups(self.dy, self.x, self.ends), self.layer.weight.grad)
