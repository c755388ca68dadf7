"""FP8 and FP4 products on real tensors: the implementations of the torch operators in `_operators.py`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from tilewright._multiply import batched_gemm, blocks_gemm, gemm, grouped_gemm, k_grouped_gemm
from tilewright.deep_gemm._checks import refuse, shape_text
from tilewright.deep_gemm._operands import (
    Groups,
    Pair,
    call,
    check_dense,
    k_grouped_operand,
    mn_major_if,
    operands,
    operands_in_place,
    scales_to_copy,
)
from tilewright.deep_gemm._settings import get_mk_alignment_for_contiguous_layout

Ints = Sequence[int] | None


def check_layout(name: str, layout: Tensor, length: int, what: str) -> None:
    """Checks group sizes: int32, as many as the library reads, one per group or per row."""
    if layout.dtype != torch.int32 or list(layout.shape) != [length] or not layout.is_contiguous():
        refuse(name, f"{layout.dtype} {shape_text(layout)}", f"contiguous torch.int32 [{length}], {what}")


def dense(
    a: Tensor, sfa: Tensor, b: Tensor, sfb: Tensor, d: Tensor, c: Tensor | None, recipe: Ints, of_a: Ints, of_b: Ints
) -> None:
    call(gemm, *operands(a, sfa, b, sfb, (recipe, of_a, of_b), d, c), out=d, c=c)


def skip_head_mid(
    a: Tensor, sfa: Tensor, b: Tensor, sfb: Tensor, d: Tensor, head_splits: Sequence[int], recipe: Ints
) -> None:
    if len(head_splits) != 3 or min(head_splits) < 0:
        refuse("head_splits", tuple(head_splits), "(left, mid, right), each at least 0")
    left, mid, right = head_splits
    m, n = a.shape[0], b.shape[0]
    if left + right == 0 or n % (left + right) != 0:
        refuse("b[0]", shape_text(b), f"a multiple of left + right = {left + right} rows", "n is heads * (left + right).")
    heads = n // (left + right)
    if list(d.shape) != [m, n + heads * mid]:
        refuse("d", shape_text(d), f"[{m}, {n + heads * mid}], {heads} heads of {left} + {mid} + {right} columns")
    product = torch.empty((m, n), dtype=d.dtype, device=d.device)
    dense(a, sfa, b, sfb, product, None, recipe, None, None)
    by_head, heads_of_d = product.unflatten(1, (heads, left + right)), d.unflatten(1, (heads, left + mid + right))
    heads_of_d[..., :left] = by_head[..., :left]
    heads_of_d[..., left + mid :] = by_head[..., left:]


def m_grouped_contiguous(
    a: Tensor, sfa: Tensor, b: Tensor, sfb: Tensor, d: Tensor, layout: Tensor,
    psum: bool, expected_m: int, recipe: Ints, of_a: Ints, of_b: Ints,
) -> None:  # fmt: skip
    check_contiguous_groups(a, b, d, layout, psum, expected_m)
    if a.shape[0] == 0:
        return
    alignment = get_mk_alignment_for_contiguous_layout()
    groups: Groups
    if psum:
        groups = {"grouping": "m_grouped_aligned_offsets", "sizes": layout, "alignment": alignment}
    else:
        groups = {"grouping": "m_grouped_indices", "sizes": layout, "index_alignment": alignment}
    sides = operands(a, sfa, b, sfb, (recipe, of_a, of_b), d, groups=groups)
    if psum:
        call(grouped_gemm, *sides, aligned_offsets=layout, alignment=alignment, expected_m=expected_m, out=d)
    else:
        call(blocks_gemm, *sides, indices=layout, alignment=alignment, word="grouped_layout", out=d)


def check_contiguous_groups(a: Tensor, b: Tensor, d: Tensor, layout: Tensor, psum: bool, expected_m: int) -> None:
    if b.dim() != 3:
        refuse("b", shape_text(b), "[groups, n, k]")
    if d.dtype != torch.bfloat16:
        refuse("d", d.dtype, "torch.bfloat16")
    if psum:
        check_layout("grouped_layout", layout, b.shape[0], "the end row of each group")
    else:
        check_layout("grouped_layout", layout, a.shape[0], "the group of each row")
        if expected_m:
            refuse("expected_m_for_psum_layout", expected_m, "None without use_psum_layout=True")


def check_masked_groups(a: Tensor, b: Tensor, d: Tensor, masked_m: Tensor, expected_m: int) -> None:
    if a.dim() != 3 or b.dim() != 3:
        name, tensor, expected = ("a", a, "[groups, m, k]") if a.dim() != 3 else ("b", b, "[groups, n, k]")
        refuse(name, shape_text(tensor), expected)
    if d.dtype != torch.bfloat16:
        refuse("d", d.dtype, "torch.bfloat16")
    if expected_m <= 0:
        refuse("expected_m", expected_m, "a positive number", "Pass the usual number of rows of a group; it is a hint.")
    check_layout("masked_m", masked_m, a.shape[0], "the valid rows of each group")


def m_grouped_masked(
    a: Tensor, sfa: Tensor, b: Tensor, sfb: Tensor, d: Tensor, masked_m: Tensor, expected_m: int,
    recipe: Ints, of_a: Ints, of_b: Ints,
) -> None:  # fmt: skip
    check_masked_groups(a, b, d, masked_m, expected_m)
    groups = {"grouping": "m_grouped_masked", "sizes": masked_m, "expected_m": expected_m}
    sides = operands(a, sfa, b, sfb, (recipe, of_a, of_b), d, groups=groups)
    call(grouped_gemm, *sides, counts=masked_m, expected_m=expected_m, out=d)


def check_ks(ks: Sequence[int], groups: int, grouped_layout: Tensor | None) -> None:
    if len(ks) != groups:
        refuse("ks_cpu", f"{len(ks)} value" + "s" * (len(ks) != 1), f"{groups}, one per group of d")
    for k in ks:
        if k < 0:
            refuse("ks_cpu", k, "values of at least 0")
    if grouped_layout is not None:
        check_layout("grouped_layout", grouped_layout, groups, "the values of ks_cpu on the device")


def _rows_are_aligned(ks: Sequence[int]) -> bool:
    """Whether the rows of each group begin at multiples of 16 bytes, as the product of one group requires."""
    return all(k % 16 == 0 for k in ks)


def _sizes_on(device: torch.device, ks: Sequence[int]) -> Tensor:
    """ks as grouped_layout. Kernels write it: a copy from the host would block, and CUDA graphs could not capture it."""
    sizes = torch.empty(len(ks), dtype=torch.int32, device=device)
    for size, k in zip(sizes, ks, strict=True):
        size.fill_(k)
    return sizes


def check_c(c: Tensor | None, d: Tensor) -> None:
    if c is not None and (c.shape != d.shape or c.dtype != d.dtype):
        refuse("c", f"{c.dtype} {shape_text(c)}", f"{d.dtype} {shape_text(d)}, like d")


def _widths(sf: Tensor, ks: Sequence[int], gran_k: int) -> list[int]:
    """The columns of factors of each group. Four packed UE8M0 share a column, and each group begins a new column."""
    share = gran_k * (4 if sf.dtype == torch.int32 else 1)
    return [-(-k // share) for k in ks]


def _check_factors(name: str, sf: Tensor, rows: int, ks: Sequence[int], gran_k: int, flat: bool) -> None:
    expected = [rows, sum(_widths(sf, ks, gran_k))]
    expected = expected if flat else expected[::-1]
    if list(sf.shape) != expected:
        share = 4 * gran_k if sf.dtype == torch.int32 else gran_k
        what = "four packed factors" if sf.dtype == torch.int32 else "a factor"
        refuse(f"{name}[1]", shape_text(sf), f"{expected}, {what} per row and {share} elements of each group's k")


def k_grouped(
    a: Tensor, sfa: Tensor, b: Tensor, sfb: Tensor, d: Tensor, c: Tensor | None,
    ks: Ints, layout: Tensor | None, flat: bool, recipe: Sequence[int],
) -> None:  # fmt: skip
    """One product per group, on the caller's stream.

    Args:
        a: values [sum k, m], or flat [m * k] of one group after another. The same holds for b, with n.
        ks: the k of each group on the host, or None. Then the values of layout are used.
        layout: the k of each group on the device, or None. On a GPU all groups are then one product.
        flat: whether a and b are flat.
    """
    if d.dim() != 3 or d.dtype != torch.float32:
        refuse("d", f"{d.dtype} {shape_text(d)}", "torch.float32 [groups, m, n]")
    if len(recipe) != 3 or recipe[2] <= 0:
        refuse("recipe", tuple(recipe), "(gran_m, gran_n, gran_k)")
    groups, m, n = d.shape
    if d.is_cuda and layout is None and ks is not None and flat and not _rows_are_aligned(ks):
        check_ks(ks, groups, None)
        layout = _sizes_on(d.device, ks)
    if d.is_cuda and layout is not None:
        _launch_all_groups(a, sfa, b, sfb, d, c, ks, layout, flat, recipe)
        return
    ks = known_ks(ks, layout, groups)
    check_ks(ks, groups, layout)
    check_c(c, d)
    _check_groups(a, sfa, b, sfb, d, ks, flat, recipe)
    if not flat:
        sfa, sfb = sfa.T, sfb.T
    if d.is_cuda:
        _launch_each_group(a, sfa, b, sfb, d, c, ks, flat, recipe)
        return
    a, b = (x.view(rows, sum(ks)) if flat else x.T for x, rows in ((a, m), (b, n)))
    of_a, of_b = (recipe[0], recipe[2]), (recipe[1], recipe[2])
    pair = k_grouped_operand("a", a, sfa, of_a, ks), k_grouped_operand("b", b, sfb, of_b, ks)
    groups_of_k = {"counts": ks} if flat else {"offsets": list(accumulate(ks))}
    call(k_grouped_gemm, *pair, out=d, c=c, **groups_of_k)


def _check_groups(
    a: Tensor, sfa: Tensor, b: Tensor, sfb: Tensor, d: Tensor, ks: Sequence[int], flat: bool, recipe: Sequence[int]
) -> None:
    _, m, n = d.shape
    for name, values, sf, rows in (("a", a, sfa, m), ("b", b, sfb, n)):
        expected = [rows * sum(ks)] if flat else [sum(ks), rows]
        if (list(values.shape) if not flat else [values.numel()]) != expected or not values.is_contiguous():
            refuse(f"{name}[0]", shape_text(values), f"contiguous {expected}, because sum(ks_cpu) is {sum(ks)}")
        _check_factors(name, sf, rows, ks, recipe[2], flat)


def _launch_all_groups(
    a: Tensor, sfa: Tensor, b: Tensor, sfb: Tensor, d: Tensor, c: Tensor | None,
    ks: Ints, layout: Tensor, flat: bool, recipe: Sequence[int],
) -> None:  # fmt: skip
    """One product of all groups on a GPU, with the sizes in GPU memory.

    Without ks the host does not know the sizes, and takes the sum of k from the shapes of values and factors.
    """
    groups, m, n = d.shape
    check_layout("grouped_layout", layout, groups, "the k of each group")
    check_c(c, d)
    if ks is None:
        _check_unsized(a, sfa, b, sfb, m, n, flat)
    else:
        check_ks(ks, groups, layout)
        _check_groups(a, sfa, b, sfb, d, ks, flat, recipe)
    if flat:
        a, b = (x.view(rows, x.numel() // max(rows, 1)) for x, rows in ((a, m), (b, n)))
    else:
        sfa, sfb = sfa.T, sfb.T
    order = "nt" if flat else "tn"
    of_a, of_b = (recipe[0], recipe[2]), (recipe[1], recipe[2])

    def operands_with(sfa: Tensor, sfb: Tensor) -> Pair:
        return (
            k_grouped_operand("a", a, sfa, of_a, ks or (), k_first=not flat),
            k_grouped_operand("b", b, sfb, of_b, ks or (), k_first=not flat),
        )

    pair = operands_with(sfa, sfb)
    if sfa.dtype == sfb.dtype == torch.float32:
        copied = scales_to_copy(pair, d, c, {"grouping": "k_grouped_flat", "sizes": layout}, order)
        if any(copied):
            pair = operands_with(*(mn_major_if(copy, sf) for copy, sf in zip(copied, (sfa, sfb), strict=True)))
    call(k_grouped_gemm, *pair, counts=layout, layout=order, out=d, c=c)


def _check_unsized(a: Tensor, sfa: Tensor, b: Tensor, sfb: Tensor, m: int, n: int, flat: bool) -> None:
    for name, values, sf, rows in (("a", a, sfa, m), ("b", b, sfb, n)):
        shaped = values.numel() % max(rows, 1) == 0 if flat else values.dim() == 2 and values.shape[1] == rows
        if not shaped or not values.is_contiguous():
            expected = f"a contiguous tensor with {rows} rows per group" if flat else f"contiguous [sum k, {rows}]"
            refuse(f"{name}[0]", shape_text(values), expected)
        if sf.dtype != torch.float32:
            refuse(f"{name}[1]", sf.dtype, "torch.float32, because ks_cpu is None", "Pass ks_cpu.")


def known_ks(ks: Ints, layout: Tensor | None, groups: int) -> list[int]:
    if ks is not None:
        return list(ks)
    if layout is None:
        refuse("ks_cpu", None, "the k of each group", "Pass ks_cpu, grouped_layout or both.")
    if layout.is_cuda:
        advice = "Pass ks_cpu. bf16 products of a newer torch read the sizes on the GPU."
        refuse("ks_cpu", None, "the k of each group", advice)
    check_layout("grouped_layout", layout, groups, "the k of each group")
    return layout.tolist()


def _launch_each_group(
    a: Tensor, sfa: Tensor, b: Tensor, sfb: Tensor, d: Tensor, c: Tensor | None,
    ks: Sequence[int], flat: bool, recipe: Sequence[int],
) -> None:  # fmt: skip
    """One product per group on a GPU. All groups are checked before the first one runs."""
    groups, m, n = d.shape
    starts = list(pairwise(accumulate(ks, initial=0)))
    values = [[_group_values(x, rows, group, flat) for group in starts] for x, rows in ((a, m), (b, n))]
    outputs = [(d[group], None if c is None else c[group]) for group in range(groups)]
    pairs = _group_operands(values, sfa, sfb, ks, recipe)
    copies = [scales_to_copy(pair, *output) for pair, output in zip(pairs, outputs, strict=True)]
    copy_a, copy_b = (any(copy[i] for copy in copies) for i in (0, 1))
    if copy_a or copy_b:  # once for all groups
        pairs = _group_operands(values, mn_major_if(copy_a, sfa), mn_major_if(copy_b, sfb), ks, recipe)
    for pair, output in zip(pairs, outputs, strict=True):
        check_dense(*pair, *output)
    for pair, (out, added) in zip(pairs, outputs, strict=True):
        call(gemm, *pair, out=out, c=added)


def _group_operands(
    values: list[list[Tensor]], sfa: Tensor, sfb: Tensor, ks: Sequence[int], recipe: Sequence[int]
) -> list[Pair]:
    """The operands a and b of each group."""
    factors = [_group_factors(sf, ks, recipe[2]) for sf in (sfa, sfb)]
    return [
        operands_in_place(a, factors_a, b, factors_b, (recipe, None, None))
        for a, factors_a, b, factors_b in zip(values[0], factors[0], values[1], factors[1], strict=True)
    ]


def _group_values(values: Tensor, rows: int, group: tuple[int, int], flat: bool) -> Tensor:
    start, end = group
    return values.view(-1)[rows * start : rows * end].view(rows, end - start) if flat else values[start:end].T


def _group_factors(sf: Tensor, ks: Sequence[int], gran_k: int) -> list[Tensor]:
    return list(sf.split(_widths(sf, ks, gran_k), 1))


def batched(a: Tensor, sfa: Tensor, b: Tensor, sfb: Tensor, d: Tensor, c: Tensor | None, recipe: Sequence[int]) -> None:
    sides = operands(a, sfa, b, sfb, (recipe, None, None), d, c, {"grouping": "batched"})
    call(batched_gemm, *sides, out=d, c=c)
