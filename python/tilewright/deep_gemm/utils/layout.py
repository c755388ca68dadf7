"""Layouts of scale factors: MN-major with 16-byte aligned columns, and int32 with four packed UE8M0."""

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
    """The smallest size of at least x whose elements fill a multiple of 16 bytes."""
    if element_size not in (1, 2, 4, 8, 16):
        raise ValueError(f"element_size: got {element_size}; expected 1, 2, 4, 8 or 16 bytes.")
    return align(x, 16 // element_size)


def mn_major_strides(sf: torch.Tensor) -> tuple[int, ...]:
    """MN-major strides for [..., mn, k blocks], with columns that start at multiples of 16 bytes."""
    aligned_mn = get_tma_aligned_size(sf.shape[-2], sf.element_size())
    strides = (1, aligned_mn)
    return strides if sf.dim() == 2 else (aligned_mn * sf.shape[-1], *strides)


def mn_major(sf: torch.Tensor) -> torch.Tensor:
    """A copy with the strides of `mn_major_strides`; sf itself if it has them."""
    strides = mn_major_strides(sf)
    if sf.stride() == strides:
        return sf
    return torch.empty_strided(sf.shape, strides, dtype=sf.dtype, device=sf.device).copy_(sf)


def _check_factors(sf: torch.Tensor, dimensions: tuple[int, ...], what: str) -> None:
    if sf.dtype != torch.float32 or sf.dim() not in dimensions:
        raise ValueError(f"sf: got {sf.dtype} {list(sf.shape)}; expected torch.float32 {what}.")


def get_mn_major_tma_aligned_tensor(sf: torch.Tensor) -> torch.Tensor:
    """Scale factors with strides (.., 1, mn rounded up to 16 bytes); sf itself if it has these strides.

    Args:
        sf: float32 [mn, k blocks] or [groups, mn, k blocks].
    """
    _check_factors(sf, (2, 3), "[mn, k blocks] or [groups, mn, k blocks]")
    return mn_major(sf)


def get_mn_major_tma_aligned_packed_ue8m0_tensor(
    sf: torch.Tensor, psum_layout: torch.Tensor | None = None
) -> torch.Tensor:
    """Scale factors packed as int32, MN-major and aligned, with four UE8M0 each, the first in the lowest byte.

    Args:
        sf: powers of two, float32 [mn, k blocks] or [groups, mn, k blocks]. Other numbers become NaN (255).
        psum_layout: not needed. Rows between groups are packed like all others.

    Returns:
        int32 [.., mn, ceil(k blocks / 4)].
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
    """Packs the scale factors of a k-grouped operand: int32 with four UE8M0 each. The host reads nothing from the GPU.

    Each group begins a new row in sf and in the result.

    Args:
        sf: powers of two, float32 [sum of k blocks, mn].
        grouped_layout: int32 [groups], the k of each group. With use_psum_layout it has the k at which each group ends.
            Groups then start at multiples of k_alignment.
        ks_cpu: the k of each group on the host, or k rounded up to k_alignment. None is allowed only with use_psum_layout.
            The result then has the largest number of rows that could be needed.
        gran_k: the k-elements per factor.
        k_alignment: the alignment of groups with use_psum_layout.
        use_psum_layout: whether grouped_layout has ends.

    Returns:
        int32 [sum over groups of ceil(k blocks / 4), mn].
    """
    _check_factors(sf, (2,), "[sum of k blocks, mn]")
    groups = grouped_layout.numel()
    if not ks_cpu and not use_psum_layout:
        raise ValueError(f"ks_cpu: got {ks_cpu}; expected the k of each of the {groups} groups without use_psum_layout.")
    if ks_cpu and len(ks_cpu) != groups:
        values = f"{len(ks_cpu)} value" + "s" * (len(ks_cpu) != 1)
        raise ValueError(f"ks_cpu: got {values}; expected {groups}, one per group of grouped_layout.")
    if ks_cpu and not use_psum_layout and sum(ceil_div(k, gran_k) for k in ks_cpu) != sf.shape[0]:
        raise ValueError(f"sf: got {sf.shape[0]} rows; expected one per {gran_k} elements of each k of ks_cpu.")
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
