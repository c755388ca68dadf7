"""Layers of experts as engines have them, and what they compute in float32."""

import math
from typing import NamedTuple

import tilewright as tw
import torch

EXPERTS, HIDDEN, INNER, TOKENS, TOP = 4, 256, 128, 9, 2


class Layer(NamedTuple):
    """The tensors of an engine, and the real weights that they stand for."""

    w1: torch.Tensor
    w2: torch.Tensor
    s1: torch.Tensor
    s2: torch.Tensor
    b1: torch.Tensor | None
    b2: torch.Tensor | None
    up: torch.Tensor
    down: torch.Tensor


def numbers(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def layer(recipe, seed=0, gates=2, bias=False):
    """recipe: "128x128" (FP8 in blocks) or "mxfp4"."""
    shapes = (EXPERTS, gates * INNER, HIDDEN), (EXPERTS, HIDDEN, INNER)
    up, down = (tw.quantize(3 * numbers(seed + i, *shape) * shape[2] ** -0.5, recipe) for i, shape in enumerate(shapes))
    biases = [numbers(seed + 2 + i, *shape[:2]).bfloat16() if bias else None for i, shape in enumerate(shapes)]
    return Layer(up.values, down.values, up.scales, down.scales, *biases, up.dequantize(), down.dequantize())


def tokens(seed=10, count=TOKENS, experts=EXPERTS):
    """x, weights and ids of a batch. One token chooses an expert twice."""
    x = numbers(seed, count, HIDDEN).bfloat16()
    scores = numbers(seed + 1, count, experts)
    weights, ids = scores.softmax(-1).topk(TOP)
    if count > 3:
        ids[3] = ids[3, :1]
    return x, weights.contiguous(), ids.int().contiguous()


def swiglu(gate, up, alpha=1.0, beta=0.0, limit=math.inf):
    gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (up + beta)


def halves(function, interleaved=False, **given):
    """A unit of gates and ups, as a function of rows of both."""

    def unit(rows):
        gate, up = (rows[..., 0::2], rows[..., 1::2]) if interleaved else rows.chunk(2, -1)
        return function(gate, up, **given)

    return unit


def rounded(x, fp8):
    """As the library rounds an operand: fp8 per 128, or bfloat16."""
    return tw.quantize(x.float(), "1x128").dequantize() if fp8 else x.bfloat16().float()


def row(layer, x, expert, unit, fp8):
    """One token through one expert, before its weight."""
    h = rounded(x, fp8) @ layer.up[expert].T + (0 if layer.b1 is None else layer.b1[expert].float())
    y = rounded(unit(h.bfloat16().float()), fp8) @ layer.down[expert].T
    return (y + (0 if layer.b2 is None else layer.b2[expert].float())).bfloat16().float()


def expected(layer, x, weights, ids, unit, fp8, on_input=None):
    """The sum of the layer in float32. ids: local, others are skipped. on_input: the dtype of inputs times their weights."""
    sums = torch.zeros(x.shape)
    for t, k in torch.cartesian_prod(torch.arange(ids.shape[0]), torch.arange(ids.shape[1])).tolist():
        e, w = int(ids[t, k]), float(weights[t, k])
        if 0 <= e < EXPERTS:
            scaled = (x[t].float() * w).to(on_input) if on_input else x[t]
            sums[t] += (1 if on_input else w) * row(layer, scaled[None], e, unit, fp8)[0]
    return sums


def close(given, wanted, limit=0.02):
    """The worst token's relative error is that of a few roundings to bfloat16, or of a code of fp8 that fell to the other side."""
    error = (given.float() - wanted).norm(dim=-1) / wanted.norm(dim=-1).clamp(min=1e-6)
    return bool((error < limit).all())
