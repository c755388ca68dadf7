"""Functions that compare tensors and count their bytes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def calc_diff(x: Tensor, y: Tensor) -> Any:
    """1 - 2 x.y / (x.x + y.y) in float64. 0 for equal tensors; about half the squared relative error for similar tensors."""
    x, y = x.double(), y.double()
    norms = (x * x).sum() + (y * y).sum()
    return 0.0 if norms == 0 else 1 - 2 * (x * y).sum() / norms


def count_bytes(*tensors: Any) -> int:
    """Bytes of all elements, including nested tuples and lists. None counts as 0."""
    total = 0
    for entry in tensors:
        if isinstance(entry, tuple | list):
            total += count_bytes(*entry)
        elif entry is not None:
            total += entry.numel() * entry.element_size()
    return total


def assert_bitwise_equal(x: Tensor, y: Tensor, label: str = "") -> None:
    """Raises AssertionError with the first element whose bits differ. Bits of NaNs and signs of zeros count."""
    words = f" ({label})" if label else ""
    if x.shape != y.shape or x.dtype != y.dtype:
        raise AssertionError(f"x: got {x.dtype} {list(x.shape)}; expected {y.dtype} {list(y.shape)}, like y{words}.")
    if x.numel() == 0:
        return
    bits = [tensor.contiguous().view(-1, 1).view(torch.uint8) for tensor in (x, y)]
    different = (bits[0] != bits[1]).any(1)
    if not bool(different.any()):
        return
    first = int(different.int().argmax())
    place = [int(i) for i in torch.unravel_index(torch.tensor(first), x.shape)]
    values = x.flatten()[first].item(), y.flatten()[first].item()
    raise AssertionError(
        f"{int(different.sum())} of {x.numel()} elements differ in their bits{words}, "
        f"the first at {place}: {values[0]!r} and {values[1]!r}"
    )
