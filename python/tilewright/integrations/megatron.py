"""The experts of Megatron-core: a module with fp8 products in place of SequentialMLP, GroupedMLP and TEGroupedMLP.

    spec = get_gpt_decoder_block_spec(config, use_transformer_engine=True)
    tilewright.integrations.megatron.use_experts(spec, recipe="1x128")

Rows come sorted by expert, with their numbers on the host or the device. The module computes them by `tilewright.torch.moe`. It is
built only where it computes what the configuration says. Another option raises `Unfit`, which names it. See docs/megatron.md.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import torch
from megatron.core.activations import fast_gelu, quick_gelu, squared_relu
from megatron.core.tensor_parallel import (
    get_cuda_rng_tracker,
    get_expert_parallel_rng_tracker_name,
    set_tensor_model_parallel_attributes,
)
from megatron.core.transformer.module import MegatronModule
from megatron.core.transformer.moe.moe_layer import MoESubmodules
from megatron.core.transformer.spec_utils import ModuleSpec

from tilewright.integrations._fit import check_device, tested_version, unfit
from tilewright.integrations._megatron_state import Place, forget_extra_states, sharded, stack_experts
from tilewright.integrations._units import gated_unit
from tilewright.torch import _checks, moe
from tilewright.torch._units import Unit

TESTED = ("0.16.1",)

# The units of a TransformerConfig: activation_func and gated_linear_unit, then a name and a number of `gated_unit`.
_UNITS: dict[tuple[Any, bool], tuple[str, float | None]] = {
    (torch.nn.functional.silu, True): ("silu", None),
    (quick_gelu, True): ("silu", 1.702),
    (fast_gelu, True): ("gelu_tanh", None),
    (squared_relu, False): ("relu2", None),
}

# Options that change the numbers or the memory of experts, and that the module does not have: the value that fits, and why.
_FITTING: dict[str, tuple[object, str]] = {
    "fp4": (None, "products of experts are fp8"),
    "use_te_activation_func": (False, "the unit is part of the layer"),
    "activation_func_fp8_input_store": (False, "backward reads the unit's input in bfloat16"),
    "delay_wgrad_compute": (False, "backward computes dW together with dX"),
    "fine_grained_activation_offloading": (False, "nothing of the layer is offloaded"),
    "init_model_with_meta_device": (False, "Megatron FSDP is not supported"),
}


def unit_of(config: Any) -> Unit:
    """The unit of a TransformerConfig. Raises `Unfit` if the library does not have it."""
    func, gated = config.activation_func, config.gated_linear_unit
    if (func, gated) not in _UNITS:
        known = ", ".join(key[0].__name__ for key in _UNITS if key[1] == gated)
        # Torch's gelu is the exact one, and the library has its tanh form.
        unfit("activation_func", getattr(func, "__name__", repr(func)), f"one of {known} with gated_linear_unit={gated}")
    name, alpha = _UNITS[func, gated]
    offset, limit = (config.glu_linear_offset, config.activation_func_clamp_value) if gated else (0, None)
    if name != "silu" and offset != 0:
        unfit("glu_linear_offset", offset, f"0 with {func.__name__}")
    return gated_unit(name, alpha, offset, limit, gated=gated)


def check_config(config: Any) -> None:
    """Raises `Unfit`, which names the option, if the module does not compute experts of this TransformerConfig."""
    for option, (value, reason) in _FITTING.items():
        if getattr(config, option, value) != value:
            unfit(option, repr(getattr(config, option)), f"{value}, because {reason}")
    if config.recompute_granularity == "selective" and "moe_act" in config.recompute_modules:
        unfit("recompute_modules", "moe_act", "none, because the layer keeps the unit's result in fp8")
    if config.params_dtype not in (torch.float32, torch.bfloat16):
        unfit("params_dtype", config.params_dtype, "torch.float32 or torch.bfloat16")
    if config.moe_apply_probs_on_input and config.moe_router_topk != 1:
        unfit("moe_router_topk", config.moe_router_topk, "1 with moe_apply_probs_on_input")
    unit_of(config)


class _Weights(torch.nn.Module):
    """Weights [experts, n, k] of one product and biases [experts, n]. Megatron-LM knows a bias by the end of its name."""

    bias: torch.nn.Parameter | None

    def __init__(self, shape: tuple[int, int, int], bias: bool, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        made = torch.nn.Parameter(torch.zeros(shape[:2], device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", made)


class TilewrightExperts(MegatronModule):
    """The local experts of a layer, with the calls and the distributed checkpoints of SequentialMLP.

    Args:
        num_local_experts: the experts of this rank.
        config: the TransformerConfig. `check_config` says what fits.
        pg_collection: the process groups. Those that are read are ep, expt_tp, which must have one rank, and expt_dp.
        recipe, gradient_format, promoted, keep: as in `tilewright.torch.moe`. A ModuleSpec has them in `params`.

    Attributes:
        linear_fc1.weight: Parameter [num_local_experts, 2 * inner, hidden], gates first; without gates: inner rows.
        linear_fc2.weight: Parameter [num_local_experts, hidden, inner].
        linear_fc1.bias, linear_fc2.bias: Parameters [num_local_experts, rows of the weight], or None.

    Raises:
        Unfit: an option of the configuration or the device does not fit. The message names it.
        ValueError: a wrong recipe, gradient_format, promoted or keep.
    """

    def __init__(
        self,
        num_local_experts: int,
        config: Any,
        pg_collection: Any,
        *,
        recipe: str = "1x128",
        gradient_format: str = "e4m3",
        promoted: bool = True,
        keep: str = "copy",
    ) -> None:
        super().__init__(config=config)
        tested_version("Megatron-core", "megatron-core", TESTED)
        check_config(config)
        _checks.check_recipe(recipe, gradient_format, promoted, keep)
        if pg_collection.expt_tp.size() != 1:
            unfit("expert_tensor_parallel_size", pg_collection.expt_tp.size(), "1: use expert_model_parallel_size")
        device = torch.device("cpu") if config.use_cpu_initialization else torch.device("cuda", torch.cuda.current_device())
        check_device(device)
        self.num_local_experts = num_local_experts
        self.ep_group, self.dp_group = pg_collection.ep, pg_collection.expt_dp
        unit = unit_of(config)
        hidden, inner = config.moe_latent_size or config.hidden_size, config.moe_ffn_hidden_size
        made = functools.partial(_Weights, bias=config.add_bias_linear, device=device, dtype=config.params_dtype)
        self.gates = unit.gates
        self.linear_fc1 = made((num_local_experts, unit.gates * inner, hidden))
        self.linear_fc2 = made((num_local_experts, hidden, inner))
        for parameter in self.parameters():
            parameter.allreduce = config.expert_model_parallel_size == 1  # False: only ranks with these experts reduce its gradient
            # Else the norm of all gradients leaves it out on every rank of tensor parallelism but the first.
            set_tensor_model_parallel_attributes(parameter, is_parallel=True, dim=0, stride=1)
        if config.perform_initialization:
            self._initialize(self.linear_fc1.weight.data, config.init_method)
            self._initialize(self.linear_fc2.weight.data, config.output_layer_init_method)
        # A weight also multiplies the bias of linear_fc2. Without a bias it multiplies the unit's result, as in SequentialMLP.
        weights_at = "input" if config.moe_apply_probs_on_input else "combine" if config.add_bias_linear else "activation"
        self.options = {**unit.keywords, "weights_at": weights_at, "recipe": recipe}
        self.options |= {"gradient_format": gradient_format, "promoted": promoted, "keep": keep}
        self.register_load_state_dict_pre_hook(stack_experts)
        self.register_load_state_dict_post_hook(forget_extra_states)

    def _initialize(self, weight: torch.Tensor, init_method: Any) -> None:
        if not self.config.use_cpu_initialization:
            with get_cuda_rng_tracker().fork(get_expert_parallel_rng_tracker_name()):
                for expert in weight:
                    init_method(expert)
            return
        drawn, first = torch.empty(weight.shape[1:]), self.ep_group.rank() * self.num_local_experts
        for i in range(self.ep_group.size() * self.num_local_experts):  # all ranks draw the same numbers: each keeps its own
            init_method(drawn)
            if first <= i < first + self.num_local_experts:
                weight[i - first].copy_(drawn)

    def forward(
        self, permuted_local_hidden_states: torch.Tensor, tokens_per_expert: torch.Tensor, permuted_probs: torch.Tensor
    ) -> tuple[torch.Tensor, None]:
        """The results of the rows, in the dtype of the hidden states, and no bias.

        Args:
            permuted_local_hidden_states: [rows, hidden], sorted by expert. Rows after those of the last expert get zeros.
            tokens_per_expert: integers [num_local_experts], on the host or the device. The host never waits for the device.
            permuted_probs: [rows], the weight of each row.
        """
        x, probs = permuted_local_hidden_states, permuted_probs
        ends = tokens_per_expert.to(device=x.device, dtype=torch.int64, non_blocking=True).cumsum(0)
        chosen = torch.searchsorted(ends, torch.arange(x.shape[0], device=x.device), right=True)  # rows after all: no expert
        probs = probs.float() if probs.dtype == torch.float64 else probs  # moe_router_dtype fp64
        up, down = self.linear_fc1, self.linear_fc2
        out = moe(
            x, chosen[:, None], probs.view(-1, 1), up.weight, down.weight, up_bias=up.bias, down_bias=down.bias,
            up_main_grad=self._main_grad(up.weight), down_main_grad=self._main_grad(down.weight), **self.options,
        )  # fmt: skip
        return out, None

    def _main_grad(self, weight: torch.Tensor) -> torch.Tensor | None:
        return getattr(weight, "main_grad", None) if self.config.gradient_accumulation_fusion else None

    def backward_dw(self) -> None:
        """Nothing: backward has computed the gradients of the weights."""

    def sharded_state_dict(self, prefix: str = "", sharded_offsets: tuple[Any, ...] = (), metadata: Any = None) -> dict[str, Any]:
        """The state for a distributed checkpoint, with the keys and global shapes of SequentialMLP."""
        single = bool((metadata or {}).get("singleton_local_shards", False))
        ranks, replica = self.ep_group, (0, 0, self.dp_group.rank())
        place = Place(prefix, sharded_offsets, ranks.rank(), ranks.size(), self.num_local_experts, replica, single)
        return sharded(self.state_dict(keep_vars=True), self.gates, place)


def experts(**options: Any) -> ModuleSpec:
    """The `experts` of MoESubmodules. The options are recipe, gradient_format, promoted and keep."""
    return ModuleSpec(module=TilewrightExperts, params=options)


def use_experts(spec: Any, **options: Any) -> int:
    """Puts the module into every MoE layer of the spec of a block or a layer, in place. Returns how many it met."""
    if isinstance(spec, MoESubmodules):
        spec.experts = experts(**options)
        return 1
    if isinstance(spec, list | tuple):
        return sum(use_experts(each, **options) for each in spec)
    if dataclasses.is_dataclass(spec) and not isinstance(spec, type):
        return sum(use_experts(getattr(spec, field.name), **options) for field in dataclasses.fields(spec))
    return 0
