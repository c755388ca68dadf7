"""SGLang's layers of experts on Tilewright: their operands and their call. Only `sglang.register` imports this file.

Tokens come from SGLang's standard dispatcher, in bfloat16, with local numbers of experts, -1 for those that are elsewhere. One
call of the library does the rest, so the runner has no steps before and after it (`DispatchMoeRunnerCore`).

FP8 weights in blocks stay where they are. MXFP4 weights are packed when they are loaded, and SGLang's copy is freed. Activations of
MXFP4 layers are bfloat16, because these checkpoints quantize weights only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from sglang.srt.layers.moe.moe_runner import MoeRunner
from sglang.srt.layers.moe.moe_runner.base import DispatchMoeRunnerCore, MoeQuantInfo
from sglang.srt.layers.moe.token_dispatcher.standard import StandardCombineInput
from sglang.srt.layers.moe.utils import resolve_moe_runner_backend

from tilewright.integrations._experts import ExpertLayer, fp8_blocks, mxfp4
from tilewright.integrations._fit import Unfit, mxfp4_activations, unfit
from tilewright.integrations._sglang_fit import Server, check, decline_layer, is_mxfp4, name_of, say, unit_of
from tilewright.integrations._weights import BLOCK
from tilewright.integrations.sglang import NAME

_WEIGHTS = ("w13_weight", "w2_weight")


def create_moe_runner(original: Callable[..., Any], method: Any, layer: Any, moe_runner_config: Any) -> None:
    """The engine's runner of the layer, then ours in its place, if the layer qualifies."""
    original(method, layer, moe_runner_config)
    if not Server.runs:
        return
    try:
        check(method, layer, moe_runner_config)
    except Unfit as reason:
        decline_layer(method, layer, reason)
        return
    method.tilewright_instead = method.runner
    method.runner = MoeRunner(resolve_moe_runner_backend(NAME), moe_runner_config)


def process_weights_after_loading(original: Callable[..., Any], method: Any, layer: Any) -> None:
    """Packs MXFP4 weights in place of the engine's conversion. FP8 weights are taken as the engine's Triton runner has them."""
    if not _is_ours(method):
        original(method, layer)
        return
    packs = is_mxfp4(method)
    if not packs:
        original(method, layer)
    try:
        method.tilewright_experts, method.tilewright_key = _experts_of(method, layer), _key_of(method, layer)
    except Unfit as reason:
        decline_layer(method, layer, reason)
        method.runner = layer.runner = method.tilewright_instead
        if packs:
            original(method, layer)
        return
    if packs:
        for name in _names(method):  # the engine still reads their shapes
            parameter = getattr(layer, name)
            parameter.data = parameter.data.new_empty(1).expand(parameter.shape)
    say(f"tilewright runs {name_of(layer)}: {'MXFP4' if packs else 'FP8 in blocks'}")


def apply(original: Callable[..., Any], method: Any, layer: Any, dispatch_output: Any) -> Any:
    if not _is_ours(method):
        return original(method, layer, dispatch_output)
    if not is_mxfp4(method) and method.tilewright_key != _key_of(method, layer):  # the engine has other weights now
        method.tilewright_experts, method.tilewright_key = _experts_of(method, layer), _key_of(method, layer)
    info = TilewrightMoeQuantInfo(method.tilewright_experts, layer.should_fuse_routed_scaling_factor_in_topk)
    return method.runner.run(dispatch_output, info)


@dataclass
class TilewrightMoeQuantInfo(MoeQuantInfo):  # type: ignore[misc]
    """The runner's input apart from tokens. `is_scaled`: routing has multiplied the weights by routed_scaling_factor."""

    experts: ExpertLayer
    is_scaled: bool


class TilewrightRunnerCore(DispatchMoeRunnerCore):  # type: ignore[misc]
    """The runner `tilewright`: tokens of the standard dispatcher in, their sums out."""

    @property
    def runner_backend(self) -> Any:
        return resolve_moe_runner_backend(NAME)

    def run_from_dispatch(self, dispatch_output: Any, quant_info: Any, runner_config: Any, hooks: Any = None) -> Any:
        if hooks is not None:
            raise ValueError("hooks: got LoRA's; expected None. Leave LoRA out, or use another --moe-runner-backend.")
        chosen = dispatch_output.topk_output
        weights, factor = chosen.topk_weights, runner_config.routed_scaling_factor
        if factor is not None and factor != 1 and not quant_info.is_scaled:
            weights = weights * factor
        # SGLang's kernels multiply the first product by the weight, which is the input's weight.
        at = "input" if runner_config.apply_router_weight_on_input else "combine"
        out = quant_info.experts.tokens(dispatch_output.hidden_states, chosen.topk_ids, weights, weights_at=at)
        return StandardCombineInput(hidden_states=out)


def _is_ours(method: Any) -> bool:
    runner = getattr(method, "runner", None)
    return runner is not None and runner.runner_backend.value == NAME


def _names(method: Any) -> tuple[str, ...]:
    """The names of w13, w2, and their scales."""
    suffix = "_scale_inv" if hasattr(method, "is_fp4_expert") else "_scale"
    return (*_WEIGHTS, *(name + suffix for name in _WEIGHTS))


def _key_of(method: Any, layer: Any) -> tuple[int, ...]:
    return tuple(getattr(layer, name).data_ptr() for name in _names(method))


def _experts_of(method: Any, layer: Any) -> ExpertLayer:
    w13, w2, w13_scale, w2_scale = (getattr(layer, name) for name in _names(method))
    biases = [getattr(layer, f"{name}_bias", None) for name in _WEIGHTS]
    unit = unit_of(method.moe_runner_config)
    if is_mxfp4(method):
        side = mxfp4_activations()
        up, down = mxfp4(w13, _powers(w13_scale), side), mxfp4(w2, _powers(w2_scale), side)
        return ExpertLayer(up, down, *biases, unit, activations="1x128" if side == "fp8" else "bf16")
    up, down = fp8_blocks(w13, w13_scale, [BLOCK, BLOCK]), fp8_blocks(w2, w2_scale, [BLOCK, BLOCK])
    return ExpertLayer(up, down, *biases, unit, activations="1x128")


def _powers(scales: torch.Tensor) -> torch.Tensor:
    """Scales of MXFP4 as bytes. Fp8MoEMethod has them as float32."""
    if scales.dtype != torch.float32:
        return scales
    powers = scales.detach().to(torch.float8_e8m0fnu)
    if not torch.equal(powers.float(), scales):
        unfit("scales", "float32 that are not powers of two", "powers of two")
    return powers
