"""The door to vLLM. With TILEWRIGHT_ENGINE=1, or `tilewright` named in vLLM's own VLLM_PLUGINS, its FP8 and MXFP4 layers run here.

vLLM calls `register` in each of its processes (entry point group `vllm.general_plugins`). It has no registration function for
experts. So `register` puts kernels into its tables, of versions whose sources were read. It refuses other versions by name.

- Experts: vLLM names a layout of weights, a backend, and asks the kernels of that backend whether they take a layer. The
  backends below leave the weights as the checkpoint has them, and no kernel of vLLM uses them on a Hopper GPU. So they cannot
  be chosen for anything but our kernels.
- Linear layers: vLLM has a list of kernels in order of preference. Its `register_linear_kernel` appends, so that a kernel
  would come last.

vLLM itself chooses among kernels, so a user's --moe-backend or --linear-backend has precedence.
"""

from __future__ import annotations

import importlib
import logging
import os
from typing import Any

from tilewright.integrations._fit import Unfit, decline, enabled, tested_version

TESTED = ("0.31.0", "0.33.0")
_NAME = "tilewright"
_LOGGER = logging.getLogger(f"vllm.{_NAME}")  # vLLM's handler serves all loggers below "vllm"
_OWN = "vLLM's own code"


def register() -> None:
    """Puts Tilewright's kernels into vLLM's tables, once per process. It does nothing unless it is asked for.

    Raises:
        RuntimeError: with TILEWRIGHT_STRICT=1, this vLLM was not tested. Otherwise the log has one line.
    """
    if not (enabled() or _NAME in os.environ.get("VLLM_PLUGINS", "").replace(" ", "").split(",")):
        return
    try:
        tested_version("vLLM", "vllm", TESTED)
        _install()
    except Unfit as reason:
        decline("vllm", "any layer of vLLM", reason, _OWN, _LOGGER)
    except (AttributeError, ImportError, KeyError) as error:  # a build of a tested version that differs from the release
        decline("vllm", "any layer of vLLM", f"{type(error).__name__}: {error}", _OWN, _LOGGER)


def _install() -> None:
    layers = "vllm.model_executor.layers.fused_moe"
    platforms, envs, fp8, mxfp4, linear = (
        importlib.import_module(name)
        for name in (
            "vllm.platforms",
            "vllm.envs",
            f"{layers}.oracle.fp8",
            f"{layers}.oracle.mxfp4",
            "vllm.model_executor.kernels.linear",
        )
    )
    if hasattr(fp8.backend_to_kernel_cls, _NAME):
        return
    if not platforms.current_platform.is_cuda():
        raise Unfit("platform: got another than CUDA; expected CUDA")
    cuda = platforms.PlatformEnum.CUDA
    from tilewright.integrations import _vllm_experts as experts
    from tilewright.integrations._vllm_linear import TilewrightFp8BlockLinearKernel

    blocks = linear._POSSIBLE_FP8_BLOCK_KERNELS[cuda]
    fp8_layout, mxfp4_layout = fp8.Fp8MoeBackend.EMULATION, mxfp4.Mxfp4MoeBackend.B12X_MXFP4_BF16
    gpt_oss_layout = mxfp4.Mxfp4MoeBackend.XPU
    standard_and_batched = [experts.TilewrightFp8Experts, experts.TilewrightFp8BatchedExperts]
    wrapped = {
        fp8: {
            "backend_to_kernel_cls": _kernels(fp8.backend_to_kernel_cls, {fp8_layout: standard_and_batched}, {}),
            "_get_priority_backends": _fp8_order(fp8._get_priority_backends, fp8_layout, envs),
        },
        mxfp4: {
            "backend_to_kernel_cls": _kernels(
                mxfp4.backend_to_kernel_cls,
                {gpt_oss_layout: [experts.TilewrightGptOssExperts]},
                {mxfp4_layout: [experts.TilewrightMxfp4Experts, experts.TilewrightMxfp4BatchedExperts]},
            ),
            "_get_priority_backends": _first(mxfp4._get_priority_backends, mxfp4_layout),
            "_get_priority_backends_for_gpt_oss": _first(mxfp4._get_priority_backends_for_gpt_oss, gpt_oss_layout),
            "map_mxfp4_backend": _named(mxfp4.map_mxfp4_backend),
        },
    }
    for module, functions in wrapped.items():
        for name, function in functions.items():
            setattr(function, _NAME, True)
            setattr(module, name, function)
    blocks.insert(0, TilewrightFp8BlockLinearKernel)
    # vLLM keeps compiled graphs, which contain the kernels of linear layers, by the values of this table.
    envs.environment_variables["TILEWRIGHT_ENGINE"] = lambda: "1"


def _kernels(original: Any, instead: dict[Any, list[type]], before: dict[Any, list[type]]) -> Any:
    """`backend_to_kernel_cls` with ours in place of vLLM's kernels of some backends, and before those of others."""

    def backend_to_kernel_cls(backend: Any) -> list[type]:
        if backend in instead:
            return list(instead[backend])
        return [*before.get(backend, []), *original(backend)]

    return backend_to_kernel_cls


def _first(original: Any, backend: Any) -> Any:
    def priority() -> list[Any]:
        return [backend, *original()]

    return priority


def _fp8_order(original: Any, backend: Any, envs: Any) -> Any:
    """`_get_priority_backends` with ours first. vLLM does not read the list where its user named a kernel."""

    def priority(moe_config: Any, weight_key: Any, activation_key: Any) -> list[Any]:
        from tilewright.integrations._vllm_fit import name_of

        given = {"--moe-backend": moe_config.moe_backend} if moe_config.moe_backend != "auto" else {}
        switches = ("VLLM_USE_DEEP_GEMM", "VLLM_MOE_USE_DEEP_GEMM")
        if any(map(envs.is_set, switches)) and all(getattr(envs, name) for name in switches):
            given |= {"VLLM_USE_DEEP_GEMM": "1"}
        for option, value in given.items():
            decline("vllm", name_of(moe_config), f"{option}: got {value}; expected no such choice", _OWN, _LOGGER)
        return [backend, *original(moe_config, weight_key, activation_key)]

    return priority


def _named(original: Any) -> Any:
    """`map_mxfp4_backend`, which vLLM calls only where its user named a kernel."""

    def map_mxfp4_backend(runner_backend: Any) -> list[Any]:
        reason = f"--moe-backend: got {runner_backend}; expected no such choice"
        decline("vllm", "experts of MXFP4", reason, _OWN, _LOGGER)
        return list(original(runner_backend))

    return map_mxfp4_backend
