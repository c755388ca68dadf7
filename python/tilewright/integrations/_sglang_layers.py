"""SGLang's layers of experts on Tilewright: which qualify, their operands, and their call. Only `sglang.register` imports this file.

Tokens come from SGLang's standard dispatcher, in bfloat16, with local numbers of experts, -1 for those that are elsewhere. One
call of the library does the rest, so the runner has no steps before and after it (`DispatchMoeRunnerCore`).

FP8 weights in blocks stay where they are. MXFP4 weights are packed when they are loaded, and SGLang's copy is freed. Activations of
MXFP4 layers are bfloat16, because these checkpoints quantize weights only.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from sglang.srt.layers.moe.moe_runner import MoeRunner
from sglang.srt.layers.moe.moe_runner.base import DispatchMoeRunnerCore, MoeQuantInfo
from sglang.srt.layers.moe.token_dispatcher.standard import StandardCombineInput
from sglang.srt.layers.moe.utils import MoeRunnerBackend, get_moe_a2a_backend, resolve_moe_runner_backend
from sglang.srt.runtime_context import get_flags, get_lora, get_server_args

from tilewright.integrations._experts import ExpertLayer, fp8_blocks, mxfp4
from tilewright.integrations._fit import Unfit, check_device, decline, unfit
from tilewright.integrations._units import gated_unit
from tilewright.integrations._weights import BLOCK
from tilewright.integrations.sglang import LOGGER, NAME
from tilewright.torch._units import Unit

_AUTO = "auto"
_MX_BLOCK = 32
_WEIGHTS = ("w13_weight", "w2_weight")


@functools.cache
def _say(line: str) -> None:
    LOGGER.info(line)


def settle(result: Any) -> None:
    """After SGLang's `initialize_moe_config`: what `tilewright` or TILEWRIGHT_ENGINE=1 mean for this model.

    The runner of layers that do not qualify is `auto`. Where SGLang chose triton_kernel for gpt-oss, it is `auto` as well, because
    tokens for triton_kernel come in another form.
    """
    flags, reason = get_flags().moe, _misfit_of_server()
    flags_of_runners = ("runner_backend", "speculative_runner_backend")
    replaced = [NAME] if reason else [NAME, MoeRunnerBackend.TRITON_KERNELS.value]
    for name in flags_of_runners:
        if getattr(flags, name).value in replaced:
            setattr(flags, name, MoeRunnerBackend.AUTO)
    _Server.runs = reason is None
    if reason:
        decline("sglang", "any experts", reason, f"runner {flags.runner_backend.value}", LOGGER)


class _Server:
    """Whether layers of this process may run here at all, since `settle`."""

    runs = False


def _misfit_of_server() -> str | None:
    arguments = get_server_args()
    if arguments.moe_runner_backend not in (_AUTO, NAME):
        return f"--moe-runner-backend: got {arguments.moe_runner_backend}; expected {_AUTO} or {NAME}"
    if not get_moe_a2a_backend().is_none():
        return f"--moe-a2a-backend: got {get_moe_a2a_backend().value}; expected none"
    if get_lora().enable_lora:
        return "--enable-lora: got True; expected False"
    if getattr(arguments, "dwdp_size", 1) not in (None, 1):  # weights that are replaced after loading
        return f"--dwdp-size: got {arguments.dwdp_size}; expected 1"
    return None


def create_moe_runner(original: Callable[..., Any], method: Any, layer: Any, moe_runner_config: Any) -> None:
    """The engine's runner of the layer, then ours in its place, if the layer qualifies."""
    original(method, layer, moe_runner_config)
    if not _Server.runs:
        return
    try:
        _check(method, layer, moe_runner_config)
    except Unfit as reason:
        _decline(method, layer, reason)
        return
    method.tilewright_instead = method.runner
    method.runner = MoeRunner(resolve_moe_runner_backend(NAME), moe_runner_config)


def process_weights_after_loading(original: Callable[..., Any], method: Any, layer: Any) -> None:
    """Packs MXFP4 weights in place of the engine's conversion. FP8 weights are taken as the engine's Triton runner has them."""
    if not _is_ours(method):
        original(method, layer)
        return
    is_mxfp4 = _is_mxfp4(method)
    if not is_mxfp4:
        original(method, layer)
    try:
        method.tilewright_experts, method.tilewright_key = _experts_of(method, layer), _key_of(method, layer)
    except Unfit as reason:
        _decline(method, layer, reason)
        method.runner = layer.runner = method.tilewright_instead
        if is_mxfp4:
            original(method, layer)
        return
    if is_mxfp4:
        for name in _names(method):  # the engine still reads their shapes
            parameter = getattr(layer, name)
            parameter.data = parameter.data.new_empty(1).expand(parameter.shape)
    _say(f"tilewright runs {_name_of(layer)}: {'MXFP4' if is_mxfp4 else 'FP8 in blocks'}")


def apply(original: Callable[..., Any], method: Any, layer: Any, dispatch_output: Any) -> Any:
    if not _is_ours(method):
        return original(method, layer, dispatch_output)
    if not _is_mxfp4(method) and method.tilewright_key != _key_of(method, layer):  # the engine has other weights now
        method.tilewright_experts, method.tilewright_key = _experts_of(method, layer), _key_of(method, layer)
    info = TilewrightMoeQuantInfo(method.tilewright_experts, layer.should_fuse_routed_scaling_factor_in_topk)
    return method.runner.run(dispatch_output, info)


@dataclass
class TilewrightMoeQuantInfo(MoeQuantInfo):  # type: ignore[misc]
    """What the runner needs besides tokens. `is_scaled`: routing has multiplied the weights by routed_scaling_factor."""

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


def _is_mxfp4(method: Any) -> bool:
    """Mxfp4MoEMethod (gpt-oss), or Fp8MoEMethod with experts of MXFP4 (DeepSeek-V4)."""
    return not hasattr(method, "is_fp4_expert") or bool(method.is_fp4_expert)


def _names(method: Any) -> tuple[str, ...]:
    """Of w13, w2, and their scales."""
    suffix = "_scale_inv" if hasattr(method, "is_fp4_expert") else "_scale"
    return (*_WEIGHTS, *(name + suffix for name in _WEIGHTS))


def _key_of(method: Any, layer: Any) -> tuple[int, ...]:
    return tuple(getattr(layer, name).data_ptr() for name in _names(method))


def _name_of(layer: Any) -> str:
    config = layer.moe_runner_config
    return f"experts of layer {config.layer_id}"


def _decline(method: Any, layer: Any, reason: Unfit) -> None:
    runner = getattr(method, "tilewright_instead", method.runner)
    instead = "SGLang's own code" if runner is None else f"runner {runner.runner_backend.value}"
    decline("sglang", _name_of(layer), reason, instead, LOGGER)


def _check(method: Any, layer: Any, config: Any) -> None:
    """Raises `Unfit` if the layer does not qualify."""
    if layer.quant_method is not method:  # experts on the CPU, or paged
        unfit("quant_method", type(layer.quant_method).__name__, "none around the checkpoint's own")
    if method.runner is None or not method.runner.runner_backend.is_triton():
        unfit("runner", getattr(getattr(method.runner, "runner_backend", None), "value", None), "triton, or auto that chooses it")
    if config.no_combine:
        unfit("no_combine", True, "False")
    multiple = _MX_BLOCK
    if not _is_mxfp4(method):
        multiple = BLOCK
        if method.use_mxfp8 or method.weight_block_size is None or list(method.weight_block_size) != [BLOCK, BLOCK]:
            unfit("weights", f"fp8 with blocks {method.weight_block_size}", f"fp8 with a scale per {BLOCK}x{BLOCK}, or MXFP4")
    for name in ("hidden_size", "intermediate_size_per_partition"):
        if getattr(config, name) % multiple:
            unfit(name, getattr(config, name), f"a multiple of {multiple}")
    _unit_of(config)
    check_device(layer.w13_weight.device)


def _experts_of(method: Any, layer: Any) -> ExpertLayer:
    w13, w2, w13_scale, w2_scale = (getattr(layer, name) for name in _names(method))
    biases = [getattr(layer, f"{name}_bias", None) for name in _WEIGHTS]
    unit = _unit_of(method.moe_runner_config)
    if _is_mxfp4(method):
        up, down = mxfp4(w13, _powers(w13_scale), "bf16"), mxfp4(w2, _powers(w2_scale), "bf16")
        return ExpertLayer(up, down, *biases, unit, activations="bf16")
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


def _unit_of(config: Any) -> Unit:
    """The unit as SGLang's Triton runner has it, which decides among three pairs of fields."""
    name, alpha, limit = config.activation, config.gemm1_alpha, config.gemm1_clamp_limit
    if name == "situ":
        return gated_unit(name, gated=config.is_gated, gate_bound=alpha, up_bound=math.inf if limit is None else limit)
    if name != "silu" or not config.is_gated:
        return gated_unit(name, alpha, limit=limit, gated=config.is_gated)
    if alpha is not None:
        beta = 1.0 if config.gemm1_beta is None else config.gemm1_beta
        return gated_unit("swiglu", alpha, beta, limit, config.gate_up_interleaved)
    if limit is not None:
        unfit("gemm1_clamp_limit", f"{limit} without gemm1_alpha: a limit after silu", "swiglu_limit, or gemm1_alpha with it")
    return gated_unit("silu", limit=config.swiglu_limit)
