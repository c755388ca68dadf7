"""Functions as they were called before July 2025."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from tilewright.deep_gemm.dense import Scaled, fp8_gemm_nt
from tilewright.deep_gemm.grouped import m_grouped_fp8_gemm_nt_contiguous, m_grouped_fp8_gemm_nt_masked


def gemm_fp8_fp8_bf16_nt(lhs: Scaled, rhs: Scaled, out: Tensor) -> None:
    """fp8_gemm_nt."""
    fp8_gemm_nt(lhs, rhs, out)


def m_grouped_gemm_fp8_fp8_bf16_nt_contiguous(lhs: Scaled, rhs: Scaled, out: Tensor, m_indices: Tensor) -> None:
    """m_grouped_fp8_gemm_nt_contiguous."""
    m_grouped_fp8_gemm_nt_contiguous(lhs, rhs, out, m_indices)


def m_grouped_gemm_fp8_fp8_bf16_nt_masked(
    lhs: Scaled, rhs: Scaled, out: Tensor, masked_m: Tensor, expected_m: int
) -> None:
    """m_grouped_fp8_gemm_nt_masked."""
    m_grouped_fp8_gemm_nt_masked(lhs, rhs, out, masked_m, expected_m)


def _by_row(sf: Tensor, rows: int) -> Tensor:
    """[rows, k blocks] also from [k blocks, rows]."""
    return sf if sf.shape[0] == rows else sf.T


def wgrad_gemm_fp8_fp8_fp32_nt(lhs: Scaled, rhs: Scaled, out: Tensor) -> None:
    """out += lhs @ rhs.T in f32, both with a factor for each row and 128 of k (or these factors transposed)."""
    a, b = ((values, _by_row(sf, values.shape[0])) for values, sf in (lhs, rhs))
    fp8_gemm_nt(a, b, out, out, recipe=(1, 1, 128))


def k_grouped_wgrad_gemm_fp8_fp8_fp32_nt(lhs: Scaled, rhs: Scaled, out: Tensor, batch_sizes: Sequence[int]) -> None:
    """wgrad_gemm_fp8_fp8_fp32_nt for each out[i], with flat values and factors [k blocks of all, rows]."""
    _, m, n = out.shape
    start = block = 0
    for i, k in enumerate(batch_sizes):
        blocks = slice(block, block - (-k // 128))
        sides = [
            (values.view(-1)[rows * start : rows * (start + k)].view(rows, k), sf[blocks].T)
            for (values, sf), rows in ((lhs, m), (rhs, n))
        ]
        fp8_gemm_nt(sides[0], sides[1], out[i], out[i], recipe=(1, 1, 128))
        start, block = start + k, blocks.stop
