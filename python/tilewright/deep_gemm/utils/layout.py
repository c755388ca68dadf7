"""Layouts of scale factors: MN-major with 16-byte aligned columns, and four UE8M0 packed into an int32."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tilewright.deep_gemm._settings import (
    get_mk_alignment_for_contiguous_layout,
    get_theoretical_mk_alignment_for_contiguous_layout,
    set_mk_alignment_for_contiguous_layout,
)
from tilewright.deep_gemm.utils._codes import exponents
from tilewright.deep_gemm.utils.math import align, ceil_div

__all__ = [
    "get_k_alignment_for_contiguous_layout",
    "get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor",
    "get_m_alignment_for_contiguous_layout",
    "get_mk_alignment_for_contiguous_layout",
    "get_mn_major_tma_aligned_packed_ue8m0_tensor",
    "get_mn_major_tma_aligned_tensor",
    "get_theoretical_mk_alignment_for_contiguous_layout",
    "get_tma_aligned_size",
    "set_mk_alignment_for_contiguous_layout",
]

get_m_alignment_for_contiguous_layout = get_mk_alignment_for_contiguous_layout
get_k_alignment_for_contiguous_layout = get_mk_alignment_for_contiguous_layout


def get_tma_aligned_size(x: int, element_size: int) -> int:
    """The smallest size from x on whose elements fill a multiple of 16 bytes."""
    if element_size not in (1, 2, 4, 8, 16):
        raise ValueError(f"element_size: {element_size} given, a power of two up to 16 expected; it counts bytes")
    return align(x, 16 // element_size)


def mn_major_strides(sf: torch.Tensor) -> tuple[int, ...]:
    """Strides of [..., mn, k blocks] with neighbouring rows side by side and columns that start at 16 bytes."""
    aligned_mn = get_tma_aligned_size(sf.shape[-2], sf.element_size())
    strides = (1, aligned_mn)
    return strides if sf.dim() == 2 else (aligned_mn * sf.shape[-1], *strides)


def mn_major(sf: torch.Tensor) -> torch.Tensor:
    """[..., mn, k blocks] in these strides; as it is where it has them."""
    strides = mn_major_strides(sf)
    if sf.stride() == strides:
        return sf
    return torch.empty_strided(sf.shape, strides, dtype=sf.dtype, device=sf.device).copy_(sf)


def _check_factors(sf: torch.Tensor, dimensions: tuple[int, ...], what: str) -> None:
    if sf.dtype != torch.float32 or sf.dim() not in dimensions:
        raise ValueError(f"sf: {list(sf.shape)} of {sf.dtype} given, {what} of torch.float32 expected")


def get_mn_major_tma_aligned_tensor(sf: torch.Tensor) -> torch.Tensor:
    """float32 [mn, k blocks] or [groups, mn, k blocks] in strides (.., 1, mn rounded up to 16 bytes).

    Returned as it is where it has them.
    """
    _check_factors(sf, (2, 3), "[mn, k blocks] or [groups, mn, k blocks]")
    return mn_major(sf)


def get_mn_major_tma_aligned_packed_ue8m0_tensor(
    sf: torch.Tensor, psum_layout: torch.Tensor | None = None
) -> torch.Tensor:
    """int32 [.., mn, ceil(k blocks / 4)], MN-major and aligned: four UE8M0 codes each, the first in the lowest byte.

    sf holds powers of two; other numbers become NaN (255). psum_layout is not needed: rows between groups are packed like
    any other.
    """
    _check_factors(sf, (2, 3), "[mn, k blocks] or [groups, mn, k blocks]")
    blocks = sf.shape[-1]
    codes = torch.nn.functional.pad(exponents(sf), (0, -blocks % 4))
    return mn_major(codes.view(torch.int32))


def _group_lengths(grouped_layout: torch.Tensor, k_alignment: int, use_psum_layout: bool) -> torch.Tensor:
    if not use_psum_layout:
        return grouped_layout.long()
    ends = grouped_layout.long()
    starts = torch.cat((ends.new_zeros(1), (ends[:-1] + k_alignment - 1) // k_alignment * k_alignment))
    return ends - starts


def get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor(
    sf: torch.Tensor,
    grouped_layout: torch.Tensor,
    ks_cpu: Sequence[int] | None,
    gran_k: int,
    k_alignment: int,
    use_psum_layout: bool = False,
) -> torch.Tensor:
    """float32 [sum of k blocks, mn] -> int32 [sum over groups of ceil(k blocks / 4), mn], four UE8M0 codes each.

    Groups start anew in both. grouped_layout: int32 [groups], the k of each group, or (psum) the k at which it ends,
    each starting at a multiple of k_alignment. ks_cpu: the same k on the host, or k rounded up to k_alignment; without
    it (psum only) the result has as many rows as could be needed. Nothing is read back from the GPU.
    """
    _check_factors(sf, (2,), "[sum of k blocks, mn]")
    groups = grouped_layout.numel()
    if not ks_cpu and not use_psum_layout:
        raise ValueError(f"ks_cpu: {ks_cpu} given, the k of each of the {groups} groups expected without a psum layout")
    if ks_cpu and len(ks_cpu) != groups:
        raise ValueError(f"ks_cpu: {len(ks_cpu)} numbers given, {groups} expected, one a group of grouped_layout")
    if ks_cpu and not use_psum_layout and sum(ceil_div(k, gran_k) for k in ks_cpu) != sf.shape[0]:
        raise ValueError(f"sf: {sf.shape[0]} rows given, one for {gran_k} of each k of ks_cpu expected")
    rows = sum(ceil_div(k, gran_k * 4) for k in ks_cpu) if ks_cpu else (sf.shape[0] + groups * 3) // 4
    if rows == 0 or sf.shape[0] == 0:
        return torch.empty((rows, sf.shape[1]), dtype=torch.int32, device=sf.device)

    blocks = (_group_lengths(grouped_layout, k_alignment, use_psum_layout) + gran_k - 1) // gran_k
    row_ends = ((blocks + 3) // 4).cumsum(0)
    block_ends = blocks.cumsum(0)
    row = torch.arange(rows, device=sf.device)
    group = torch.searchsorted(row_ends, row, right=True).clamp(max=groups - 1)
    row_in_group = row - (row_ends - (blocks + 3) // 4)[group]
    source = (block_ends - blocks)[group][:, None] + row_in_group[:, None] * 4 + torch.arange(4, device=sf.device)
    exists = source < block_ends[group][:, None]  # [rows, 4]
    codes = exponents(sf)[source.clamp(max=sf.shape[0] - 1)]  # [rows, 4, mn]
    codes = torch.where(exists[:, :, None], codes, torch.zeros_like(codes))
    return codes.transpose(1, 2).contiguous().view(torch.int32).squeeze(-1)
