"""Forward and dgrad of training_peers.py: grouped products of Tilewright and torch on the same X (dgrad: dY) and W."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tilewright as tw
import torch
from device_clock import Call
from training_contestant import (
    MOST_ERROR,
    TILEWRIGHT,
    TORCH,
    Contestant,
    Maker,
    begins_of,
    codes,
    ends_of,
    fp8,
    named,
    numbers,
    relative,
    sampled,
    some_rows,
)
from training_sizes import SECTIONS, Case


class Rows:
    """Forward or dgrad of one case: A [tokens, k of the product] times the B of each group."""

    def __init__(self, case: Case, device: str):
        self.case, self.device, self.product = case, device, SECTIONS[case.section].product
        torch.manual_seed(1)
        outputs, inner = (case.n, case.k) if self.product == "forward" else (case.k, case.n)
        self.x = torch.randn(case.tokens, inner, device=device).bfloat16()
        self.w = torch.randn(case.groups, case.n, case.k, device=device).bfloat16()
        self.outputs, self.ends, self.begins = outputs, ends_of(case.sizes, device), begins_of(case.sizes)
        self.common = {"op": "m_grouped_contiguous", "shape": case.shape, "output": "bf16", "grouping": "m_grouped_offsets"}

    def contestants(self) -> Iterator[tuple[str, str, Maker]]:
        yield "tensor", f"{TILEWRIGHT} (tensor:tensor)", lambda: self.ours("tensor")
        yield "row", f"{TILEWRIGHT} (row:row)", lambda: self.ours("row")
        yield "torch row", f"{TORCH} _scaled_grouped_mm per-row scale", self.torch_row

    def quantized(self, recipe: str, transposed: bool) -> tuple[tw.Quantized, tw.Quantized]:
        a, _ = tw.quantize_tokens(self.x, self.ends, rows=recipe)
        assert a is not None
        return a, tw.quantize(self.w.transpose(-1, -2) if transposed else self.w, recipe)

    def contestant(
        self, call: Call, d: Callable[[], torch.Tensor], a: tw.Quantized, b: tw.Quantized, transposed: bool, fields: dict[str, Any]
    ) -> Contestant:
        return Contestant(call, d, lambda: self.error(d(), a, b, transposed), MOST_ERROR, {**self.common, **fields}, self.case.tokens)

    def error(self, d: torch.Tensor, a: tw.Quantized, b: tw.Quantized, transposed: bool) -> float:
        """transposed: whether B is [groups, k of the product, outputs], like W in dgrad."""
        given, exact = [], []
        for group in sampled(self.case.sizes):
            rows = self.begins[group] + some_rows(self.case.sizes[group], self.device)
            of_a = numbers(codes(a.values)[rows]) * (a.scales[rows, None] if a.recipe == "row" else a.scales.reshape(1))
            of_b = numbers(codes(b.values)[group]).T if transposed else numbers(codes(b.values)[group])
            scales = b.scales[group]
            given.append(d[rows])
            exact.append(of_a @ (of_b * (scales[:, None] if b.recipe == "row" else scales)).T)
        return relative(given, exact)

    def ours(self, recipe: str) -> Contestant:
        """W for dgrad. With tensor scales dgrad reads the values of forward; with row scales, a second copy with column scales."""
        second_copy = self.product == "dgrad" and recipe == "row"
        as_forward = self.product == "dgrad" and not second_copy
        a, b = self.quantized(recipe, second_copy)
        d = torch.full((self.case.tokens, self.outputs), float("nan"), dtype=torch.bfloat16, device=self.device)
        layout = "nn" if as_forward else "nt"

        def call() -> None:
            tw.grouped_gemm(a, b, offsets=self.ends, out=d, layout=layout)

        fields = {"recipe": f"{recipe}:{recipe}", "layout": layout, "accumulation": "promoted"}
        return self.contestant(call, lambda: d, a, b, as_forward, fields)

    def torch_row(self) -> Contestant:
        function = named(torch, "_scaled_grouped_mm")
        a, b = self.quantized("row", self.product == "dgrad")
        columns = fp8(codes(b.values).contiguous()).transpose(-1, -2)  # torch requires column-major
        left, left_scales, right_scales = fp8(codes(a.values)), a.scales.contiguous(), b.scales.contiguous()
        made: list[torch.Tensor] = []

        def call() -> None:
            made[:] = [function(left, columns, left_scales, right_scales, offs=self.ends, out_dtype=torch.bfloat16, use_fast_accum=True)]

        fields = {"recipe": "row:row", "layout": "nt", "accumulation": "unpromoted"}
        return self.contestant(call, lambda: made[0], a, b, False, fields)
