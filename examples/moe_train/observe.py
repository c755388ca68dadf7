"""What is seen of one grouped layer while it trains: how far its dW is from bfloat16's, and faults planted on purpose."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

FAULTS = ("none", "neighbouring-scales", "flushed")
FLUSHED = 2.0**-6  # of the largest


def sqnr(reference: torch.Tensor, other: torch.Tensor) -> float:
    """Signal over quantisation noise, in decibels."""
    noise = (reference.double() - other.double()).square().sum()
    return math.inf if noise == 0 else float(10 * torch.log10(reference.double().square().sum() / noise))


def products_of_groups(dy: torch.Tensor, x: torch.Tensor, ends: list[int]) -> torch.Tensor:
    """dW [groups, N, K] of bfloat16 operands, summed in float32."""
    dy, x = dy.bfloat16().float(), x.bfloat16().float()
    return torch.stack([dy[begin:end].t() @ x[begin:end] for begin, end in zip([0, *ends], ends)])


class Observer:
    """Hooks of a layer called as `layer(x, ends)`: keeps x and dY of the last step, and plants a fault in what backward gets."""

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
        """dY's scales are of its columns: those of the next ones multiply the rows of dW."""
        scaled = torch.empty_like(dw)
        for group, (begin, end) in enumerate(zip([0, *self.ends], self.ends)):
            largest = self.dy[begin:end].abs().amax(dim=0) if end > begin else dw.new_ones(dw.shape[1])
            largest = largest.clamp_min(1e-30)
            scaled[group] = dw[group] * (largest.roll(-1) / largest)[:, None].to(dw.dtype)
        return scaled

    def sqnr(self) -> float:
        """Of dW, which backward has left in the weight's gradient, against bfloat16."""
        return sqnr(products_of_groups(self.dy, self.x, self.ends), self.layer.weight.grad)
