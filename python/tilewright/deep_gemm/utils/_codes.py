"""Views of tensors as other element types, for any strides."""

from __future__ import annotations

import torch
from torch import Tensor


def as_bytes(x: Tensor) -> Tensor:
    """uint8 [.., n * bytes of an element], lowest byte first. A last dimension of size 1 may have any stride."""
    return x.contiguous().flatten().view(torch.uint8).view(*x.shape[:-1], x.shape[-1] * x.element_size())


_EXPONENT = 0x7F800000  # the bits of a float32 that UE8M0 keeps
_NAN = 255


def no_powers_of_two(x: Tensor) -> Tensor:
    """Where UE8M0 cannot represent float32 x: not a positive power of two, not zero, and not infinity (NaN in UE8M0)."""
    return (x.contiguous().view(torch.int32) & ~_EXPONENT) != 0


def exponents(x: Tensor) -> Tensor:
    """Float32 powers of two as UE8M0, in uint8. Zero becomes 0; numbers that are not powers of two become NaN.

    On a GPU the host does not check whether there were such numbers. All products with them are NaN.
    """
    codes = (x.contiguous().view(torch.int32) >> 23).masked_fill_(no_powers_of_two(x), _NAN)
    return codes.to(torch.uint8)
