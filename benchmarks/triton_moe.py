"""A fused MoE layer in Triton, as engines run it by default on Hopper: fp8, 1x128 : 128x128, tokens gathered in the first product.

It is written for measuring only. The ids are sorted ahead of the timed calls, which an engine does in about 6 us. The best of ten
configurations counts for each product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

F8 = torch.float8_e4m3fn
SORTING_US = 6.0
# block m, block n, group m, warps, stages
CONFIGS = (
    (16, 64, 1, 4, 4),
    (16, 128, 1, 4, 4),
    (16, 128, 1, 4, 3),
    (32, 128, 1, 4, 4),
    (64, 128, 1, 4, 4),
    (64, 128, 16, 4, 3),
    (64, 256, 16, 8, 3),
    (128, 128, 16, 8, 3),
    (128, 256, 16, 8, 3),
    (128, 128, 32, 4, 3),
)


@triton.jit
def product_kernel(a, a_scales, b, b_scales, c, weights, ids, experts, padded, N, K, valid, TOP: tl.constexpr, GATHER: tl.constexpr,
                   WEIGHT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, GM: tl.constexpr):  # fmt: skip
    pid = tl.program_id(0)
    rows_of_tiles = tl.cdiv(tl.load(padded), BM)
    columns_of_tiles = tl.cdiv(N, BN)
    if pid >= rows_of_tiles * columns_of_tiles:
        return
    span = GM * columns_of_tiles
    first = (pid // span) * GM
    size = min(rows_of_tiles - first, GM)
    m = first + (pid % span) % size
    n = (pid % span) // size
    row = tl.load(ids + m * BM + tl.arange(0, BM))
    exists = row < valid
    expert = tl.load(experts + m).to(tl.int64)
    source = row // TOP if GATHER else row
    column = n * BN + tl.arange(0, BN)
    k = tl.arange(0, 128)
    blocks = K // 128
    a_at = a + source.to(tl.int64)[:, None] * K + k[None, :]
    b_at = b + expert * N * K + column.to(tl.int64)[None, :] * K + k[:, None]
    a_scale_at = a_scales + source * blocks
    b_scale_at = b_scales + expert * (N // 128) * blocks + (column // 128) * blocks
    total = tl.zeros((BM, BN), tl.float32)
    for block in range(blocks):
        x = tl.load(a_at, mask=exists[:, None], other=0.0)
        w = tl.load(b_at)
        scale = tl.load(a_scale_at + block, mask=exists, other=0.0)[:, None] * tl.load(b_scale_at + block)[None, :]
        total += tl.dot(x, w) * scale
        a_at += 128
        b_at += 128
    if WEIGHT:
        total *= tl.load(weights + row, mask=exists, other=0.0)[:, None]
    tl.store(c + row.to(tl.int64)[:, None] * N + column[None, :], total.to(tl.bfloat16), mask=exists[:, None])


@triton.jit
def quantize_kernel(x, codes, scales, K, GATED: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    at = block * 128 + tl.arange(0, 128)
    if GATED:
        gate = tl.load(x + row * 2 * K + at).to(tl.float32)
        value = gate * tl.sigmoid(gate) * tl.load(x + row * 2 * K + K + at).to(tl.float32)
    else:
        value = tl.load(x + row * K + at).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(value)), 1e-10) / 448.0
    tl.store(codes + row * K + at, (value / scale).to(tl.float8e4nv))
    tl.store(scales + row * (K // 128) + block, scale)


@triton.jit
def sum_kernel(y, out, H, TOP: tl.constexpr, WIDTH: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    total = tl.zeros((WIDTH,), tl.float32)
    for choice in range(TOP):
        total += tl.load(y + (token * TOP + choice) * H + at).to(tl.float32)
    tl.store(out + token * H + at, total.to(tl.bfloat16))


def sorted_ids(ids: torch.Tensor, experts: int, block: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The choices by expert, padded to whole blocks. Also the expert of each block and the number of rows."""
    flat, device = ids.flatten(), ids.device
    counts = torch.bincount(flat, minlength=experts)
    padded = (counts + block - 1) // block * block
    rows = torch.full((int(padded.sum()),), flat.numel(), device=device, dtype=torch.int32)
    start = padded.cumsum(0) - padded
    order = torch.argsort(flat, stable=True)
    expert = flat[order]
    within = torch.arange(flat.numel(), device=device) - (counts.cumsum(0) - counts)[expert]
    rows[start[expert] + within] = order.to(torch.int32)
    blocks = torch.repeat_interleave(torch.arange(experts, device=device, dtype=torch.int32), padded // block)
    return rows, blocks, padded.sum().to(torch.int32).reshape(1)


class TritonLayer:
    """x bf16 [T, hidden]; up and down are tilewright's Quantized of recipe 128x128. `tune` chooses both configurations."""

    def __init__(self, x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, up: Any, down: Any):
        tokens, hidden = x.shape
        inner, top = down.values.shape[2], ids.shape[1]
        rows = tokens * top
        empty = lambda *shape, dtype=torch.float32: torch.empty(*shape, device=x.device, dtype=dtype)  # noqa: E731
        self.x, self.ids, self.weights, self.up, self.down = x, ids, weights.flatten().contiguous(), up, down
        self.top, self.rows, self.hidden, self.inner = top, rows, hidden, inner
        self.codes, self.scales = empty(tokens, hidden, dtype=F8), empty(tokens, hidden // 128)
        self.gate_up = empty(rows, 2 * inner, dtype=torch.bfloat16)
        self.h, self.h_scales = empty(rows, inner, dtype=F8), empty(rows, inner // 128)
        self.y, self.out = empty(rows, hidden, dtype=torch.bfloat16), empty(tokens, hidden, dtype=torch.bfloat16)
        self.products: list[Callable[[], Any]] = []

    def product(self, first: bool, config: tuple[int, int, int, int, int]) -> Callable[[], Any]:
        block_m, block_n, group_m, warps, stages = config
        weights = self.up if first else self.down
        a, a_scales, out = (self.codes, self.scales, self.gate_up) if first else (self.h, self.h_scales, self.y)
        n, k = weights.values.shape[1:]
        rows, blocks, padded = sorted_ids(self.ids, weights.values.shape[0], block_m)
        grid = (triton.cdiv(rows.numel(), block_m) * triton.cdiv(n, block_n),)
        scales = weights.scales.contiguous()
        return lambda: product_kernel[grid](
            a, a_scales, weights.values.view(F8), scales, out, self.weights, rows, blocks, padded, n, k, self.rows, TOP=self.top,
            GATHER=first, WEIGHT=not first, BM=block_m, BN=block_n, GM=group_m, num_warps=warps, num_stages=stages,
        )  # fmt: skip

    def quantize(self) -> None:
        quantize_kernel[(self.x.shape[0], self.hidden // 128)](self.x, self.codes, self.scales, self.hidden, GATED=False)

    def activate(self) -> None:
        quantize_kernel[(self.rows, self.inner // 128)](self.gate_up, self.h, self.h_scales, self.inner, GATED=True)

    def sum(self) -> None:
        width = 256 if self.hidden % 256 == 0 else 128
        sum_kernel[(self.x.shape[0], self.hidden // width)](self.y, self.out, self.hidden, TOP=self.top, WIDTH=width)

    def tune(self, time: Callable[[Callable[[], Any]], float]) -> list[tuple[float, tuple[int, ...]]]:
        """The best time and configuration of each product."""
        tokens, best = self.x.shape[0], []
        self.quantize()
        for first in (True, False):
            times = []
            for config in CONFIGS:
                if (tokens <= 8 and config[0] > 32) or (tokens >= 4096 and config[0] < 64):
                    continue
                try:
                    call = self.product(first, config)
                    times.append((time(call), config, call))
                except Exception:  # a configuration that needs more shared memory than there is
                    continue
            us, config, call = min(times, key=lambda each: each[0])
            best.append((us, config))
            self.products.append(call)
            if first:
                call()
                self.activate()
        return best

    def __call__(self) -> torch.Tensor:
        self.quantize()
        self.products[0]()
        self.activate()
        self.products[1]()
        self.sum()
        return self.out
