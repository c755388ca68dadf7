"""Which of SGLang's layers of experts qualify, what `--moe-runner-backend tilewright` means for a server, and what the log says.

Only `sglang.register` imports this file.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from sglang.srt.layers.moe.utils import MoeRunnerBackend, get_moe_a2a_backend
from sglang.srt.runtime_context import get_flags, get_lora, get_server_args

from tilewright.integrations._fit import Unfit, check_device, decline, mxfp4_activations, unfit
from tilewright.integrations._units import gated_unit
from tilewright.integrations._weights import BLOCK
from tilewright.integrations.sglang import LOGGER, NAME
from tilewright.torch._units import Unit

_AUTO = "auto"
_MX_BLOCK = 32


@functools.cache
def say(line: str) -> None:
    LOGGER.info(line)


def settle(result: Any) -> None:
    """After SGLang's `initialize_moe_config`: what `tilewright` or TILEWRIGHT_ENGINE=1 mean for this model.

    The runner of layers that do not qualify is `auto`. Where SGLang chose triton_kernel for gpt-oss, it is `auto` as well, because
    tokens for triton_kernel come in another form.
    """
    flags, reason = get_flags().moe, _misfit_of_server()
    replaced = [NAME] if reason else [NAME, MoeRunnerBackend.TRITON_KERNELS.value]
    for name in ("runner_backend", "speculative_runner_backend"):
        if getattr(flags, name).value in replaced:
            setattr(flags, name, MoeRunnerBackend.AUTO)
    Server.runs = reason is None
    if reason:
        decline("sglang", "any experts", reason, f"runner {flags.runner_backend.value}", LOGGER)


class Server:
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
    if arguments.dwdp_size != 1:  # weights that are replaced after loading
        return f"--dwdp-size: got {arguments.dwdp_size}; expected 1"
    return None


def is_mxfp4(method: Any) -> bool:
    """Mxfp4MoEMethod (gpt-oss), or Fp8MoEMethod with experts of MXFP4 (DeepSeek-V4)."""
    return not hasattr(method, "is_fp4_expert") or bool(method.is_fp4_expert)


def name_of(layer: Any) -> str:
    return f"experts of layer {layer.moe_runner_config.layer_id}"


def decline_layer(method: Any, layer: Any, reason: Unfit) -> None:
    runner = getattr(method, "tilewright_instead", method.runner)
    instead = "SGLang's own code" if runner is None else f"runner {runner.runner_backend.value}"
    decline("sglang", name_of(layer), reason, instead, LOGGER)


def check(method: Any, layer: Any, config: Any) -> None:
    """Raises `Unfit` if the layer does not qualify."""
    if layer.quant_method is not method:  # experts on the CPU, or paged
        unfit("quant_method", type(layer.quant_method).__name__, "none around the checkpoint's own")
    if method.runner is None or not method.runner.runner_backend.is_triton():
        unfit("runner", getattr(getattr(method.runner, "runner_backend", None), "value", None), "triton, or auto that chooses it")
    if config.no_combine:
        unfit("no_combine", True, "False")
    multiple = _MX_BLOCK if is_mxfp4(method) else BLOCK
    if is_mxfp4(method):
        mxfp4_activations()
        if get_server_args().enable_eplb:
            unfit("--enable-eplb", True, "False, because the weights are packed")
        if getattr(method, "dequant_fp4_to_fp8", False):
            unfit("SGLANG_DSV4_FP4_DEQUANT", 1, "0")
    elif method.use_mxfp8 or method.weight_block_size is None or list(method.weight_block_size) != [BLOCK, BLOCK]:
        unfit("weights", f"fp8 with blocks {method.weight_block_size}", f"fp8 with a scale per {BLOCK}x{BLOCK}, or MXFP4")
    for name in ("hidden_size", "intermediate_size_per_partition"):
        if getattr(config, name) % multiple:
            unfit(name, getattr(config, name), f"a multiple of {multiple}")
    unit_of(config)
    check_device(layer.w13_weight.device)


def unit_of(config: Any) -> Unit:
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
