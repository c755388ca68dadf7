"""A layer of experts by triton_kernels, Triton's library for gpt-oss: bf16 tokens, MXFP4 weights, biases and the unit of gpt-oss.

It is called as vLLM calls it on Hopper. Choices are sorted by its `routing`. The first product gathers tokens and ends with the unit.
The second one multiplies by the weights of the choices, and a kernel after it adds a token's rows. The page of benchmarks says where
the package comes from.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from training_contestant import MissingError

SCALES_AT_ONCE = 4  # of a row, which the kernel reads for 128 k-elements, also where k ends earlier
SCALE_WARPS = 8  # for which scales are laid out, as in vLLM


def module(name: str) -> Any:
    try:
        return importlib.import_module(f"triton_kernels.{name}")
    except Exception as why:  # another release, or another package of this name
        raise MissingError(f"triton_kernels cannot be imported: {why or type(why).__name__}") from why


class Product(NamedTuple):
    """The weights of one product as the kernel reads them."""

    values: Any
    precision: Any
    bias: torch.Tensor


def product(codes: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor) -> Product:
    """codes: uint8 [experts, n, k / 2], low nibble first. scales: uint8 [experts, n, k / 32]. bias: float32 [experts, n]."""
    tensor, layout, matmul = module("tensor"), module("tensor_details.layout"), module("matmul_ogs")
    scales = F.pad(scales, (0, -scales.shape[-1] % SCALES_AT_ONCE))
    of_values, values_options = layout.make_default_matmul_mxfp4_w_layout(mx_axis=1)
    of_scales, scales_options = layout.make_default_matmul_mxfp4_w_scale_layout(mx_axis=1, num_warps=SCALE_WARPS)
    values = tensor.convert_layout(tensor.wrap_torch_tensor(codes.mT, dtype=tensor.FP4), of_values, **values_options)
    laid_out = tensor.convert_layout(tensor.wrap_torch_tensor(scales.mT), of_scales, **scales_options)
    return Product(values, matmul.PrecisionConfig(weight_scale=laid_out), bias)


class TritonKernelsLayer:
    """x bf16 [T, hidden], logits float32 [T, experts], ids int32 [T, top]. Choices weigh the softmax of their logits."""

    def __init__(self, x: torch.Tensor, logits: torch.Tensor, ids: torch.Tensor, up: Product, down: Product, alpha: float, limit: float):
        self.matmul, self.routing = module("matmul_ogs"), module("routing").routing
        # Split sums run the unit in another kernel. vLLM sets this on Hopper.
        module("matmul_ogs_details.opt_flags").update_opt_flags_constraints({"split_k": 1})
        self.x, self.logits, self.ids, self.up, self.down = x, logits, ids, up, down
        specs = self.matmul.FnSpecs("swiglu", module("swiglu").swiglu_fn, ("alpha", "limit"))
        self.unit = self.matmul.FusedActivation(specs, (alpha, limit), 2)
        self.routed = self.sorted_choices()

    def sorted_choices(self) -> Any:
        return self.routing(self.logits, self.ids.shape[1], expt_indx=self.ids)

    def sorted_top(self) -> Any:
        """From the logits, by its top-k."""
        return self.routing(self.logits, self.ids.shape[1])

    def products(self, routed: Any = None) -> torch.Tensor:
        data, gather, scatter = routed or self.routed
        up, down = self.up, self.down
        h = self.matmul.matmul_ogs(self.x, up.values, up.bias, data, gather_indx=gather, precision_config=up.precision,
                                   fused_activation=self.unit)  # fmt: skip
        return self.matmul.matmul_ogs(h, down.values, down.bias, data, scatter_indx=scatter, precision_config=down.precision,
                                      gammas=data.gate_scal)  # fmt: skip

    def from_logits(self) -> torch.Tensor:
        return self.products(self.sorted_top())

    def __call__(self) -> torch.Tensor:
        return self.products(self.sorted_choices())
