"""Functions by the names that they had before July 2025."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor

from tilewright._errors import InvalidCall
from tilewright.deep_gemm import _operators
from tilewright.deep_gemm._checks import pair, whole_numbers
from tilewright.deep_gemm.dense import Scaled, fp8_gemm_nt
from tilewright.deep_gemm.grouped import m_grouped_fp8_gemm_nt_contiguous, m_grouped_fp8_gemm_nt_masked


def gemm_fp8_fp8_bf16_nt(lhs: Scaled, rhs: Scaled, out: Tensor) -> None:
    """An older name of `fp8_gemm_nt`."""
    fp8_gemm_nt(lhs, rhs, out)


def m_grouped_gemm_fp8_fp8_bf16_nt_contiguous(lhs: Scaled, rhs: Scaled, out: Tensor, m_indices: Tensor) -> None:
    """An older name of `m_grouped_fp8_gemm_nt_contiguous`."""
    m_grouped_fp8_gemm_nt_contiguous(lhs, rhs, out, m_indices)


def m_grouped_gemm_fp8_fp8_bf16_nt_masked(
    lhs: Scaled, rhs: Scaled, out: Tensor, masked_m: Tensor, expected_m: int
) -> None:
    """An older name of `m_grouped_fp8_gemm_nt_masked`."""
    m_grouped_fp8_gemm_nt_masked(lhs, rhs, out, masked_m, expected_m)


_OURS = {"a": "lhs", "b": "rhs", "d": "out", "c": "out", "ks_cpu": "batch_sizes"}


@contextmanager
def _in_older_words() -> Iterator[None]:
    """Errors name the older arguments: lhs, rhs, out and batch_sizes."""
    try:
        yield
    except InvalidCall as error:
        lines = (re.sub(r"^(ks_cpu|[abcd])\b", lambda word: _OURS[word[1]], line) for line in str(error).splitlines())
        text = re.sub(r"\b(of|like) d\b", r"\1 out", "\n".join(lines)).replace("sum(ks_cpu)", "sum(batch_sizes)")
        raise InvalidCall(text, error.findings) from None


def _by_row(given: Scaled, name: str) -> Scaled:
    """Values with factors [rows, k blocks]; factors [k blocks, rows] are transposed."""
    values, sf = pair(name, given)
    return values, sf if sf.shape[0] == values.shape[0] else sf.mT


def wgrad_gemm_fp8_fp8_fp32_nt(lhs: Scaled, rhs: Scaled, out: Tensor) -> None:
    """out += lhs @ rhs.T in f32.

    Args:
        lhs: FP8 [m, k] and factors [m, ceil(k / 128)]. The factors may be transposed.
        rhs: FP8 [n, k] and factors [n, ceil(k / 128)]. The factors may be transposed.
        out: f32 [m, n].
    """
    a, b = _by_row(lhs, "lhs"), _by_row(rhs, "rhs")
    with _in_older_words():
        fp8_gemm_nt(a, b, out, out, recipe=(1, 1, 128))


def k_grouped_wgrad_gemm_fp8_fp8_fp32_nt(lhs: Scaled, rhs: Scaled, out: Tensor, batch_sizes: Sequence[int]) -> None:
    """wgrad_gemm_fp8_fp8_fp32_nt for each group. All groups are checked before the first one runs.

    Args:
        lhs: flat FP8 values, group after group. Factors are [k blocks of all groups, m].
        rhs: flat FP8 values, group after group. Factors are [k blocks of all groups, n].
        out: f32 [groups, m, n].
        batch_sizes: the k of each group.
    """
    (a, sfa), (b, sfb) = pair("lhs", lhs), pair("rhs", rhs)
    sizes = whole_numbers("batch_sizes", batch_sizes)
    with _in_older_words():
        _operators.k_grouped_fp8_gemm(a, sfa.mT, b, sfb.mT, out, out, sizes, None, True, (1, 1, 128))
