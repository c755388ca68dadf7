"""bf16 products: torch runs them on a GPU (cuBLAS and CUTLASS), the library on the CPU.

The host never reads group sizes from the GPU. Rows are moved by index to the places that torch's grouped product requires.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from tilewright._multiply import gemm, grouped_gemm, k_grouped_gemm
from tilewright._quantize import Quantized
from tilewright.deep_gemm import _fp8
from tilewright.deep_gemm._checks import refuse, shape_text
from tilewright.deep_gemm._operands import call
from tilewright.deep_gemm._settings import get_mk_alignment_for_contiguous_layout


def check_types(a: Tensor, b: Tensor, *types: torch.dtype) -> None:
    for name, values in (("a", a), ("b", b)):
        if values.dtype not in (types or (torch.bfloat16,)):
            refuse(name, values.dtype, " or ".join(map(str, types or (torch.bfloat16,))))


def _check_sizes(a: Tensor, b: Tensor, d: Tensor, c: Tensor | None) -> None:
    """Checks sizes and dtypes first, so that errors name the caller's arguments and not those of torch."""
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[1]:
        refuse("b", shape_text(b), f"[n, k] with the same k as a {shape_text(a)}")
    for name, tensor in (("d", d), ("c", c)):
        if tensor is None:
            continue
        if list(tensor.shape) != [a.shape[0], b.shape[0]]:
            refuse(name, shape_text(tensor), f"[{a.shape[0]}, {b.shape[0]}]")
        if tensor.dtype not in (torch.bfloat16, torch.float32) or tensor.dtype != d.dtype:
            refuse(name, tensor.dtype, "torch.bfloat16 or torch.float32, the same for c and d")


def _adds_nothing(a: Tensor, d: Tensor) -> bool:
    return d.numel() == 0 or a.shape[1] == 0


def dense(a: Tensor, b: Tensor, d: Tensor, c: Tensor | None) -> None:
    """a [m, k], b [n, k]: one product with float32 sums."""
    check_types(a, b)
    if not a.is_cuda:
        return call(gemm, a, b, out=d, c=c)
    _check_sizes(a, b, d, c)
    wide: tuple[Any, ...] = (torch.float32,) if d.dtype == torch.float32 else ()
    if _adds_nothing(a, d):
        d.zero_() if c is None else d.copy_(c)
    elif c is None:
        torch.mm(a, b.T, *wide, out=d)
    else:
        torch.addmm(c, a, b.T, *wide, out=d)


def by_cublaslt(a: Tensor, b: Tensor, d: Tensor, c: Tensor | None) -> None:
    """A product of bf16, or of e4m3 without scale factors."""
    check_types(a, b, torch.bfloat16, torch.float8_e4m3fn)
    if a.dtype == torch.bfloat16 or b.dtype == torch.bfloat16:
        return dense(a, b, d, c)
    one = torch.ones(1, device=a.device)
    if not a.is_cuda:
        return call(gemm, Quantized(a, "tensor", one), Quantized(b, "tensor", one), out=d, c=c)
    _check_sizes(a, b, d, c)
    if _adds_nothing(a, d):
        d.zero_() if c is None else d.copy_(c)
    elif c is None:
        torch._scaled_mm(a, b.T, one, one, out_dtype=d.dtype, out=d)
    else:
        torch.add(c, torch._scaled_mm(a, b.T, one, one, out_dtype=torch.float32), out=d)


def _has_aligned_rows(tensor: Tensor, along: int) -> bool:
    """Whether dimension `along` has stride 1 and all rows begin at multiples of 16 bytes.

    torch's grouped product requires both.
    """
    elements = 16 // tensor.element_size()
    return tensor.data_ptr() % 16 == 0 and all(
        size <= 1 or (stride == 1 if dimension - tensor.dim() == along else stride % elements == 0)
        for dimension, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True))
    )


def _torchs_grouped_product() -> Any:
    """torch's grouped product; None if this torch has none."""
    return getattr(torch.nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)


def _check_rows(name: str, tensor: Tensor, orders: tuple[int, ...], advice: str) -> None:
    if not any(_has_aligned_rows(tensor, along) for along in orders):
        got = f"{shape_text(tensor)} with strides {list(tensor.stride())}"
        refuse(name, got, "rows that begin at multiples of 16 bytes", advice)


def _grouped(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    """a [m, k] times b [groups, n, k]. Groups of rows follow each other from row 0 and end at `ends`."""
    for name, tensor, orders in (("a", a, (-1,)), ("b", b, (-1, -2))):
        _check_rows(name, tensor, orders, "Pad k, or k and n, to multiples of 8.")
    product: Tensor = _torchs_grouped_product()(a, b.mT, offs=ends.to(torch.int32))
    return product


def _grouped_along_k(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    """a [k, m] times b [k, n] per group: bf16 [groups, m, n]. Groups follow each other from k = 0 and end at `ends`."""
    for name, tensor in (("a", a), ("b", b)):
        _check_rows(name, tensor, (-1,), "Pad m and n to multiples of 8, or pass ks_cpu.")
    product: Tensor = _torchs_grouped_product()(a.T, b, offs=ends.to(torch.int32))
    return product


def _filled_indices(indices: Tensor, alignment: int) -> Tensor:
    """Gives rows of index -1 the group of the first row of their aligned block, if it has one, as DeepGEMM does."""
    rows = indices.numel()
    whole = rows // alignment * alignment
    filled = torch.empty_like(indices)
    for part, width in ((slice(0, whole), alignment), (slice(whole, rows), rows - whole)):
        if part.start == part.stop:
            continue
        blocks = indices[part].view(-1, width)
        torch.where(blocks < 0, blocks[:, :1], blocks, out=filled[part].view(-1, width))
    return filled


def m_grouped_contiguous(a: Tensor, b: Tensor, d: Tensor, layout: Tensor, psum: bool, expected_m: int) -> None:
    check_types(a, b)
    _fp8.check_contiguous_groups(a, b, d, layout, psum, expected_m)
    if a.shape[0] == 0:
        return
    alignment = get_mk_alignment_for_contiguous_layout()
    if not a.is_cuda:
        sizes: dict[str, Any] = {"indices": _filled_indices(layout, alignment)} if not psum else {
            "aligned_offsets": layout, "alignment": alignment, "expected_m": expected_m}  # fmt: skip
        call(grouped_gemm, a, b, out=d, **sizes)
    elif psum:
        _by_aligned_ends(a, b, d, layout, alignment)
    else:
        _by_index(a, b, d, _filled_indices(layout, alignment))


def _by_aligned_ends(a: Tensor, b: Tensor, d: Tensor, ends: Tensor, alignment: int) -> None:
    """The padding after each group is computed with the group."""
    starts_of_next = (ends + alignment - 1) // alignment * alignment
    d.copy_(_grouped(a, b, starts_of_next.clamp(0, a.shape[0]).cummax(0).values))


def _by_index(a: Tensor, b: Tensor, d: Tensor, indices: Tensor) -> None:
    """Sorts the rows by group, multiplies, and moves the results back. Rows of no group become zero."""
    rows, groups = a.shape[0], b.shape[0]
    outside = (indices < 0) | (indices >= groups)
    group, order = torch.where(outside, groups, indices).sort(stable=True)
    ends = torch.searchsorted(group, torch.arange(groups, device=a.device, dtype=group.dtype), right=True)
    # One extra row, set to zero: the result of all rows of no group.
    product = _grouped(a.index_select(0, torch.cat((order, order[:1]))), b, ends)
    product[rows].zero_()
    place = torch.empty_like(order).index_copy_(0, order, torch.arange(rows, device=a.device))
    _put_rows(product, torch.where(outside, rows, place), d)


def m_grouped_masked(a: Tensor, b: Tensor, d: Tensor, masked_m: Tensor, expected_m: int) -> None:
    check_types(a, b)
    _fp8.check_masked_groups(a, b, d, masked_m, expected_m)
    if not a.is_cuda:
        call(grouped_gemm, a, b, counts=masked_m, expected_m=expected_m, out=d)
    elif _is_mostly_valid(a.shape[1], expected_m):
        torch.bmm(a, b.mT, out=d)
    else:
        _by_count(a, b, d, masked_m)


def _is_mostly_valid(most: int, expected_m: int) -> bool:
    """Whether multiplying all rows takes no longer than moving the valid rows together and back.

    Up to 128 rows per group, reading b takes longer than the products of all rows. Moving rows takes about a quarter of the
    time of their products. Both follow from arithmetic for k and n of 2048 to 7168, not from measurements.
    """
    return most <= 128 or 4 * expected_m >= 3 * most


def _put_rows(rows: Tensor, places: Tensor, d: Tensor) -> None:
    """Writes rows[places] to d, whose rows are counted through all groups."""
    if d.is_contiguous():
        torch.index_select(rows, 0, places, out=d.view(-1, d.shape[-1]))
    else:
        d.copy_(rows.index_select(0, places).view(d.shape))


def _by_count(a: Tensor, b: Tensor, d: Tensor, masked_m: Tensor) -> None:
    """Moves the valid rows together, multiplies, and moves the results back. Other rows of d are undefined."""
    groups, most, _ = a.shape
    counts = masked_m.clamp(0, most).long()
    ends = counts.cumsum(0)
    starts = ends - counts
    position = torch.arange(groups * most, device=a.device)
    group = torch.searchsorted(ends, position, right=True).clamp(max=groups - 1)
    source = group * most + (position - starts[group]).clamp(max=most - 1)
    product = _grouped(a.flatten(0, 1).index_select(0, source), b, ends)
    place = starts[:, None] + torch.arange(most, device=a.device)
    _put_rows(product, place.clamp(max=groups * most - 1).flatten(), d)


def k_grouped(
    a: Tensor, b: Tensor, d: Tensor, c: Tensor | None, ks: Sequence[int] | None, layout: Tensor | None
) -> None:
    """One product per group, on the caller's stream: a [sum k, m], b [sum k, n], d [groups, m, n]."""
    check_types(a, b)
    if d.dim() != 3 or d.dtype != torch.float32:
        refuse("d", f"{d.dtype} {shape_text(d)}", "torch.float32 [groups, m, n]")
    groups = d.shape[0]
    if ks is None and layout is not None and layout.is_cuda and _torchs_grouped_product() is not None:
        _fp8.check_layout("grouped_layout", layout, groups, "the k of each group")
        _check_k_grouped(a, b, d, c, a.shape[0], "the k of a")
        _by_k_on_the_device(a, b, d, c, layout)
        return
    ks = _fp8.known_ks(ks, layout, groups)
    _fp8.check_ks(ks, groups, layout)
    _check_k_grouped(a, b, d, c, sum(ks), f"sum(ks_cpu) = {sum(ks)}")
    if a.is_cuda:
        _by_k_on_the_host(a, b, d, c, ks)
    else:
        call(k_grouped_gemm, a.T, b.T, offsets=list(accumulate(ks)), out=d, c=c)


def _check_k_grouped(a: Tensor, b: Tensor, d: Tensor, c: Tensor | None, k: int, of: str) -> None:
    _fp8.check_c(c, d)
    for name, values, rows in (("a", a, d.shape[1]), ("b", b, d.shape[2])):
        if list(values.shape) != [k, rows]:
            refuse(name, shape_text(values), f"[{k}, {rows}], with {of}")


def _by_k_on_the_device(a: Tensor, b: Tensor, d: Tensor, c: Tensor | None, ks: Tensor) -> None:
    """One product of all groups, with ends clamped to the rows of a.

    torch's grouped product has no float32 output, so each product is rounded to bf16 before c is added.
    """
    if _adds_nothing(a.T, d):
        d.zero_() if c is None else d.copy_(c)
        return
    ends = ks.clamp(min=0).cumsum(0).clamp(max=a.shape[0])
    product = _grouped_along_k(a, b, ends)
    # torch does not document what it writes for a group without k.
    product.masked_fill_((ends.diff(prepend=ends.new_zeros(1)) == 0)[:, None, None], 0)
    if c is None:
        d.copy_(product)
    else:
        torch.add(c, product, out=d)


def _by_k_on_the_host(a: Tensor, b: Tensor, d: Tensor, c: Tensor | None, ks: Sequence[int]) -> None:
    """One product per group, with float32 sums."""
    calls = [
        (a[start:end].T, b[start:end].T, d[group], None if c is None else c[group])
        for group, (start, end) in enumerate(pairwise(accumulate(ks, initial=0)))
    ]
    for part in calls:
        _check_sizes(*part)
    for part in calls:
        dense(*part)
