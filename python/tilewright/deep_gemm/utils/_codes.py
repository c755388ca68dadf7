"""Tensors of one element type read as another, whatever their strides."""

from __future__ import annotations

import torch
from torch import Tensor


def as_bytes(x: Tensor) -> Tensor:
    """uint8 [.., n * bytes of an element], lowest byte first. A last dimension of one may have any stride."""
    return x.contiguous().flatten().view(torch.uint8).view(*x.shape[:-1], x.shape[-1] * x.element_size())


def exponents(x: Tensor) -> Tensor:
    """The UE8M0 codes of positive float32 powers of two, as uint8."""
    return (x.contiguous().view(torch.int32) >> 23).to(torch.uint8)
