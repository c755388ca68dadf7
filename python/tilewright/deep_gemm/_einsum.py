"""DeepGEMM's einsum: sums of products in float32, and batched products with permuted dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tilewright._multiply import batched_gemm
from tilewright.deep_gemm import _fp8
from tilewright.deep_gemm._bf16 import check_types
from tilewright.deep_gemm._checks import refuse, shape_text
from tilewright.deep_gemm._operands import call

_SUMMED = "bmk,bnk->mn"
_BATCHED = ("bhr,hdr->bhd", "bhd,hdr->bhr")
# For each expression: the permutations of the caller's a, b and d to [batch, rows, k] and [batch, m, n].
_FP8 = {
    "bhr,hdr->bhd": ((1, 0, 2), (0, 1, 2), (1, 0, 2)),
    "bhd,hdr->bhr": ((1, 0, 2), (0, 2, 1), (1, 0, 2)),
    "bhd,bhr->hdr": ((1, 2, 0), (1, 2, 0), (0, 1, 2)),
}
_PARTS = 64  # partial sums, enough to fill a GPU


def _check(expr: str, a: Tensor, b: Tensor, d: Tensor) -> None:
    """Checks the shapes against the letters of expr."""
    names, sizes = expr.replace("->", ",").split(","), dict[str, int]()
    for name, letters, tensor in zip(("a", "b", "d"), names, (a, b, d), strict=True):
        expected = [sizes.setdefault(letter, size) for letter, size in zip(letters, tensor.shape, strict=False)]
        if tensor.dim() != len(letters) or expected != list(tensor.shape):
            refuse(name, shape_text(tensor), f"[{', '.join(letters)}] as in {expr}, with {sizes}")


def einsum(expr: str, a: Tensor, b: Tensor, d: Tensor, c: Tensor | None, use_cublaslt: bool) -> None:
    if expr not in (_SUMMED, *_BATCHED):
        refuse("expr", repr(expr), " or ".join((_SUMMED, *_BATCHED)), "Write it without spaces.")
    check_types(a, b)
    _check(expr, a, b, d)
    if d.dtype not in (torch.bfloat16, torch.float32) or (c is not None and c.dtype != d.dtype):
        refuse("d", d.dtype, "torch.bfloat16 or torch.float32, the same for c and d")
    if expr == _SUMMED:
        if use_cublaslt:
            refuse("use_cublaslt", True, f"False for {expr}")
        total = _summed(a, b)
        d.copy_(total if c is None else total.add_(c))
        return
    if c is not None:
        refuse("c", shape_text(c), f"None for {expr}")
    if d.dtype != torch.bfloat16:
        refuse("d", d.dtype, f"torch.bfloat16 for {expr}")
    if a.is_cuda:
        torch.bmm(a.transpose(0, 1), b.mT if expr == _BATCHED[0] else b, out=d.transpose(0, 1))
    else:
        layout = "nt" if expr == _BATCHED[0] else "nn"
        call(batched_gemm, a.transpose(0, 1), b, layout=layout, out=d.transpose(0, 1))


def _summed(a: Tensor, b: Tensor) -> Tensor:
    """a [s, m, k] and b [s, n, k] to [m, n] in float32.

    Several s are joined to one long k, in up to 64 parts, whose products are added.
    """
    count = a.shape[0]
    if count == 0:
        return torch.zeros((a.shape[1], b.shape[1]), device=a.device)
    parts = max(parts for parts in range(1, min(count, _PARTS) + 1) if count % parts == 0)
    long_a, long_b = (x.unflatten(0, (parts, -1)).transpose(1, 2).flatten(2) for x in (a, b))
    if a.is_cuda:
        return torch.bmm(long_a, long_b.mT, out_dtype=torch.float32).sum(0)
    sums = torch.empty((parts, a.shape[1], b.shape[1]))
    call(batched_gemm, long_a, long_b, out=sums)
    return sums.sum(0)


def fp8_einsum(
    expr: str, a: Tensor, sfa: Tensor, b: Tensor, sfb: Tensor, d: Tensor, c: Tensor | None, recipe: Sequence[int]
) -> None:
    if expr not in _FP8:
        refuse("expr", repr(expr), " or ".join(_FP8), "Write it without spaces.")
    _check(expr, a, b, d)
    of_a, of_b, of_d = _FP8[expr]
    _fp8.batched(
        a.permute(of_a), sfa.permute(of_a), b.permute(of_b), sfb.permute(of_b),
        d.permute(of_d), None if c is None else c.permute(of_d), recipe,
    )  # fmt: skip
