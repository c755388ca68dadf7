"""`fp8_fp4_gemm_nt` and the m-grouped nt products with packed weights as b, outside of torch's operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from tilewright._multiply import blocks_gemm, gemm, grouped_gemm
from tilewright._packing import PackedWeights
from tilewright.deep_gemm._checks import pair, refuse, shape_text
from tilewright.deep_gemm._fp8 import check_layout
from tilewright.deep_gemm._operands import call, granularity_next_to_packed, operand_of_pair
from tilewright.deep_gemm._settings import get_mk_alignment_for_contiguous_layout

Ints = Sequence[int] | None


def is_packed(b: Any) -> bool:
    return isinstance(b, PackedWeights)


def _activations(a: Any, recipe: Ints, of_a: Ints) -> Any:
    """The operand a. recipe and recipe_a give its granularity; packed weights b have their own."""
    values, factors = pair("a", a)
    return operand_of_pair("a", values, factors, granularity_next_to_packed(recipe, of_a))


def dense(a: Any, b: PackedWeights, d: Tensor, c: Tensor | None, recipe: Ints, of_a: Ints) -> None:
    call(gemm, _activations(a, recipe, of_a), b, out=d, c=c)


def m_grouped_contiguous(
    a: Any, b: PackedWeights, d: Tensor, layout: Tensor, psum: bool, expected_m: int, recipe: Ints, of_a: Ints
) -> None:
    if len(b.shape) != 3:
        refuse("b", f"packed weights {list(b.shape)}", "packed weights [groups, n, k]")
    alignment = get_mk_alignment_for_contiguous_layout()
    activations = _activations(a, recipe, of_a)
    if psum:
        check_layout("grouped_layout", layout, b.shape[0], "the end row of each group")
        call(grouped_gemm, activations, b, aligned_offsets=layout, alignment=alignment, expected_m=expected_m, out=d)
        return
    check_layout("grouped_layout", layout, d.shape[0], "the group of each row")
    call(blocks_gemm, activations, b, indices=layout, alignment=alignment, word="grouped_layout", out=d)


def m_grouped_masked(
    a: Any, b: PackedWeights, d: Tensor, masked_m: Tensor, expected_m: int, recipe: Ints, of_a: Ints
) -> None:
    if len(b.shape) != 3 or d.dim() != 3:
        if len(b.shape) != 3:
            refuse("b", f"packed weights {list(b.shape)}", "packed weights [groups, n, k]")
        refuse("d", shape_text(d), "[groups, m, n]")
    check_layout("masked_m", masked_m, b.shape[0], "the valid rows of each group")
    call(grouped_gemm, _activations(a, recipe, of_a), b, counts=masked_m, expected_m=expected_m, out=d)
