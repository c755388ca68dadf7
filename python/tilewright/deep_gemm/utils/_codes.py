"""Tensors of one element type read as another, whatever their strides."""

from __future__ import annotations

import torch
from torch import Tensor


def as_bytes(x: Tensor) -> Tensor:
    """uint8 [.., n * bytes of an element], lowest byte first. A last dimension of one may have any stride."""
    return x.contiguous().flatten().view(torch.uint8).view(*x.shape[:-1], x.shape[-1] * x.element_size())


_EXPONENT = 0x7F800000  # the bits of a float32 that UE8M0 keeps
_NAN = 255


def no_powers_of_two(x: Tensor) -> Tensor:
    """Where float32 x is no number that UE8M0 has: neither a positive power of two, nor zero, nor infinity (its NaN)."""
    return (x.contiguous().view(torch.int32) & ~_EXPONENT) != 0


def exponents(x: Tensor) -> Tensor:
    """The UE8M0 codes of float32 powers of two, as uint8. Zero is 0; numbers that are no powers of two become NaN.

    No one reads back from a GPU whether there were any: what is multiplied with them is NaN, and no other number.
    """
    codes = (x.contiguous().view(torch.int32) >> 23).masked_fill_(no_powers_of_two(x), _NAN)
    return codes.to(torch.uint8)
