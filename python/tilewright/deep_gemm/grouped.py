"""Grouped products: rows of a against the b of their group (m-grouped), and one product for each stretch of k.

FP8 operands are (values, scale factors) as in `dense`; the group is the first dimension of b. They write into d and
return nothing. Group sizes may be on a GPU and are not read by the host. compiled_dims, disable_ue8m0_cast and
ensure_zero_padding are checked and have no effect. All raise InvalidCall, a ValueError, before anything is written;
k-grouped products check every group before the first one runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from tilewright.deep_gemm import _operators, _packed
from tilewright.deep_gemm._checks import check_unused, pair, refuse, whole_numbers
from tilewright.deep_gemm.dense import Recipe, Scaled


def _layout(grouped_layout: Tensor | None, older: Tensor | None) -> Tensor:
    """The argument was called m_indices up to DeepGEMM 2.1."""
    layout = grouped_layout if older is None else older
    if layout is None:
        refuse("grouped_layout", "nothing", "the group of each row or (psum) the end of each group")
    return layout


def m_grouped_fp8_fp4_gemm_nt_contiguous(
    a: Scaled, b: Scaled, d: Tensor, grouped_layout: Tensor | None = None,
    recipe: Recipe = None, recipe_a: Recipe = None, recipe_b: Recipe = None,
    compiled_dims: str = "nk", disable_ue8m0_cast: bool = False,
    use_psum_layout: bool = False, ensure_zero_padding: bool = True, expected_m_for_psum_layout: int | None = None,
    *, m_indices: Tensor | None = None,
) -> None:  # fmt: skip
    """Rows of a [m, k] against b [groups, n, k], to d [m, n] of bf16.

    grouped_layout: int32 [m], the group of each row. Groups begin at multiples of the alignment (128, or what
    `set_mk_alignment_for_contiguous_layout` chose), and rows of -1 in an aligned block are computed with its first row;
    blocks whose first row is -1 are skipped. A block with rows of two groups is an error: here on the CPU, at a later
    call on a GPU. With use_psum_layout int32 [groups]: the row at which each group ends; the next starts at a multiple of
    the alignment. b may be `tilewright.PackedWeights`; recipe_b is not read then. FP4 weights (two to a byte), or their factors,
    are packed at each call on a GPU.
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
    """The same with b [groups, k, n] and its factors transposed in the same way."""
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
    """The first masked_m[g] rows of a [groups, max_m, k] against b [groups, n, k], to d [groups, max_m, n] of bf16.

    expected_m, rows that a group usually has, is a hint. b may be `tilewright.PackedWeights`; recipe_b is not read then.
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
    """As m_grouped_fp8_fp4_gemm_nt_contiguous, of bf16; groups may come in any order."""
    check_unused(compiled_dims, use_psum_layout, ensure_zero_padding)
    _operators.m_grouped_bf16_gemm_contiguous(
        a, b, d, _layout(grouped_layout, m_indices), use_psum_layout, expected_m_for_psum_layout or 0
    )


def m_grouped_bf16_gemm_nn_contiguous(
    a: Tensor, b: Tensor, d: Tensor, grouped_layout: Tensor | None = None, compiled_dims: str = "nk",
    use_psum_layout: bool = False, ensure_zero_padding: bool = True,
    *, m_indices: Tensor | None = None,
) -> None:  # fmt: skip
    """The same with b [groups, k, n]."""
    check_unused(compiled_dims, use_psum_layout, ensure_zero_padding)
    _operators.m_grouped_bf16_gemm_contiguous(a, b.mT, d, _layout(grouped_layout, m_indices), use_psum_layout, 0)


def m_grouped_bf16_gemm_nt_masked(
    a: Tensor, b: Tensor, d: Tensor, masked_m: Tensor, expected_m: int, compiled_dims: str = "nk"
) -> None:
    """As m_grouped_fp8_fp4_gemm_nt_masked, of bf16."""
    check_unused(compiled_dims)
    _operators.m_grouped_bf16_gemm_masked(a, b, d, masked_m, expected_m)


def _ks(function: str, ks_cpu: Sequence[int] | None, older: Sequence[int] | None, psum: bool) -> list[int] | None:
    """On the host, if they were given; the argument was called ks."""
    if psum:
        raise NotImplementedError(f"{function}: use_psum_layout=True is for other GPUs than Hopper; pass ks_cpu")
    given = ks_cpu if older is None else older
    return None if given is None or len(given) == 0 else whole_numbers("ks_cpu", given)


def k_grouped_fp8_gemm_nt_contiguous(
    a: Scaled, b: Scaled, d: Tensor, ks_cpu: Sequence[int] | None = None, grouped_layout: Tensor | None = None,
    c: Tensor | None = None, recipe: Sequence[int] = (1, 1, 128), compiled_dims: str = "mn",
    use_psum_layout: bool = False,
    *, ks: Sequence[int] | None = None, ks_tensor: Tensor | None = None,
) -> None:  # fmt: skip
    """d[g] = c[g] + a_g @ b_g.T in f32, with a_g [m, k of g] and b_g [n, k of g] one after another in flat a[0], b[0].

    Factors: float32 [m, sum of ceil(k / 128)], [n, ...], or int32 with four packed UE8M0, [m, sum of ceil(k / 512)] and
    [n, ...]. Each k may be any number from 0 on; on a GPU multiples of 16 are faster. ks_cpu or grouped_layout may be left
    out. On a GPU all groups are one product if grouped_layout is given, which then has the sizes (packed factors take ks_cpu
    too); with ks_cpu alone each group is a product, unless a k is no multiple of 16.
    """
    check_unused(compiled_dims, use_psum_layout)
    numbers = _ks("k_grouped_fp8_gemm_nt_contiguous", ks_cpu, ks, use_psum_layout)
    layout = grouped_layout if ks_tensor is None else ks_tensor
    _operators.k_grouped_fp8_gemm(*pair("a", a), *pair("b", b), d, c, numbers, layout, True, recipe)


def k_grouped_fp8_gemm_tn_contiguous(
    a: Scaled, b: Scaled, d: Tensor, ks_cpu: Sequence[int] | None = None, grouped_layout: Tensor | None = None,
    c: Tensor | None = None, recipe: Sequence[int] = (1, 1, 128), compiled_dims: str = "mn",
    use_psum_layout: bool = False,
    *, ks: Sequence[int] | None = None, ks_tensor: Tensor | None = None,
) -> None:  # fmt: skip
    """The same with a[0] [sum k, m], b[0] [sum k, n] and factors [sum of ceil(k / 128), m or n].

    On a GPU both are copied along k first, in the same call; the nt form does without.
    """
    check_unused(compiled_dims, use_psum_layout)
    numbers = _ks("k_grouped_fp8_gemm_tn_contiguous", ks_cpu, ks, use_psum_layout)
    layout = grouped_layout if ks_tensor is None else ks_tensor
    _operators.k_grouped_fp8_gemm(*pair("a", a), *pair("b", b), d, c, numbers, layout, False, recipe)


def k_grouped_bf16_gemm_tn_contiguous(
    a: Tensor, b: Tensor, d: Tensor, ks_cpu: Sequence[int] | None = None, grouped_layout: Tensor | None = None,
    c: Tensor | None = None, compiled_dims: str = "mn", use_psum_layout: bool = False,
    *, ks: Sequence[int] | None = None, ks_tensor: Tensor | None = None,
) -> None:  # fmt: skip
    """d[g] = c[g] + a_g.T @ b_g in f32, of bf16 a [sum k, m] and b [sum k, n]. Each k may be any number from 0 on.

    On a GPU each group is a product, with the sizes of ks_cpu. With ks_cpu=None the sizes stay on the GPU, in
    grouped_layout: torch's grouped product, which rounds each product to bf16 before c is added in f32.
    """
    check_unused(compiled_dims, use_psum_layout)
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
