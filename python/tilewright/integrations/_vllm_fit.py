"""Which layers of experts vLLM's kernels of Tilewright take: answers to the questions that vLLM asks of a kernel's class.

Only `vllm.register` imports this file.
"""

from __future__ import annotations

import functools
import logging
from typing import Any, ClassVar

import vllm.model_executor.layers.fused_moe.modular_kernel as mk
from vllm.platforms import current_platform

from tilewright.integrations._fit import HOPPER, Unfit, decline, mxfp4_activations
from tilewright.integrations._units import gated_unit

_LOGGER = logging.getLogger("vllm.tilewright")


def name_of(config: Any) -> str:
    """A layer as a line of the log has it. vLLM does not tell kernels the layer's name."""
    return (
        f"experts [{config.num_local_experts} of {config.num_experts}, hidden {config.hidden_dim}, "
        f"inner {config.intermediate_size_per_partition}, {config.activation.value}]"
    )


@functools.cache
def _say(line: str) -> None:
    _LOGGER.info(line)


class Answers:
    """A kernel's class has this before vLLM's own class among its bases."""

    keys: ClassVar[tuple[Any, Any]]  # of weights and activations
    multiple: ClassVar[int]  # of hidden and inner: a block of scales must not reach over the end of the gates
    may_move: ClassVar[bool]  # whether vLLM may move weights among GPUs (EPLB)
    declines_batched: ClassVar[bool] = False

    @staticmethod
    def is_supported_config(cls: Any, moe_config: Any, weight_key: Any, activation_key: Any, activation_format: Any) -> Any:
        """vLLM's questions and ours. The log says once per kind of layer what the answer is."""
        if activation_format != cls.activation_format() and not cls.declines_batched:
            return False, f"kernel does not support {activation_format.value} activation format"
        fits, reason = mk.FusedMoEExperts.is_supported_config(cls, moe_config, weight_key, activation_key, activation_format)
        reason = cls._misfit(moe_config) if fits else reason
        if reason is not None:
            decline("vllm", name_of(moe_config), reason, "vLLM's next choice", _LOGGER)
            return False, reason
        _say(f"tilewright runs {name_of(moe_config)}: {cls.__name__}")
        return True, None

    @classmethod
    def _misfit(cls, config: Any) -> str | None:
        if config.moe_backend != "auto":
            return f"--moe-backend: got {config.moe_backend}; expected no such choice"
        for name, size in (("hidden", config.hidden_dim), ("inner", config.intermediate_size_per_partition)):
            if size % cls.multiple:
                return f"{name}: got {size}; expected a multiple of {cls.multiple}"
        if config.moe_parallel_config.enable_eplb and not cls.may_move:
            return "enable_eplb: got True; expected False, because the weights are packed"
        try:
            mxfp4_activations()
        except Unfit as misfit:
            return str(misfit)
        return None

    @staticmethod
    def _supports_current_device() -> bool:
        return bool(current_platform.is_cuda() and current_platform.is_device_capability(HOPPER))

    @staticmethod
    def _supports_no_act_and_mul() -> bool:
        return True

    @classmethod
    def _supports_quant_scheme(cls, weight_key: Any, activation_key: Any) -> bool:
        return (weight_key, activation_key) == cls.keys

    @staticmethod
    def _supports_activation(activation: Any) -> bool:
        try:
            gated_unit(activation.value)
        except Unfit:
            return False
        return True

    @staticmethod
    def _supports_parallel_config(moe_parallel_config: Any) -> bool:
        """All but transports with rows after the last token of an expert, or with other formats."""
        config = moe_parallel_config
        return not (config.use_fi_nvl_two_sided_kernels or config.use_fi_nvl_one_sided_kernels or config.use_deepep_v2_kernels)

    @staticmethod
    def _supports_batch_invariance() -> bool:
        return True
