"""Operands of the library from (values, scale factors) and DeepGEMM's recipes. Errors use the names of DeepGEMM's arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tilewright import _core
from tilewright._core import Finding
from tilewright._errors import InvalidCall
from tilewright._multiply import validate
from tilewright.deep_gemm._checks import refuse, shape_text, whole_numbers
from tilewright.deep_gemm._settings import call_options
from tilewright.deep_gemm.utils._codes import as_bytes, exponents, no_powers_of_two
from tilewright.deep_gemm.utils._fp4 import FP4_DTYPES, FP4_WORDS
from tilewright.deep_gemm.utils.layout import get_mn_major_tma_aligned_tensor

Granularity = tuple[int, int]
"""The rows and the k-elements that share one scale factor."""

Recipes = tuple[Sequence[int] | None, Sequence[int] | None, Sequence[int] | None]
"""recipe, recipe_a and recipe_b of DeepGEMM's functions."""

_RECIPES = {(1, 128): "1x128", (128, 128): "128x128", (1, 32): "1x32"}
_FORMATS = {torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2"} | dict.fromkeys(FP4_DTYPES, "e2m1")
# Operands that the library accepts without conversion.
_AS_GIVEN = {
    (values, torch.float32, granularity): f"{_FORMATS[values]}.{_RECIPES[granularity]}"
    for values in (torch.float8_e4m3fn, torch.float8_e5m2)
    for granularity in ((1, 128), (128, 128))
}


def _numbers(name: str, given: Sequence[int] | None, length: int) -> tuple[int, ...] | None:
    if given is None:
        return None
    if len(given) != length:
        what = "(gran_m, gran_n, gran_k)" if length == 3 else "(gran_mn, gran_k)"
        refuse(name, tuple(given), what, "Pass recipe for both operands, or recipe_a and recipe_b.")
    return tuple(whole_numbers(name, given))


def _granularities(sfb: torch.Tensor, recipes: Recipes) -> tuple[Granularity, Granularity]:
    """The granularities of a and b. Default recipe: (1, 128, 128), or (1, 1, 128) if b has packed UE8M0 factors."""
    if recipes == (None, None, None):
        return (1, 128), (1 if sfb.dtype == torch.int32 else 128, 128)
    both = _numbers("recipe", recipes[0], 3)
    of_a, of_b = _numbers("recipe_a", recipes[1], 2), _numbers("recipe_b", recipes[2], 2)
    if (of_a is None) != (of_b is None):
        refuse("recipe_a" if of_a is None else "recipe_b", None, "recipe_a and recipe_b, or neither")
    if of_a is not None and of_b is not None:
        if both is not None:
            refuse("recipe", both, "None with recipe_a and recipe_b", "Omit recipe, or the other two.")
        return (of_a[0], of_a[1]), (of_b[0], of_b[1])
    assert both is not None
    return (both[0], both[2]), (both[1], both[2])


def _unpacked(name: str, sf: torch.Tensor, granularity: Granularity, blocks: int) -> torch.Tensor:
    """UE8M0 factors, one per byte, from int32 with four each, the first in the lowest byte."""
    if granularity[0] != 1:
        refuse(f"{name}[1]", "packed UE8M0 (int32)", f"float32, because a factor covers {granularity[0]} rows")
    columns = -(-blocks // 4)
    if sf.dim() == 0 or sf.shape[-1] != columns:
        expected = f"{columns} columns of packed UE8M0 (int32) for {blocks} scale factors per row"
        refuse(f"{name}[1]", shape_text(sf), expected, "Pass float32 factors as float32, not viewed as int32.")
    return as_bytes(sf)[..., :blocks]


def _as_ue8m0(name: str, sf: torch.Tensor) -> torch.Tensor:
    """Powers of two as UE8M0. Other numbers are refused on the CPU and become NaN on a GPU."""
    if not sf.is_cuda and bool(no_powers_of_two(sf).any()):
        expected = "powers of two, because 32 elements share a factor"
        refuse(f"{name}[1]", "float32 factors that are not powers of two", expected, "Cast with use_ue8m0=True.")
    return exponents(sf)


def _scales(name: str, sf: torch.Tensor, granularity: Granularity, k: int, packed_values: bool) -> torch.Tensor:
    """Scale factors in a form that the library accepts."""
    blocks = -(-k // granularity[1])
    if sf.dtype == torch.int32:
        sf = _unpacked(name, sf, granularity, blocks)
    if packed_values and granularity[1] == 128:
        sf = sf.repeat_interleave(4, -1)[..., : -(-k // 32)]
    if sf.dtype == torch.float32 and (packed_values or granularity[1] == 32):
        return _as_ue8m0(name, sf)
    return sf


Pair = tuple[_core.Operand, _core.Operand]
Groups = dict[str, Any]


def operands(
    a: torch.Tensor, sfa: torch.Tensor, b: torch.Tensor, sfb: torch.Tensor, recipes: Recipes,
    d: torch.Tensor, c: torch.Tensor | None = None, groups: Groups | None = None,
) -> Pair:  # fmt: skip
    """The operands of a product into d, from values [.., rows, k] and their factors.

    Factors that the kernels cannot load by TMA are copied if the planner says that a copy is faster (`scales_to_copy`).

    Args:
        groups: the grouping, as `tilewright._multiply` passes it to C++; None for a dense product.
    """
    of_a, of_b = _granularities(sfb, recipes)
    pair = _operand("a", a, sfa, of_a), _operand("b", b, sfb, of_b)
    if of_a == of_b == (1, 128) and sfa.is_cuda and sfa.dtype == sfb.dtype == torch.float32:
        copy_a, copy_b = scales_to_copy(pair, d, c, groups)
        if copy_a or copy_b:
            return operands_in_place(a, mn_major_if(copy_a, sfa), b, mn_major_if(copy_b, sfb), recipes)
    return pair


def operands_in_place(a: torch.Tensor, sfa: torch.Tensor, b: torch.Tensor, sfb: torch.Tensor, recipes: Recipes) -> Pair:
    """The operands, without copies of factors."""
    of_a, of_b = _granularities(sfb, recipes)
    return _operand("a", a, sfa, of_a), _operand("b", b, sfb, of_b)


def granularity_next_to_packed(recipe: Sequence[int] | None, of_a: Sequence[int] | None) -> Granularity:
    """The granularity of a if b is packed: recipe_a, or that of a in recipe, or (1, 128)."""
    both, own = _numbers("recipe", recipe, 3), _numbers("recipe_a", of_a, 2)
    if own is not None:
        return (own[0], own[1])
    return (1, 128) if both is None else (both[0], both[2])


def operand_of_pair(name: str, values: torch.Tensor, sf: torch.Tensor, granularity: Granularity) -> _core.Operand:
    """The operand of values and their factors."""
    return _operand(name, values, sf, granularity)


def scales_to_copy(
    pair: Pair, d: torch.Tensor, c: torch.Tensor | None, groups: Groups | None = None, layout: str = "nt"
) -> tuple[bool, bool]:
    """Whether to copy the factors of a, and of b. The planner decides (`scales_to_copy` in include/tilewright/plan.h)."""
    return _core.scales_to_copy(*pair, groups=groups or {}, options={"out": d, "c": c, "layout": layout})


def mn_major_if(copied: bool, sf: torch.Tensor) -> torch.Tensor:
    return get_mn_major_tma_aligned_tensor(sf) if copied else sf


def _operand(name: str, values: torch.Tensor, sf: torch.Tensor, granularity: Granularity) -> _core.Operand:
    recipe = _AS_GIVEN.get((values.dtype, sf.dtype, granularity))
    if recipe is None:
        values, sf, recipe = _converted(name, values, sf, granularity)
    try:
        return _core.Operand(values, recipe, sf, None)
    except InvalidCall as error:
        raise _in_our_words(error.findings, name, has_factors=True) from None


def k_grouped_operand(
    name: str, values: torch.Tensor, sf: torch.Tensor, granularity: Granularity, ks: Sequence[int],
    k_first: bool = False,
) -> _core.Operand:  # fmt: skip
    """The operand of a k-grouped product, from values [rows, sum k] and factors.

    Packed factors are unpacked, because each group begins a new int32.

    Args:
        ks: the k of each group.
        k_first: whether the values are [sum k, rows], as in layout tn.
    """
    if (values.dtype, sf.dtype, granularity) in _AS_GIVEN or not ks:
        return _operand(name, values, sf, granularity)
    share = granularity[1] * (4 if sf.dtype == torch.int32 else 1)
    parts, recipe, start, column = [], "", 0, 0
    for k in ks:
        width = -(-k // share)
        group = values.narrow(0 if k_first else 1, start, k), sf.narrow(1, column, width)
        group = (group[0].T, group[1]) if k_first else group
        _, scales, recipe = _converted(name, *group, granularity)
        parts.append(scales)
        start, column = start + k, column + width
    return _core.Operand(values, recipe, torch.cat(parts, 1), None)


def _converted(
    name: str, values: torch.Tensor, sf: torch.Tensor, granularity: Granularity
) -> tuple[torch.Tensor, torch.Tensor, str]:
    """Values and factors in a form that the library accepts, and their recipe."""
    if values.dtype not in _FORMATS:
        refuse(f"{name}[0]", values.dtype, f"torch.float8_e4m3fn, torch.float8_e5m2, or two FP4 per byte as {FP4_WORDS}")
    if granularity not in _RECIPES:
        refuse(f"the recipe of {name}", granularity, "(1, 128), (128, 128) or (1, 32)")
    if sf.dtype not in (torch.float32, torch.int32):
        refuse(f"{name}[1]", sf.dtype, "torch.float32, or torch.int32 with four packed UE8M0")
    form = _FORMATS[values.dtype]
    packed = form == "e2m1"
    k = values.shape[-1]
    if packed:
        k = k * 2 if values.stride(-1) == 1 else k
        values = values.view(torch.uint8)
    scales = _scales(name, sf, granularity, k, packed)
    recipe = f"{form}.{'1x32' if packed else _RECIPES[granularity]}"
    if scales.dtype == torch.uint8:
        recipe += ".ue8m0"
    return values, scales, recipe


# The library's names and ours: the first word of a message about one operand, and names anywhere in a message.
_OPERAND_WORDS = {"values": "{}[0]", "scales": "{}[1]", "recipe": "the recipe of {}"}
_WORDS = (
    (re.compile(r"\b([ab])\.values\b"), r"\1[0]"),
    (re.compile(r"\b([ab])\.scales\b"), r"\1[1]"),
    (re.compile(r"\bout\b"), "d"),
)


def _in_our_words(findings: Sequence[Finding], operand: str, has_factors: bool) -> InvalidCall:
    """The findings with the names of DeepGEMM's arguments: a[0], a[1], b[0], b[1] (a and b without factors) and d."""
    lines = []
    for finding in findings:
        line = finding.message()
        if operand:
            line = _OPERAND_WORDS.get(finding.operand, "{}").format(operand) + line[len(finding.operand) :]
        for word, ours in _WORDS:
            line = word.sub(r"\1" if not has_factors and ours == r"\1[0]" else ours, line)
        lines.append(line)
    return InvalidCall("\n".join(lines), list(findings))


def call(function: Callable[..., Any], a: Any, b: Any, **options: Any) -> None:
    """Calls a product of the library with the settings of the process."""
    try:
        function(a, b, **call_options, **options)
    except InvalidCall as error:
        raise _in_our_words(error.findings, "", isinstance(a, _core.Operand)) from None


def check_dense(a: Any, b: Any, out: torch.Tensor, c: torch.Tensor | None) -> None:
    """Raises the error that `call(gemm, a, b, out=out, c=c)` would raise, and runs nothing."""
    findings = validate(a, b, out=out, c=c, **call_options)
    if findings:
        raise _in_our_words(findings, "", isinstance(a, _core.Operand))
