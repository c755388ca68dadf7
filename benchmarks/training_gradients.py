"""Weight gradients of training_peers.py, from fp8 columns or from bf16 tensors with quantizers, against torch and DeepGEMM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tilewright as tw
import torch
from device_clock import Call
from training_contestant import (
    BEFORE,
    MOST_ERROR,
    MOST_ERROR_OF_FP8,
    TILEWRIGHT,
    TORCH,
    Contestant,
    Maker,
    Real,
    begins_of,
    codes,
    deep_gemm,
    deep_gemm_name,
    ends_of,
    fp8,
    named,
    numbers,
    relative,
    sampled,
    some_rows,
)
from training_sizes import STEP, Case

ALIGNMENT = 128  # of the groups in the columns that quantize_tokens writes


def aligned_ends(ends: torch.Tensor, tokens: int) -> torch.Tensor:
    """The ends of the groups if each begins at a multiple of 128, computed on the device of `ends`."""
    limited = ends.clamp(0, tokens)
    sizes = torch.diff(limited, prepend=limited.new_zeros(1)).clamp(min=0)
    room = (sizes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    return (torch.cumsum(room, 0) - room + sizes).to(ends.dtype)


class Columns:
    """The operands of a weight gradient: X and dY of one case, in bf16 and as columns from our quantizer."""

    def __init__(self, case: Case, device: str):
        self.case, self.device = case, device
        torch.manual_seed(1)
        self.x = torch.randn(case.tokens, case.k, device=device).bfloat16()
        self.dy = torch.randn(case.tokens, case.n, device=device).bfloat16()
        self.ends = ends_of(case.sizes, device)
        self.aligned = aligned_ends(self.ends, case.tokens)
        self.aligned_begins = begins_of(case.sizes, ALIGNMENT)
        self.begins = begins_of(case.sizes)

    def quantized(self, recipe: str, of_x: str | None = None) -> tuple[tw.Quantized, tw.Quantized]:
        _, a = tw.quantize_tokens(self.dy, self.ends, columns=recipe)
        _, b = tw.quantize_tokens(self.x, self.ends, columns=of_x or recipe)
        assert a is not None and b is not None
        return a, b

    def range_of(self, group: int) -> slice:
        return slice(self.aligned_begins[group], self.aligned_begins[group] + self.case.sizes[group])

    def real(self, side: tw.Quantized, group: int, rows: torch.Tensor) -> torch.Tensor:
        """The values of some features in a group, with a scale per row or per 128 tokens."""
        range_of = self.range_of(group)
        values = numbers(codes(side.values)[rows, range_of])
        if side.recipe == "row":
            return values * side.scales[group][rows, None]
        blocks = side.scales[rows, range_of.start // ALIGNMENT : -(-range_of.stop // ALIGNMENT)]
        return values * blocks.repeat_interleave(ALIGNMENT, -1)[:, : self.case.sizes[group]]

    def error(self, d: torch.Tensor, a: Real, b: Real, before: float = 0.0) -> float:
        """a, b: of a group and of rows among the features."""
        rows, all_of_x = some_rows(self.case.n, self.device), torch.arange(self.case.k, device=self.device)
        groups = sampled(self.case.sizes)
        exact = [a(group, rows) @ b(group, all_of_x).T + before for group in groups]
        return relative([d[group][rows] for group in groups], exact)

    def new_d(self, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.full((self.case.groups, self.case.n, self.case.k), float("nan"), dtype=dtype, device=self.device)


class Gradients:
    """Weight gradients from fp8. Each contest rounds tokens up as its peer requires."""

    def __init__(self, case: Case, device: str):
        self.case, self.device = case, device

    def contestants(self) -> Iterator[tuple[str, str, Maker]]:
        to_step, to_block = self.case.rounded(STEP), self.case.rounded(ALIGNMENT)
        yield "row", f"{TILEWRIGHT} (row:row)", lambda: self.ours(to_step, "row")
        if to_step != self.case:
            yield "row, any tokens", f"{TILEWRIGHT} (row:row), tokens not rounded", lambda: self.ours(self.case, "row")
        yield "torch row", f"{TORCH} _scaled_grouped_mm per-row scale", lambda: self.torch_row(to_step)
        yield "1d1d", f"{TILEWRIGHT} (1x128:1x128)", lambda: self.ours(to_block, "1x128")
        yield "DeepGEMM 1d1d", deep_gemm_name(), lambda: self.deep_gemm(to_block)

    def fields(self, case: Case, recipe: str, accumulation: str) -> dict[str, Any]:
        fields = {"op": "k_grouped", "shape": case.shape, "grouping": "k_grouped_aligned_offsets", "layout": "nt",
                  "recipe": f"{recipe}:{recipe}", "accumulation": accumulation}  # fmt: skip
        return fields | ({"output": "f32", "accumulates": True} if recipe == "1x128" else {"output": "bf16"})

    def ours(self, case: Case, recipe: str) -> Contestant:
        """D: bf16 for row scales, as in torch; f32, added to, for block scales, as in DeepGEMM."""
        of = Columns(case, self.device)
        a, b = of.quantized(recipe)
        adds = recipe == "1x128"
        d = of.new_d(torch.float32 if adds else torch.bfloat16)

        def call() -> None:
            tw.k_grouped_gemm(a, b, aligned_offsets=of.aligned, out=d, c=d if adds else None)

        return self.contestant(of, call, lambda: d, a, b, self.fields(case, recipe, "promoted"))

    def contestant(
        self, of: Columns, call: Call, d: Callable[[], torch.Tensor], a: tw.Quantized, b: tw.Quantized, fields: dict[str, Any]
    ) -> Contestant:
        def error() -> float:
            before = 0.0
            if fields.get("accumulates"):
                before = BEFORE
                d().fill_(before)
                call()
            return of.error(d(), lambda g, r: of.real(a, g, r), lambda g, r: of.real(b, g, r), before)

        return Contestant(call, d, error, MOST_ERROR, fields, of.case.tokens)

    def torch_row(self, case: Case) -> Contestant:
        """The same values without gaps between groups."""
        function = named(torch, "_scaled_grouped_mm")
        of = Columns(case, self.device)
        a, b = of.quantized("row")
        columns = torch.cat([torch.arange(r.start, r.stop) for r in map(of.range_of, range(case.groups))]).to(self.device)
        left, right = (fp8(codes(side.values)[:, columns].contiguous()) for side in (a, b))
        scales = [side.scales.contiguous().view(-1) for side in (a, b)]
        made: list[torch.Tensor] = []

        def call() -> None:
            made[:] = [function(left, right.t(), *scales, offs=of.ends, out_dtype=torch.bfloat16, use_fast_accum=True)]

        return self.contestant(of, call, lambda: made[0], a, b, self.fields(case, "row", "unpromoted") | {"grouping": "k_grouped"})

    def deep_gemm(self, case: Case) -> Contestant:
        function = named(deep_gemm(), "k_grouped_fp8_gemm_nt_contiguous")
        of = Columns(case, self.device)
        a, b = of.quantized("1x128")
        flat = [torch.cat([codes(side.values)[:, of.range_of(g)].reshape(-1) for g in range(case.groups)]) for side in (a, b)]
        blocks = case.tokens // ALIGNMENT
        # Factors of neighbouring rows are neighbours in memory, as DeepGEMM's casts write them.
        pairs = [(fp8(values), side.scales[:, :blocks].t().contiguous().t()) for values, side in zip(flat, (a, b), strict=True)]
        d, sizes = of.new_d(torch.float32), list(case.sizes)
        on_device = torch.tensor(sizes, dtype=torch.int32, device=self.device)

        def call() -> None:
            function(*pairs, d, sizes, on_device, c=d)

        return self.contestant(of, call, lambda: d, a, b, self.fields(case, "1x128", "promoted") | {"grouping": "k_grouped_flat"})


class FromBf16:
    """dW in bf16 from bf16 tensors: quantizers and product.

    The quantizers also write the operand of dY for dgrad. They write the operand of X only if forward has not made it.
    """

    def __init__(self, case: Case, device: str):
        self.of = Columns(case.rounded(ALIGNMENT), device)
        self.case = self.of.case

    def contestants(self) -> Iterator[tuple[str, str, Maker]]:
        words = {"fold": "fold", "fold, layer": "fold, as the layer calls it", "1x128:128x128": "1x128:128x128",
                 "1x128:128x128, layer": "1x128:128x128, as the layer calls it"}  # fmt: skip
        for key, said in words.items():
            recipe, layer = key.partition(",")[0], key.endswith("layer")
            make = self.fold if recipe == "fold" else self.squares
            yield key, f"{TILEWRIGHT} ({said}), from bf16", lambda make=make, layer=layer: make(layer)
        yield "torch bf16", f"{TORCH} _grouped_mm bf16", self.torch_bf16

    def contestant(self, call: Call, d: Callable[[], torch.Tensor], limit: float, **fields: Any) -> Contestant:
        of = self.of

        def real(matrix: torch.Tensor) -> Real:
            return lambda group, features: numbers(matrix[of.begins[group] : of.begins[group + 1]].t()[features])

        words = {"op": "k_grouped", "shape": self.case.shape, "output": "bf16", "from_bf16": True, **fields}
        return Contestant(call, d, lambda: of.error(d(), real(of.dy), real(of.x)), limit, words, self.case.tokens)

    def fold(self, layer: bool) -> Contestant:
        """dW with the values and scales of X from forward. dY is read once, because both of its operands have scales of 128.

        With `layer`, dY has a scale per row and is read twice. X's values are moved to aligned groups, because a layer does not
        know the sizes of groups.
        """
        of, tokens = self.of, self.case.tokens
        x, _ = tw.quantize_tokens(of.x, of.ends, rows="row")
        weights = torch.rand(self.case.groups, self.case.n, device=of.device) + 0.5  # the scales of W's rows
        assert x is not None
        x_codes, d = codes(x.values), of.new_d()

        def call() -> None:
            _, columns = tw.quantize_tokens(of.dy, of.ends, rows="row" if layer else "1x128", columns="1x128",
                                            rows_feature_factors=weights, columns_token_factors=x.scales)  # fmt: skip
            assert columns is not None
            if layer:
                ends = aligned_ends(of.ends, tokens)
                tw.k_grouped_gemm(columns, tw.transpose_codes(tw.Quantized(x_codes, "e4m3"), of.ends), aligned_offsets=ends, out=d)
                return
            # Columns after the last group are dropped, because X has no rows there.
            dy = tw.Quantized(columns.values[:, :tokens], "1x128", columns.scales[:, : tokens // ALIGNMENT])
            tw.k_grouped_gemm(dy, tw.Quantized(x_codes, "e4m3"), aligned_offsets=of.aligned, out=d, layout="nn")

        layout = "nt" if layer else "nn"
        return self.contestant(call, lambda: d, MOST_ERROR_OF_FP8, recipe="1x128:e4m3", layout=layout, accumulation="promoted",
                               grouping="k_grouped_aligned_offsets")  # fmt: skip

    def squares(self, layer: bool) -> Contestant:
        of, d = self.of, self.of.new_d()

        def call() -> None:
            _, x = tw.quantize_tokens(of.x, of.ends, columns="128x128")
            _, dy = tw.quantize_tokens(of.dy, of.ends, rows="1x128", columns="1x128")
            assert x is not None and dy is not None
            ends = aligned_ends(of.ends, self.case.tokens) if layer else of.aligned
            tw.k_grouped_gemm(dy, x, aligned_offsets=ends, out=d)

        return self.contestant(call, lambda: d, MOST_ERROR_OF_FP8, recipe="1x128:128x128", layout="nt", accumulation="promoted",
                               grouping="k_grouped_aligned_offsets")  # fmt: skip

    def torch_bf16(self) -> Contestant:
        function = named(torch.nn.functional, "grouped_mm") if hasattr(torch.nn.functional, "grouped_mm") else named(torch, "_grouped_mm")
        of = self.of
        made: list[torch.Tensor] = []

        def call() -> None:
            made[:] = [function(of.dy.t(), of.x, offs=of.ends)]

        return self.contestant(call, lambda: made[0], MOST_ERROR, recipe="bf16:bf16", layout="tn", grouping="k_grouped")
