"""The peers of moe_layer.py, each measured after its result is compared with ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from deep_gemm_call import FUNCTIONS
from measuring import words_of
from moe_cases import ALPHA, LIMIT, Layer, Routed, Weights
from training_contestant import MOST_ERROR, deep_gemm, named
from triton_kernels_layer import TritonKernelsLayer

# Against our fp8 layers. triton and deep_gemm quantize h after other roundings; torch multiplies bf16 weights. In gpt-oss all have the
# same operands.
MOST_ERRORS_OF_FP8 = {"triton": 0.03, "deep_gemm": 0.03, "torch": 0.08}
DEEP_GEMM_TOKENS = 512  # from which engines take its contiguous product
Clock = Callable[..., float]
"""Microseconds of a call, with a number of repeats."""


def torch_chain(layer: Layer, given: Routed, weights: Weights) -> Callable[[], Any]:
    up, down = (each.transpose(1, 2) for each in weights.real)
    up_bias, down_bias = weights.biases or (None, None)
    tokens, device = given.x.shape[0], given.x.device

    def activate(z: torch.Tensor, order: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        if up_bias is None:
            return F.silu(z[:, : layer.inner].float()).mul(z[:, layer.inner :].float()).to(torch.bfloat16)
        z = z.float() + up_bias[chosen[order]]
        gate, linear = z[:, 0::2].clamp(max=LIMIT), z[:, 1::2].clamp(-LIMIT, LIMIT)
        return (gate * torch.sigmoid(ALPHA * gate) * (linear + 1)).to(torch.bfloat16)

    def combine(y: torch.Tensor, order: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        back = torch.empty_like(order)
        back.scatter_(0, order, torch.arange(order.numel(), device=device))
        rows = y[back].float() if down_bias is None else y[back].float() + down_bias[chosen]
        return (rows.view(tokens, layer.top, layer.hidden) * given.weights[..., None]).sum(1).to(torch.bfloat16)

    def route() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        flat = given.ids.flatten().long()
        order = torch.argsort(flat, stable=True)
        counts = torch.zeros(layer.experts, dtype=torch.int64, device=device).scatter_add_(0, flat, torch.ones_like(flat))
        return flat, order, counts.cumsum(0).to(torch.int32)

    torch._dynamo.reset()  # otherwise the ninth size is not compiled
    activate_compiled, combine_compiled = torch.compile(activate, dynamic=False), torch.compile(combine, dynamic=False)

    def call() -> torch.Tensor:
        chosen, order, ends = route()
        gate_up = torch._grouped_mm(given.x[order // layer.top], up, offs=ends)
        return combine_compiled(torch._grouped_mm(activate_compiled(gate_up, order, chosen), down, offs=ends), order, chosen)

    return call


def error(given: torch.Tensor, expected: torch.Tensor) -> float:
    return float((given.float() - expected.float()).norm() / expected.float().norm())


class Contest:
    """The peers of a layer, each measured after its result is compared with ours."""

    def __init__(self, layer: Layer, given: Routed, weights: Weights, ours: torch.Tensor, clock: Clock):
        self.layer, self.given, self.weights, self.ours, self.clock = layer, given, weights, ours, clock

    def checked(self, peer: str, result: torch.Tensor) -> float:
        off, most = error(self.ours, result), MOST_ERROR if self.layer.is_gpt_oss else MOST_ERRORS_OF_FP8[peer]
        if not off <= most:  # also for NaN
            raise ArithmeticError(f"wrong result, off by {off:.2g}; {most} is allowed")
        return off

    def triton(self) -> dict[str, float]:
        if self.layer.is_gpt_oss:
            return {}
        from triton_moe import SORTING_US, TritonLayer

        triton = TritonLayer(self.given.x, self.given.ids.long(), self.given.weights, *self.weights.ours)
        tuned = triton.tune(lambda call: self.clock(call, 7))
        off = self.checked("triton", triton())
        return {"triton_us": self.clock(triton) + SORTING_US, "triton_products_us": sum(us for us, _ in tuned), "triton_error": off}

    def deep_gemm(self) -> dict[str, float]:
        if self.layer.is_gpt_oss or self.given.x.shape[0] < DEEP_GEMM_TOKENS:
            return {}
        from deep_gemm_moe import DeepGemmLayer
        from triton_moe import SORTING_US

        product = named(deep_gemm(), *FUNCTIONS["contiguous"])
        layer = DeepGemmLayer(product, self.given.x, self.given.ids, self.given.weights, *self.weights.ours)
        off = self.checked("deep_gemm", layer())
        return {"deep_gemm_us": self.clock(layer) + SORTING_US, "deep_gemm_error": off}

    def triton_kernels(self) -> dict[str, float]:
        """Also with top-k, as vLLM calls it, and without sorting the choices."""
        if not self.layer.is_gpt_oss:
            return {}
        given = self.given
        peer = TritonKernelsLayer(given.x, given.logits, given.ids, *self.weights.triton_kernels, ALPHA, LIMIT)
        off = self.checked("triton_kernels", peer())
        self.checked("triton_kernels", peer.from_logits())
        return {"triton_kernels_us": self.clock(peer), "triton_kernels_logits_us": self.clock(peer.from_logits),
                "triton_kernels_products_us": self.clock(peer.products), "triton_kernels_error": off}  # fmt: skip

    def torch(self) -> dict[str, float]:
        chain = torch_chain(self.layer, self.given, self.weights)
        off = self.checked("torch", chain())
        return {"torch_us": self.clock(chain), "torch_error": off}

    def measured(self, peers: list[str]) -> dict[str, Any]:
        """The fields of all peers. Those that fail are in `missing`, with the reason."""
        fields: dict[str, Any] = {"missing": {}}
        known = {"triton": self.triton, "deep_gemm": self.deep_gemm, "triton_kernels": self.triton_kernels, "torch": self.torch}
        for peer, measure_peer in known.items():
            if peer in peers:
                try:
                    fields |= measure_peer()
                except Exception as why:  # of other libraries: anything
                    fields["missing"][peer] = words_of(why)
        return fields
