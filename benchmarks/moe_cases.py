"""Layers of experts that moe_layer.py times: their sizes, choices of tokens, and weights in every form that a contestant reads."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tilewright as tw
import torch
from triton_kernels_layer import product


class Layer(NamedTuple):
    name: str
    experts: int
    top: int
    hidden: int
    inner: int
    is_gpt_oss: bool = False


LAYERS = (Layer("Qwen3-30B-A3B", 128, 8, 2048, 768), Layer("Qwen3-235B-A22B", 128, 8, 4096, 1536),
          Layer("gpt-oss-20b", 32, 4, 2880, 2880, True), Layer("gpt-oss-120b", 128, 4, 2880, 2880, True))  # fmt: skip
TINY = (Layer("tiny fp8", 8, 2, 256, 128), Layer("tiny gpt-oss", 8, 2, 96, 160, True))
ALPHA, LIMIT = 1.702, 7.0  # of SwiGLU in gpt-oss


def random_layers(count: int, seed: int) -> Iterator[Layer]:
    draw = random.Random(seed)
    for index in range(count):
        experts = draw.choice((16, 32, 64, 96, 128, 160))
        top = min(draw.choice((1, 2, 4, 6, 8)), experts)
        yield Layer(f"random {index}", experts, top, draw.randrange(8, 40) * 128, draw.randrange(3, 17) * 128)


class Routed(NamedTuple):
    x: torch.Tensor
    logits: torch.Tensor
    ids: torch.Tensor
    weights: torch.Tensor


def routed(layer: Layer, tokens: int, skew: bool, device: str) -> Routed:
    """Random tokens and choices. skew: one expert is chosen 30 times as often, and half of the experts never."""
    x = torch.randn(tokens, layer.hidden, device=device, dtype=torch.bfloat16)
    logits = torch.randn(tokens, layer.experts, device=device)
    if skew:
        logits[:, layer.experts // 2 :] = -100
        logits[:, 0] += 3.4
    chosen, ids = torch.topk(logits, layer.top)
    weights = chosen.softmax(-1) if layer.is_gpt_oss else logits.softmax(-1).gather(1, ids)
    return Routed(x, logits, ids.to(torch.int32), weights)


def weights_of(layer: Layer, device: str) -> list[torch.Tensor]:
    up = torch.randn(layer.experts, 2 * layer.inner, layer.hidden, device=device, dtype=torch.bfloat16) * layer.hidden**-0.5
    down = torch.randn(layer.experts, layer.hidden, layer.inner, device=device, dtype=torch.bfloat16) * layer.inner**-0.5
    return [up, down]


def reals(mxfp4: Any) -> torch.Tensor:
    """The bf16 numbers of MXFP4 weights, on their device."""
    codes, scales = mxfp4.values.view(torch.uint8), mxfp4.scales.view(torch.uint8)
    pairs = torch.tensor(tw.decode(np.arange(256, dtype=np.uint8), "e2m1").reshape(256, 2).tolist(), device=codes.device)
    of_experts = []
    for of_codes, of_scales in zip(codes, scales, strict=True):  # indices of all experts would be four times the codes
        blocks = pairs[of_codes.int()].view(*of_scales.shape, -1)
        of_experts.append((blocks * (of_scales.int() << 23).view(torch.float32)[..., None]).flatten(1).to(torch.bfloat16))
    return torch.stack(of_experts)


class Weights:
    """One layer's weights in all forms, made once for all numbers of tokens."""

    def __init__(self, layer: Layer, peers: list[str], device: str):
        self.real = weights_of(layer, device)
        self.codes = [tw.quantize(each, "mxfp4") for each in self.real] if layer.is_gpt_oss or "mxfp4" in peers else []
        self.biases: list[torch.Tensor] = []
        self.options: dict[str, Any] = {}
        if layer.is_gpt_oss:
            self.real = [reals(each) for each in self.codes]
            self.biases = [torch.randn(each.shape[:2], device=device) for each in self.real]
            self.options = {"up_bias": self.biases[0], "down_bias": self.biases[1], "alpha": ALPHA, "beta": 1.0, "limit": LIMIT,
                            "interleaved": True}  # fmt: skip
            self.ours = [tw.pack_weights(each, "bf16") for each in self.codes]
        else:
            self.ours = [tw.quantize(each, "128x128") for each in self.real]
        self.mxfp4 = [tw.pack_weights(each, "fp8") for each in self.codes] if "mxfp4" in peers else []

    @functools.cached_property
    def triton_kernels(self) -> list[Any]:
        return [product(each.values.view(torch.uint8), each.scales.view(torch.uint8), bias)
                for each, bias in zip(self.codes, self.biases, strict=True)]  # fmt: skip


def products(layer: Layer, given: Routed, weights: Weights) -> list[Callable[[], Any]]:
    """Only the products of the layer, of rows that are sorted already."""
    order = torch.argsort(given.ids.flatten(), stable=True)
    ends = torch.bincount(given.ids.flatten(), minlength=layer.experts).cumsum(0).to(torch.int32)
    sorted_x, (up, down) = given.x[order // layer.top], weights.ours
    up_bias, down_bias = weights.biases or (None, None)
    rows = sorted_x if layer.is_gpt_oss else tw.quantize_tokens(sorted_x, ends, rows="1x128")[0]
    gate_up = tw.grouped_gemm(rows, up, offsets=ends, bias=up_bias)
    # The time does not depend on h's values, so bf16 takes the gates.
    h = gate_up[:, ::2].contiguous() if layer.is_gpt_oss else tw.quantize_tokens(gate_up, ends, rows="1x128", activation="swiglu")[0]
    y = torch.empty(order.numel(), layer.hidden, device=given.x.device, dtype=torch.bfloat16)
    return [
        lambda: tw.grouped_gemm(rows, up, offsets=ends, bias=up_bias, out=gate_up),
        lambda: tw.grouped_gemm(h, down, offsets=ends, bias=down_bias, out=y),
    ]
