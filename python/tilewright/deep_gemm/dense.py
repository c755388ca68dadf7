"""Dense products. They write into d and return nothing; c, added in float32, may be d itself.

FP8: a = (e4m3 [m, k], float32 [m, ceil(k / 128)]), b = (e4m3 [n, k], float32 [ceil(n / 128), ceil(k / 128)], or
[n, ceil(k / 128)] with recipe=(1, 1, 128)), d [m, n] of bf16 or f32. The nn, tn and tt forms take b, both, or a as
the transposed views. A GPU reads one operand along its rows, with a pitch of a multiple of 16 bytes; a call in which
both are so, as in tn, copies the smaller one along k first, and any whose rows have another pitch, into memory of
torch's allocator. compiled_dims (letters of m, n, k)
and disable_ue8m0_cast (a bool) are checked and have no effect; alpha, of DeepGEMM 2.8.0, is None or 1 on Hopper.

All raise InvalidCall, a ValueError, before anything is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from tilewright.deep_gemm import _operators, _packed
from tilewright.deep_gemm._checks import check_alpha, check_unused, pair

Scaled = tuple[Tensor, Tensor]
Recipe = Sequence[int] | None


def fp8_fp4_gemm_nt(
    a: Scaled, b: Scaled, d: Tensor, c: Tensor | None = None,
    recipe: Recipe = None, recipe_a: Recipe = None, recipe_b: Recipe = None,
    compiled_dims: str = "nk", disable_ue8m0_cast: bool = False, alpha: float | None = None,
) -> None:  # fmt: skip
    """d = c + a @ b.T. b may be `tilewright.PackedWeights`; recipe_b is not read then.

    b of FP4 (two to a byte, recipe_b=(1, 32)) next to FP8, or its factors, is packed at each call on a GPU; PackedWeights are
    faster.
    """
    if _packed.is_packed(b):
        check_unused(compiled_dims, disable_ue8m0_cast)
        if alpha is not None:
            check_alpha(alpha)
        return _packed.dense(a, b, d, c, recipe, recipe_a)
    (values_a, sf_a), (values_b, sf_b) = pair("a", a), pair("b", b)
    check_unused(compiled_dims, disable_ue8m0_cast)
    if alpha is not None:
        check_alpha(alpha)
    _operators.fp8_gemm(values_a, sf_a, values_b, sf_b, d, c, recipe, recipe_a, recipe_b)


def fp8_fp4_gemm_nn(
    a: Scaled, b: Scaled, d: Tensor, c: Tensor | None = None,
    recipe: Recipe = None, recipe_a: Recipe = None, recipe_b: Recipe = None,
    compiled_dims: str = "nk", disable_ue8m0_cast: bool = False, alpha: float | None = None,
) -> None:  # fmt: skip
    """d = c + a @ b, with b [k, n] and its factors [ceil(k / 128), ceil(n / 128)]."""
    (values_a, sf_a), (values_b, sf_b) = pair("a", a), pair("b", b)
    check_unused(compiled_dims, disable_ue8m0_cast)
    if alpha is not None:
        check_alpha(alpha)
    _operators.fp8_gemm(values_a, sf_a, values_b.T, sf_b.T, d, c, recipe, recipe_a, recipe_b)


def fp8_fp4_gemm_tn(
    a: Scaled, b: Scaled, d: Tensor, c: Tensor | None = None,
    recipe: Recipe = None, recipe_a: Recipe = None, recipe_b: Recipe = None,
    compiled_dims: str = "mn", disable_ue8m0_cast: bool = False, alpha: float | None = None,
) -> None:  # fmt: skip
    """d = c + a.T @ b, with a [k, m], b [k, n] and their factors transposed likewise."""
    (values_a, sf_a), (values_b, sf_b) = pair("a", a), pair("b", b)
    check_unused(compiled_dims, disable_ue8m0_cast)
    if alpha is not None:
        check_alpha(alpha)
    _operators.fp8_gemm(values_a.T, sf_a.T, values_b.T, sf_b.T, d, c, recipe, recipe_a, recipe_b)


def fp8_fp4_gemm_tt(
    a: Scaled, b: Scaled, d: Tensor, c: Tensor | None = None,
    recipe: Recipe = None, recipe_a: Recipe = None, recipe_b: Recipe = None,
    compiled_dims: str = "mn", disable_ue8m0_cast: bool = False, alpha: float | None = None,
) -> None:  # fmt: skip
    """d = c + a.T @ b.T, with a [k, m] and its factors transposed likewise."""
    (values_a, sf_a), (values_b, sf_b) = pair("a", a), pair("b", b)
    check_unused(compiled_dims, disable_ue8m0_cast)
    if alpha is not None:
        check_alpha(alpha)
    _operators.fp8_gemm(values_a.T, sf_a.T, values_b, sf_b, d, c, recipe, recipe_a, recipe_b)


def fp8_gemm_nt_skip_head_mid(
    a: Scaled, b: Scaled, d: Tensor, head_splits: tuple[int, int, int], recipe: Recipe = None,
    compiled_dims: str = "nk", disable_ue8m0_cast: bool = False,
) -> None:  # fmt: skip
    """d = a @ b.T, whose left + right columns of each head are in d as left, mid and right: mid is not written."""
    check_unused(compiled_dims, disable_ue8m0_cast)
    _operators.fp8_gemm_skip_head_mid(*pair("a", a), *pair("b", b), d, head_splits, recipe)


def bf16_gemm_nt(
    a: Tensor, b: Tensor, d: Tensor, c: Tensor | None = None, compiled_dims: str = "nk", alpha: float | None = None
) -> None:
    """d = c + a @ b.T in bf16 with float32 sums; d of bf16 or f32."""
    check_unused(compiled_dims)
    if alpha is not None:
        check_alpha(alpha)
    _operators.bf16_gemm(a, b, d, c)


def bf16_gemm_nn(
    a: Tensor, b: Tensor, d: Tensor, c: Tensor | None = None, compiled_dims: str = "nk", alpha: float | None = None
) -> None:
    """d = c + a @ b."""
    check_unused(compiled_dims)
    if alpha is not None:
        check_alpha(alpha)
    _operators.bf16_gemm(a, b.T, d, c)


def bf16_gemm_tn(
    a: Tensor, b: Tensor, d: Tensor, c: Tensor | None = None, compiled_dims: str = "mn", alpha: float | None = None
) -> None:
    """d = c + a.T @ b."""
    check_unused(compiled_dims)
    if alpha is not None:
        check_alpha(alpha)
    _operators.bf16_gemm(a.T, b.T, d, c)


def bf16_gemm_tt(
    a: Tensor, b: Tensor, d: Tensor, c: Tensor | None = None, compiled_dims: str = "mn", alpha: float | None = None
) -> None:
    """d = c + a.T @ b.T."""
    check_unused(compiled_dims)
    if alpha is not None:
        check_alpha(alpha)
    _operators.bf16_gemm(a.T, b, d, c)


def cublaslt_gemm_nt(a: Tensor, b: Tensor, d: Tensor, c: Tensor | None = None) -> None:
    """d = c + a @ b.T of bf16 or e4m3 without factors; on a GPU by cuBLASLt, through torch."""
    _operators.cublaslt_gemm(a, b, d, c)


def cublaslt_gemm_nn(a: Tensor, b: Tensor, d: Tensor, c: Tensor | None = None) -> None:
    """d = c + a @ b."""
    _operators.cublaslt_gemm(a, b.T, d, c)


def cublaslt_gemm_tn(a: Tensor, b: Tensor, d: Tensor, c: Tensor | None = None) -> None:
    """d = c + a.T @ b."""
    _operators.cublaslt_gemm(a.T, b.T, d, c)


def cublaslt_gemm_tt(a: Tensor, b: Tensor, d: Tensor, c: Tensor | None = None) -> None:
    """d = c + a.T @ b.T."""
    _operators.cublaslt_gemm(a.T, b, d, c)


def einsum(expr: str, a: Tensor, b: Tensor, d: Tensor, c: Tensor | None = None, use_cublaslt: bool = False) -> None:
    """bf16: 'bmk,bnk->mn' (d = c + sum over b), 'bhr,hdr->bhd', 'bhd,hdr->bhr'."""
    _operators.einsum(expr, a, b, d, c, use_cublaslt)


def fp8_einsum(
    expr: str, a: Scaled, b: Scaled, d: Tensor, c: Tensor | None = None, recipe: Sequence[int] = (1, 128, 128)
) -> None:
    """FP8: 'bhr,hdr->bhd', 'bhd,hdr->bhr' and, with recipe=(1, 1, 128), 'bhd,bhr->hdr'."""
    _operators.fp8_einsum(expr, *pair("a", a), *pair("b", b), d, c, recipe)


fp4_gemm_nt = fp8_fp4_gemm_nt
fp8_gemm_nt = fp8_fp4_gemm_nt
fp8_gemm_nn = fp8_fp4_gemm_nn
fp8_gemm_tn = fp8_fp4_gemm_tn
fp8_gemm_tt = fp8_fp4_gemm_tt
