"""Factors for each row on both sides of a product on a GPU: whether they lie so that its kernels can read them fast.

Kernels bring factors by TMA in either order for a and, for b, those of neighbouring rows side by side: of both sides or
of none (`add_scale_maps` in src/launch/launch.cpp). Without TMA this product, and no other, takes twice the time
(docs/tried.md), so that a copy of the factors pays. Factors of a alone are never copied.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tilewright.deep_gemm.utils.layout import get_mn_major_tma_aligned_tensor


def has_tma_strides(tensor: Tensor, beside: int) -> bool:
    """What TMA asks: elements along dimension `beside` are neighbours, all else begins at multiples of 16 bytes."""
    elements = 16 // tensor.element_size()
    return tensor.data_ptr() % 16 == 0 and all(
        size <= 1 or (stride == 1 if dimension - tensor.dim() == beside else stride % elements == 0)
        for dimension, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True))
    )


def _is_common(d: Tensor, c: Tensor | None) -> bool:
    """Whether the kernels for common calls serve this one: they alone take factors of neighbouring k side by side."""
    return c is None and d.dtype == torch.bfloat16 and d.shape[-1] % 8 == 0 and has_tma_strides(d, -1)


def factors_of_rows(
    sfa: Tensor, sfb: Tensor, d: Tensor, c: Tensor | None, groups_anywhere: bool = False
) -> tuple[Tensor, Tensor]:
    """Both as they are, or copies with neighbouring rows side by side where their own order costs half the speed.

    groups_anywhere: groups begin at any row of a, whose factors TMA then brings along k only.
    """
    if any(sf.dtype != torch.float32 or sf.dim() not in (2, 3) for sf in (sfa, sfb)):
        return sfa, sfb
    a_along_k = has_tma_strides(sfa, -1) and _is_common(d, c)
    if groups_anywhere and not a_along_k:
        return sfa, sfb  # ordinary loads, whatever is copied
    if not a_along_k and not has_tma_strides(sfa, -2):
        sfa = get_mn_major_tma_aligned_tensor(sfa)
    return sfa, sfb if has_tma_strides(sfb, -2) else get_mn_major_tma_aligned_tensor(sfb)
