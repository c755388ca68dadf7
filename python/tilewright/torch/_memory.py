"""Which memory a tensor is: what tells whether a copy was made of the tensor that is there now."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from tilewright.torch._checks import storage


class Memory(NamedTuple):
    """Equal for two tensors that are the same numbers in the same place."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    # Another tensor may get the address of one that is gone; the reference keeps its storage's name from being given again.
    storage: StorageWeakRef


def memory_of(tensor: torch.Tensor) -> Memory:
    return Memory(
        tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, StorageWeakRef(storage(tensor))
    )
