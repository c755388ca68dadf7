"""A kernel of linear layers for vLLM: FP8 weights in blocks. Only `vllm.register` imports this file.

vLLM quantizes tokens. The product is an operator of torch (`tilewright.deep_gemm`), which vLLM's compiled graphs keep whole.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
import vllm.envs as envs
from vllm.model_executor.kernels.linear.scaled_mm.BlockScaledMMLinearKernel import Fp8BlockScaledMMLinearKernel
from vllm.platforms import current_platform

from tilewright import deep_gemm
from tilewright.integrations._fit import HOPPER, decline
from tilewright.integrations._weights import BLOCK

_LOGGER = logging.getLogger("vllm.tilewright")
_NEXT = "vLLM's next kernel"


class TilewrightFp8BlockLinearKernel(Fp8BlockScaledMMLinearKernel):  # type: ignore[misc]
    """Y = X W^T with W [n, k] e4m3, a float32 scale per 128x128, X e4m3 with one per 128, and Y bfloat16."""

    @classmethod
    def is_supported(cls, compute_capability: int | None = None) -> tuple[bool, str | None]:
        is_hopper = current_platform.is_cuda() and current_platform.is_device_capability(HOPPER)
        if is_hopper and compute_capability in (None, HOPPER[0] * 10 + HOPPER[1]):
            return True, None
        reason = f"device: got compute capability {compute_capability}; expected 90"
        decline("vllm", "linear layers of FP8 blocks", reason, _NEXT, _LOGGER)
        return False, reason

    @classmethod
    def can_implement(cls, config: Any) -> tuple[bool, str | None]:
        fits, reason = super().can_implement(config)
        reason = cls._misfit(config) if fits else reason
        if reason is None:
            return True, None
        decline("vllm", f"linear layers {list(config.weight_shape)}", reason, _NEXT, _LOGGER)
        return False, reason

    @staticmethod
    def _misfit(config: Any) -> str | None:
        blocks = {
            "block of weights": (config.weight_quant_key.scale.group_shape, (BLOCK, BLOCK)),
            "block of tokens": (config.activation_quant_key.scale.group_shape, (1, BLOCK)),
        }
        for name, (shape, expected) in blocks.items():
            if (shape.row, shape.col) != expected:
                return f"{name}: got {(shape.row, shape.col)}; expected {expected}"
        if config.out_dtype != torch.bfloat16:
            return f"out_dtype: got {config.out_dtype}; expected torch.bfloat16"
        if envs.VLLM_BATCH_INVARIANT:
            return "VLLM_BATCH_INVARIANT: got 1; expected 0, because the kernel depends on the number of tokens"
        return None

    def apply_block_scaled_mm(self, A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor) -> torch.Tensor:
        d = torch.empty(A.shape[0], B.shape[0], dtype=self.config.out_dtype, device=A.device)
        deep_gemm.fp8_gemm_nt((A, As), (B, Bs), d)
        return d
