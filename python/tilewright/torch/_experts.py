"""A layer of experts as a module that owns its weights."""

from __future__ import annotations

import math
from typing import Any

import torch

from tilewright._moe import Unit as UnitName
from tilewright._moe import WeightsAt
from tilewright.torch import _moe_checks
from tilewright.torch._expert_group import ExpertGroup, check_group
from tilewright.torch._linear import Kept
from tilewright.torch._moe import call
from tilewright.torch._quantized_module import QuantizedModule, check_sizes
from tilewright.torch._recipes import RECIPES, GradientFormat
from tilewright.torch._units import Unit, numbers_of


class _ExpertsModule(QuantizedModule):
    """Two weights and their biases."""

    weight_names = ("up", "down")
    up: torch.nn.Parameter
    down: torch.nn.Parameter
    up_bias: torch.nn.Parameter | None
    down_bias: torch.nn.Parameter | None


class Experts(_ExpertsModule):
    """The experts of a mixture: up, a unit such as SwiGLU, and down, with fp8 products in forward, dgrad and wgrad.

    The call `layer(x, experts, weights)` maps tokens x [..., hidden] to results of the same shape and dtype. Each token chose
    experts [..., k], which have weights [..., k]:

        layer = tilewright.torch.Experts(128, 2048, 768, device="cuda", dtype=torch.bfloat16)
        weights, experts = router(x).softmax(-1).topk(8)
        layer(x, experts, weights).sum().backward()

    A number that names no expert is skipped. Tokens are not sorted or padded by the caller, and the host reads nothing.

    For inference, `freeze()` quantizes the weights once for all calls. Call `refresh()` after a write to a weight, and
    `unfreeze()` to train again.

    Args:
        num_experts: the number of experts.
        hidden: the columns of x.
        inner: the features between the two products.
        bias: whether each product has a bias. Default False.
        recipe: scaling of the products: "row", "tensor", "1x128" (default), "1x128:128x128" or "fold". See `RECIPES`.
        activation: "swiglu" (default), "situ", "geglu" or "relu_squared". `tilewright.moe` has their formulas.
        alpha, beta, limit: numbers of swiglu. Default: 1, 0 and infinity.
        gate_bound, up_bound: numbers of situ. Default: 4 and 25.
        interleaved: True: gates and ups alternate along the rows of up. Default False.
        weights_at: what the weight multiplies, as in `moe`: "combine", "activation" or "input". Default "combine".
        shared: the last `shared` experts take every token, with weight 1. Default 0.
        gradient_format: format of the gradients in dgrad and wgrad, "e4m3" (default) or "e5m2".
        promoted: float32 sums every 128 products (default True). `grouped_linear` describes False.
        keep: what forward keeps for dgrad. With "copy" (default) it is the fp8 copies of the weights, with "weight" the weights
            themselves. A layer whose weights FSDP shards keeps the weights themselves in both cases.
        group: the ranks over which the experts are spread. `num_experts` is then `group.per_rank`, the experts of this rank, and
            all ranks make each call. Default None: one rank.
        device: device of the parameters. Default: torch's default device.
        dtype: dtype of the parameters, torch.float32 (default) or torch.bfloat16.

    Attributes:
        up: Parameter [num_experts, 2 * inner, hidden], gates first, then ups, or interleaved. relu_squared: [num_experts, inner,
            hidden]. If it has an attribute `main_grad`, its gradient is added to that buffer. See `grouped_linear`.
        down: Parameter [num_experts, hidden, inner]. It may have `main_grad` too.
        up_bias, down_bias: Parameters [num_experts, rows of up] and [num_experts, hidden], or None.

    Raises:
        ValueError: a wrong option here, or a wrong argument in a call. The message names it, as in `moe`.
    """

    def __init__(
        self,
        num_experts: int,
        hidden: int,
        inner: int,
        bias: bool = False,
        *,
        recipe: str = "1x128",
        activation: UnitName = "swiglu",
        alpha: float = 1.0,
        beta: float = 0.0,
        limit: float = math.inf,
        gate_bound: float = 4.0,
        up_bound: float = 25.0,
        interleaved: bool = False,
        weights_at: WeightsAt = "combine",
        shared: int = 0,
        gradient_format: GradientFormat = "e4m3",
        promoted: bool = True,
        keep: Kept = "copy",
        group: ExpertGroup | None = None,
        device: Any = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        check_sizes(1, num_experts=num_experts, hidden=hidden, inner=inner)
        unit = Unit(activation, *numbers_of(alpha, beta, limit, gate_bound, up_bound), interleaved)
        _moe_checks.check_unit(unit)
        _moe_checks.check_place(weights_at)
        rows = unit.gates * inner
        shapes: dict[str, tuple[int, ...]] = {"up": (num_experts, rows, hidden), "down": (num_experts, hidden, inner)}
        if bias:
            shapes |= {"up_bias": (num_experts, rows), "down_bias": (num_experts, hidden)}
        super().__init__(shapes, recipe, gradient_format, promoted, keep, device, dtype)
        _moe_checks.check_shared(shared, num_experts)
        check_group(group)
        if group is not None:
            group.check_layer(num_experts, hidden, shared, RECIPES[recipe].activations)
        self.unit, self.weights_at, self.shared, self.group = unit, weights_at, shared, group
        if not bias:
            self.register_parameter("up_bias", None)
            self.register_parameter("down_bias", None)

    def forward(
        self,
        x: torch.Tensor,
        experts: torch.Tensor,
        weights: torch.Tensor | None = None,
        *,
        addend: torch.Tensor | None = None,
        expert_map: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The layer's result, of the shape and dtype of x. `moe` describes the arguments."""
        up, down = self.up, self.down
        copies = self._frozen_copy("up", up), self._frozen_copy("down", down)
        frozen = None if copies[0] is None or copies[1] is None else (copies[0], copies[1])
        how = (self.recipe, self.gradient_format, self.promoted, self._keeps)
        main_grads = (getattr(up, "main_grad", None), getattr(down, "main_grad", None))
        rest = (self.up_bias, self.down_bias, addend, expert_map, self.shared)
        return call(x, experts, weights, up, down, rest, main_grads, how, self.unit, self.weights_at, None, frozen, self.group)

    def extra_repr(self) -> str:
        """The shapes and the options, for repr(layer)."""
        unit = "" if self.unit.kind == "swiglu" else f", activation={self.unit.kind}"
        experts, hidden, inner = self.down.shape
        group = "" if self.group is None else f", rank {self.group.rank} of {self.group.size}"
        return self._extra_repr([experts, hidden, inner], self.up_bias is not None) + unit + group
