"""A MoE layer of DeepGEMM's grouped products with Triton kernels between them, as engines build it: fp8, 1x128 : 128x128.

It is written for measuring only. The ids are sorted ahead of the timed calls, as for triton_moe.py. Groups are padded to 128 rows,
which DeepGEMM's contiguous product asks for. Rows of the padding are neither quantized nor activated.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

F8 = torch.float8_e4m3fn
ALIGNMENT = 128
BLOCK = 128


@triton.jit
def quantized(value):
    """Codes and scales of rows of 128 numbers."""
    scale = tl.maximum(tl.max(tl.abs(value), axis=1), 1e-10) / 448.0
    return (value / scale[:, None]).to(tl.float8e4nv), scale


@triton.jit
def permute_kernel(x, places, codes, scales, K, rows, TOP: tl.constexpr, BLOCKS: tl.constexpr):
    """A token is read and quantized once, and goes to the rows of its choices."""
    token = tl.program_id(0).to(tl.int64)
    block = tl.arange(0, BLOCKS)
    at = block[:, None] * 128 + tl.arange(0, 128)[None, :]
    exists = at < K
    values, of_blocks = quantized(tl.load(x + token * K + at, mask=exists, other=0.0).to(tl.float32))
    for choice in range(TOP):
        row = tl.load(places + token * TOP + choice).to(tl.int64)
        tl.store(codes + row * K + at, values, mask=exists)
        tl.store(scales + block * rows + row, of_blocks, mask=block * 128 < K)


@triton.jit
def activate_kernel(gate_up, groups, codes, scales, K, rows, BLOCKS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    if tl.load(groups + row) < 0:
        return
    block = tl.arange(0, BLOCKS)
    at = block[:, None] * 128 + tl.arange(0, 128)[None, :]
    exists = at < K
    gate = tl.load(gate_up + row * 2 * K + at, mask=exists, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * K + K + at, mask=exists, other=0.0).to(tl.float32)
    values, of_blocks = quantized(gate * tl.sigmoid(gate) * up)
    tl.store(codes + row * K + at, values, mask=exists)
    tl.store(scales + block * rows + row, of_blocks, mask=block * 128 < K)


@triton.jit
def sum_kernel(y, places, weights, out, H, TOP: tl.constexpr, WIDTH: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    exists = at < H
    total = tl.zeros((WIDTH,), tl.float32)
    for choice in range(TOP):
        row = tl.load(places + token * TOP + choice).to(tl.int64)
        weight = tl.load(weights + token * TOP + choice)
        total += weight * tl.load(y + row * H + at, mask=exists, other=0.0).to(tl.float32)
    tl.store(out + token * H + at, total.to(tl.bfloat16), mask=exists)


class DeepGemmLayer:
    """x bf16 [T, hidden]; up and down are tilewright's Quantized of recipe 128x128. `product` is DeepGEMM's contiguous one."""

    def __init__(self, product: Any, x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, up: Any, down: Any):
        experts, _, hidden = up.values.shape
        inner, device = down.values.shape[2], x.device
        flat = ids.flatten().long()
        counts = torch.bincount(flat, minlength=experts)
        padded = (counts + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        starts, rows = padded.cumsum(0) - padded, int(padded.sum())
        order = torch.argsort(flat, stable=True)
        within = torch.arange(flat.numel(), device=device) - (counts.cumsum(0) - counts)[flat[order]]
        self.places = torch.empty_like(flat).scatter_(0, order, starts[flat[order]] + within).to(torch.int32)
        self.groups = torch.full((rows,), -1, dtype=torch.int32, device=device)
        self.groups[self.places.long()] = flat.to(torch.int32)
        self.product, self.x, self.weights, self.top = product, x, weights.flatten().contiguous(), ids.shape[1]
        self.of_up = (up.values.view(F8), up.scales.contiguous())
        self.of_down = (down.values.view(F8), down.scales.contiguous())
        self.codes, self.scales = self.operand(rows, hidden)
        self.gate_up = torch.empty(rows, 2 * inner, device=device, dtype=torch.bfloat16)
        self.h, self.h_scales = self.operand(rows, inner)
        self.y = torch.empty(rows, hidden, device=device, dtype=torch.bfloat16)
        self.out = torch.empty(x.shape[0], hidden, device=device, dtype=torch.bfloat16)

    def operand(self, rows: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Values, and scales of which those of neighbouring rows are neighbours, as DeepGEMM takes them."""
        values = torch.zeros(rows, k, device=self.x.device, dtype=torch.uint8).view(F8)
        return values, torch.ones(triton.cdiv(k, BLOCK), rows, device=self.x.device).t()

    def __call__(self) -> torch.Tensor:
        (tokens, hidden), rows, inner = self.x.shape, self.groups.numel(), self.h.shape[1]
        blocks = triton.next_power_of_2(triton.cdiv(hidden, BLOCK))
        permute_kernel[(tokens,)](self.x, self.places, self.codes, self.scales, hidden, rows, TOP=self.top, BLOCKS=blocks, num_warps=8)
        self.product((self.codes, self.scales), self.of_up, self.gate_up, self.groups)
        blocks = triton.next_power_of_2(triton.cdiv(inner, BLOCK))
        activate_kernel[(rows,)](self.gate_up, self.groups, self.h, self.h_scales, inner, rows, BLOCKS=blocks)
        self.product((self.h, self.h_scales), self.of_down, self.y, self.groups)
        width = 1024
        sum_kernel[(tokens, triton.cdiv(hidden, width))](self.y, self.places, self.weights, self.out, hidden, TOP=self.top, WIDTH=width)
        return self.out
