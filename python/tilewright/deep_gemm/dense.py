"""Dense products. They write into d and return None. c is added in float32, and may be d itself.

`fp8_fp4_gemm_nt` describes the arguments. In the nn, tn and tt forms b, both, or a are the transposed views. Factors are
transposed with their values.

A GPU reads one MN-major operand in place, if its row pitch is a multiple of 16 bytes. A call with two MN-major operands, as
in tn, first copies the smaller one to K-major. An operand with another pitch is copied too. The copies use torch's allocator.

A wrong call raises InvalidCall, a ValueError, and writes nothing.
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
    """d = c + a @ b.T, for FP8 or FP4 operands with scale factors.

    Args:
        a: FP8 [m, k] and factors. They are float32 [m, ceil(k / 128)], or int32 [m, ceil(k / 512)] with four packed UE8M0.
        b: FP8 [n, k] and factors [ceil(n / 128), ceil(k / 128)]. With recipe=(1, 1, 128) factors are [n, ceil(k / 128)]. Or
            `tilewright.PackedWeights`, with which recipe_b is ignored. Or FP4, two values per byte, with recipe_b=(1, 32). On
            a GPU each call packs unpacked FP4 weights, or their factors, so that PackedWeights are faster.
        d: [m, n] of bf16 or f32.
        c: like d, or None (default). It is added in float32, and may be d itself.
        recipe: granularity (gran_m, gran_n, gran_k) of the factors. Default: (1, 128, 128), or (1, 1, 128) if b has int32
            factors.
        recipe_a: granularity (gran_m, gran_k) of a. Only together with recipe_b and without recipe.
        recipe_b: granularity (gran_n, gran_k) of b.
        compiled_dims: letters from m, n and k. Without effect.
        disable_ue8m0_cast: True or False. Without effect.
        alpha: None or 1 on Hopper. DeepGEMM 2.8.0 has it.

    Raises:
        InvalidCall: a wrong call, with each wrong operand. Nothing is written then.
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
    """d = c + a @ b, with b [k, n] and its factors [ceil(k / 128), ceil(n / 128)]. See `fp8_fp4_gemm_nt`."""
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
    """d = c + a.T @ b, with a [k, m], b [k, n] and their factors transposed too. See `fp8_fp4_gemm_nt`."""
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
    """d = c + a.T @ b.T, with a [k, m], b [n, k] and the factors of a transposed too. See `fp8_fp4_gemm_nt`."""
    (values_a, sf_a), (values_b, sf_b) = pair("a", a), pair("b", b)
    check_unused(compiled_dims, disable_ue8m0_cast)
    if alpha is not None:
        check_alpha(alpha)
    _operators.fp8_gemm(values_a.T, sf_a.T, values_b, sf_b, d, c, recipe, recipe_a, recipe_b)


def fp8_gemm_nt_skip_head_mid(
    a: Scaled, b: Scaled, d: Tensor, head_splits: tuple[int, int, int], recipe: Recipe = None,
    compiled_dims: str = "nk", disable_ue8m0_cast: bool = False,
) -> None:  # fmt: skip
    """d = a @ b.T, with a gap in each head of d.

    Args:
        head_splits: (left, mid, right). Each head has left + right columns in b and left + mid + right columns in d. The
            mid columns are not written.
    """
    check_unused(compiled_dims, disable_ue8m0_cast)
    _operators.fp8_gemm_skip_head_mid(*pair("a", a), *pair("b", b), d, head_splits, recipe)


def bf16_gemm_nt(
    a: Tensor, b: Tensor, d: Tensor, c: Tensor | None = None, compiled_dims: str = "nk", alpha: float | None = None
) -> None:
    """d = c + a @ b.T, with bf16 a [m, k] and b [n, k]. Sums are float32; d [m, n] is bf16 or f32."""
    check_unused(compiled_dims)
    if alpha is not None:
        check_alpha(alpha)
    _operators.bf16_gemm(a, b, d, c)


def bf16_gemm_nn(
    a: Tensor, b: Tensor, d: Tensor, c: Tensor | None = None, compiled_dims: str = "nk", alpha: float | None = None
) -> None:
    """d = c + a @ b, with bf16 a [m, k] and b [k, n]."""
    check_unused(compiled_dims)
    if alpha is not None:
        check_alpha(alpha)
    _operators.bf16_gemm(a, b.T, d, c)


def bf16_gemm_tn(
    a: Tensor, b: Tensor, d: Tensor, c: Tensor | None = None, compiled_dims: str = "mn", alpha: float | None = None
) -> None:
    """d = c + a.T @ b, with bf16 a [k, m] and b [k, n]."""
    check_unused(compiled_dims)
    if alpha is not None:
        check_alpha(alpha)
    _operators.bf16_gemm(a.T, b.T, d, c)


def bf16_gemm_tt(
    a: Tensor, b: Tensor, d: Tensor, c: Tensor | None = None, compiled_dims: str = "mn", alpha: float | None = None
) -> None:
    """d = c + a.T @ b.T, with bf16 a [k, m] and b [n, k]."""
    check_unused(compiled_dims)
    if alpha is not None:
        check_alpha(alpha)
    _operators.bf16_gemm(a.T, b, d, c)


def cublaslt_gemm_nt(a: Tensor, b: Tensor, d: Tensor, c: Tensor | None = None) -> None:
    """d = c + a @ b.T, with bf16 or e4m3 without factors. On a GPU torch calls cuBLASLt."""
    _operators.cublaslt_gemm(a, b, d, c)


def cublaslt_gemm_nn(a: Tensor, b: Tensor, d: Tensor, c: Tensor | None = None) -> None:
    """d = c + a @ b, with a [m, k] and b [k, n]."""
    _operators.cublaslt_gemm(a, b.T, d, c)


def cublaslt_gemm_tn(a: Tensor, b: Tensor, d: Tensor, c: Tensor | None = None) -> None:
    """d = c + a.T @ b, with a [k, m] and b [k, n]."""
    _operators.cublaslt_gemm(a.T, b.T, d, c)


def cublaslt_gemm_tt(a: Tensor, b: Tensor, d: Tensor, c: Tensor | None = None) -> None:
    """d = c + a.T @ b.T, with a [k, m] and b [n, k]."""
    _operators.cublaslt_gemm(a.T, b, d, c)


def einsum(expr: str, a: Tensor, b: Tensor, d: Tensor, c: Tensor | None = None, use_cublaslt: bool = False) -> None:
    """An einsum of bf16 a and b.

    Args:
        expr: 'bmk,bnk->mn', 'bhr,hdr->bhd' or 'bhd,hdr->bhr'. The first one is d = c + the sum over b.
        d: bf16, or f32 with 'bmk,bnk->mn'.
        c: like d. Allowed only with 'bmk,bnk->mn'.
    """
    _operators.einsum(expr, a, b, d, c, use_cublaslt)


def fp8_einsum(
    expr: str, a: Scaled, b: Scaled, d: Tensor, c: Tensor | None = None, recipe: Sequence[int] = (1, 128, 128)
) -> None:
    """An einsum of FP8 a and b.

    Args:
        expr: 'bhr,hdr->bhd', 'bhd,hdr->bhr', or with recipe=(1, 1, 128) 'bhd,bhr->hdr'.
    """
    _operators.fp8_einsum(expr, *pair("a", a), *pair("b", b), d, c, recipe)


fp4_gemm_nt = fp8_fp4_gemm_nt
fp8_gemm_nt = fp8_fp4_gemm_nt
fp8_gemm_nn = fp8_fp4_gemm_nn
fp8_gemm_tn = fp8_fp4_gemm_tn
fp8_gemm_tt = fp8_fp4_gemm_tt
