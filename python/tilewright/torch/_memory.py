"""The identity of a tensor's memory: it decides whether a copy was made from the present tensor."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from tilewright.torch._checks import storage


class Memory(NamedTuple):
    """Equal for two tensors of the same elements in the same memory."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    # A new tensor may get the address of a freed one. The weak reference keeps the identity of the storage from being reused.
    storage: StorageWeakRef


def memory_of(tensor: torch.Tensor) -> Memory:
    return Memory(
        tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, StorageWeakRef(storage(tensor))
    )
