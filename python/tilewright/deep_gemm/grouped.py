"""Grouped products: m-grouped (rows of a times the b of their group) and k-grouped (one product per range of k).

FP8 operands are (values, scale factors), as in `dense`. The first dimension of b is the group. The functions write into d and
return None. Group sizes may be on a GPU; the host does not read them. compiled_dims, disable_ue8m0_cast and
ensure_zero_padding are checked and have no effect.

A wrong call raises InvalidCall, a ValueError, and writes nothing. k-grouped products check all groups before the first one
runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from tilewright.deep_gemm import _operators, _packed
from tilewright.deep_gemm._checks import check_unused, pair, refuse, whole_numbers
from tilewright.deep_gemm.dense import Recipe, Scaled


def _layout(grouped_layout: Tensor | None, older: Tensor | None) -> Tensor:
    """grouped_layout, or m_indices, its name up to DeepGEMM 2.1."""
    layout = grouped_layout if older is None else older
    if layout is None:
        refuse("grouped_layout", "nothing", "the group of each row, or with use_psum_layout the end of each group")
    return layout


def m_grouped_fp8_fp4_gemm_nt_contiguous(
    a: Scaled, b: Scaled, d: Tensor, grouped_layout: Tensor | None = None,
    recipe: Recipe = None, recipe_a: Recipe = None, recipe_b: Recipe = None,
    compiled_dims: str = "nk", disable_ue8m0_cast: bool = False,
    use_psum_layout: bool = False, ensure_zero_padding: bool = True, expected_m_for_psum_layout: int | None = None,
    *, m_indices: Tensor | None = None,
) -> None:  # fmt: skip
    """Multiplies the rows of a by the b of their group, for groups that follow each other in a.

    Groups begin at multiples of the alignment (128, or the value of `set_mk_alignment_for_contiguous_layout`).

    Args:
        a: FP8 [m, k] and factors.
        b: FP8 [groups, n, k] and factors. Or `tilewright.PackedWeights`, with which recipe_b is ignored. Or FP4, two values
            per byte. On a GPU each call packs unpacked FP4 weights, or their factors.
        d: bf16 [m, n].
        grouped_layout: int32 [m], the group of each row. Rows of -1 belong to the group of the first row of their aligned
            block. A block whose first row is -1 is skipped. A block with rows of two groups is an error: of this call on the
            CPU, of a later call on a GPU. With use_psum_layout int32 [groups], the end row of each group.
        use_psum_layout: whether grouped_layout has the ends of groups. The next group starts at the next multiple of the
            alignment.
        expected_m_for_psum_layout: the usual number of rows per group, a hint. Allowed only with use_psum_layout.
        m_indices: grouped_layout, by its name up to DeepGEMM 2.1.
    """
    check_unused(compiled_dims, disable_ue8m0_cast, use_psum_layout, ensure_zero_padding)
    if _packed.is_packed(b):
        layout = _layout(grouped_layout, m_indices)
        expected_m = expected_m_for_psum_layout or 0
        return _packed.m_grouped_contiguous(a, b, d, layout, use_psum_layout, expected_m, recipe, recipe_a)
    _operators.m_grouped_fp8_gemm_contiguous(
        *pair("a", a), *pair("b", b), d, _layout(grouped_layout, m_indices), use_psum_layout,
        expected_m_for_psum_layout or 0, recipe, recipe_a, recipe_b,
    )  # fmt: skip


def m_grouped_fp8_fp4_gemm_nn_contiguous(
    a: Scaled, b: Scaled, d: Tensor, grouped_layout: Tensor | None = None,
    recipe: Recipe = None, recipe_a: Recipe = None, recipe_b: Recipe = None,
    compiled_dims: str = "nk", disable_ue8m0_cast: bool = False,
    use_psum_layout: bool = False, ensure_zero_padding: bool = True,
    *, m_indices: Tensor | None = None,
) -> None:  # fmt: skip
    """m_grouped_fp8_fp4_gemm_nt_contiguous with b [groups, k, n] and its factors transposed too."""
    check_unused(compiled_dims, disable_ue8m0_cast, use_psum_layout, ensure_zero_padding)
    values, factors = pair("b", b)
    _operators.m_grouped_fp8_gemm_contiguous(
        *pair("a", a), values.mT, factors.mT, d, _layout(grouped_layout, m_indices), use_psum_layout, 0,
        recipe, recipe_a, recipe_b,
    )  # fmt: skip


def m_grouped_fp8_fp4_gemm_nt_masked(
    a: Scaled, b: Scaled, d: Tensor, masked_m: Tensor, expected_m: int,
    recipe: Recipe = None, recipe_a: Recipe = None, recipe_b: Recipe = None,
    compiled_dims: str = "nk", disable_ue8m0_cast: bool = False,
) -> None:  # fmt: skip
    """Multiplies the first masked_m[g] rows of each group of a by the b of the group. Other rows of d are not written.

    Args:
        a: FP8 [groups, max_m, k] and factors.
        b: FP8 [groups, n, k] and factors. Or `tilewright.PackedWeights`, with which recipe_b is ignored.
        d: bf16 [groups, max_m, n].
        masked_m: int32 [groups], the valid rows of each group. On a GPU the host does not read them.
        expected_m: the usual number of rows per group, at least 1. It is a hint.
    """
    check_unused(compiled_dims, disable_ue8m0_cast)
    if _packed.is_packed(b):
        return _packed.m_grouped_masked(a, b, d, masked_m, expected_m, recipe, recipe_a)
    _operators.m_grouped_fp8_gemm_masked(
        *pair("a", a), *pair("b", b), d, masked_m, expected_m, recipe, recipe_a, recipe_b
    )


def m_grouped_bf16_gemm_nt_contiguous(
    a: Tensor, b: Tensor, d: Tensor, grouped_layout: Tensor | None = None, compiled_dims: str = "nk",
    use_psum_layout: bool = False, ensure_zero_padding: bool = True, expected_m_for_psum_layout: int | None = None,
    *, m_indices: Tensor | None = None,
) -> None:  # fmt: skip
    """m_grouped_fp8_fp4_gemm_nt_contiguous for bf16. Groups may be in any order."""
    check_unused(compiled_dims, False, use_psum_layout, ensure_zero_padding)
    _operators.m_grouped_bf16_gemm_contiguous(
        a, b, d, _layout(grouped_layout, m_indices), use_psum_layout, expected_m_for_psum_layout or 0
    )


def m_grouped_bf16_gemm_nn_contiguous(
    a: Tensor, b: Tensor, d: Tensor, grouped_layout: Tensor | None = None, compiled_dims: str = "nk",
    use_psum_layout: bool = False, ensure_zero_padding: bool = True,
    *, m_indices: Tensor | None = None,
) -> None:  # fmt: skip
    """m_grouped_bf16_gemm_nt_contiguous with b [groups, k, n]."""
    check_unused(compiled_dims, False, use_psum_layout, ensure_zero_padding)
    _operators.m_grouped_bf16_gemm_contiguous(a, b.mT, d, _layout(grouped_layout, m_indices), use_psum_layout, 0)


def m_grouped_bf16_gemm_nt_masked(
    a: Tensor, b: Tensor, d: Tensor, masked_m: Tensor, expected_m: int, compiled_dims: str = "nk"
) -> None:
    """m_grouped_fp8_fp4_gemm_nt_masked for bf16."""
    check_unused(compiled_dims)
    _operators.m_grouped_bf16_gemm_masked(a, b, d, masked_m, expected_m)


def _ks(function: str, ks_cpu: Sequence[int] | None, older: Sequence[int] | None, psum: bool) -> list[int] | None:
    """ks_cpu as integers, or ks, its older name; None if neither has values."""
    if psum:
        raise NotImplementedError(f"{function}: use_psum_layout=True is not supported on Hopper. Pass ks_cpu.")
    given = ks_cpu if older is None else older
    return None if given is None or len(given) == 0 else whole_numbers("ks_cpu", given)


def k_grouped_fp8_gemm_nt_contiguous(
    a: Scaled, b: Scaled, d: Tensor, ks_cpu: Sequence[int] | None = None, grouped_layout: Tensor | None = None,
    c: Tensor | None = None, recipe: Sequence[int] = (1, 1, 128), compiled_dims: str = "mn",
    use_psum_layout: bool = False,
    *, ks: Sequence[int] | None = None, ks_tensor: Tensor | None = None,
) -> None:  # fmt: skip
    """d[g] = c[g] + a_g @ b_g.T in f32, for K-major groups in flat buffers.

    On a GPU a call with grouped_layout is one product of all groups. A call with only ks_cpu is one product per group, or
    one of all groups if a k is not a multiple of 16.

    Args:
        a: flat FP8 values, a_g [m, k of g] of one group after another. Factors are float32 [m, sum of ceil(k / 128)], or int32
            [m, sum of ceil(k / 512)] with four packed UE8M0.
        b: the same with n in place of m. Values and factors are on the device of d.
        d: f32 [groups, m, n].
        ks_cpu: the k of each group, at least 0. Multiples of 16 are faster on a GPU. May be omitted with grouped_layout,
            except with packed factors on a GPU.
        grouped_layout: int32 [groups], the k of each group on the device of a. May be omitted with ks_cpu.
        c: like d, or None. May be d itself.
        recipe: granularity of the factors; default (1, 1, 128).
        ks: ks_cpu, by its older name.
        ks_tensor: grouped_layout, by its older name.
    """
    check_unused(compiled_dims, False, use_psum_layout)
    numbers = _ks("k_grouped_fp8_gemm_nt_contiguous", ks_cpu, ks, use_psum_layout)
    layout = grouped_layout if ks_tensor is None else ks_tensor
    _operators.k_grouped_fp8_gemm(*pair("a", a), *pair("b", b), d, c, numbers, layout, True, recipe)


def k_grouped_fp8_gemm_tn_contiguous(
    a: Scaled, b: Scaled, d: Tensor, ks_cpu: Sequence[int] | None = None, grouped_layout: Tensor | None = None,
    c: Tensor | None = None, recipe: Sequence[int] = (1, 1, 128), compiled_dims: str = "mn",
    use_psum_layout: bool = False,
    *, ks: Sequence[int] | None = None, ks_tensor: Tensor | None = None,
) -> None:  # fmt: skip
    """k_grouped_fp8_gemm_nt_contiguous with MN-major groups: a [sum k, m], b [sum k, n].

    Factors are [sum of ceil(k / 128), m] and [.., n]. On a GPU the call first copies both operands to K-major, which the nt
    form does not need.
    """
    check_unused(compiled_dims, False, use_psum_layout)
    numbers = _ks("k_grouped_fp8_gemm_tn_contiguous", ks_cpu, ks, use_psum_layout)
    layout = grouped_layout if ks_tensor is None else ks_tensor
    _operators.k_grouped_fp8_gemm(*pair("a", a), *pair("b", b), d, c, numbers, layout, False, recipe)


def k_grouped_bf16_gemm_tn_contiguous(
    a: Tensor, b: Tensor, d: Tensor, ks_cpu: Sequence[int] | None = None, grouped_layout: Tensor | None = None,
    c: Tensor | None = None, compiled_dims: str = "mn", use_psum_layout: bool = False,
    *, ks: Sequence[int] | None = None, ks_tensor: Tensor | None = None,
) -> None:  # fmt: skip
    """d[g] = c[g] + a_g.T @ b_g in f32, with bf16 a [sum k, m] and b [sum k, n].

    Each k may be any number from 0 on. With ks_cpu a call on a GPU is one product per group. With ks_cpu=None the sizes
    stay on the GPU, in grouped_layout. The call is then torch's grouped product, which rounds each product to bf16 before c
    is added in f32.
    """
    check_unused(compiled_dims, False, use_psum_layout)
    numbers = _ks("k_grouped_bf16_gemm_tn_contiguous", ks_cpu, ks, use_psum_layout)
    layout = grouped_layout if ks_tensor is None else ks_tensor
    _operators.k_grouped_bf16_gemm(a, b, d, c, numbers, layout)


m_grouped_fp4_gemm_nt_contiguous = m_grouped_fp8_fp4_gemm_nt_contiguous
m_grouped_fp4_gemm_nt_masked = m_grouped_fp8_fp4_gemm_nt_masked
m_grouped_fp8_gemm_nt_contiguous = m_grouped_fp8_fp4_gemm_nt_contiguous
m_grouped_fp8_gemm_nn_contiguous = m_grouped_fp8_fp4_gemm_nn_contiguous
m_grouped_fp8_gemm_nt_masked = m_grouped_fp8_fp4_gemm_nt_masked
fp8_m_grouped_gemm_nt_masked = m_grouped_fp8_fp4_gemm_nt_masked
bf16_m_grouped_gemm_nt_masked = m_grouped_bf16_gemm_nt_masked
