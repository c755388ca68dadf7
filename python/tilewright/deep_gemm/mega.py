"""Fused mixture-of-experts kernels: the names are here and say that they are not part of Tilewright."""

from tilewright.deep_gemm._absent import (
    SymmBuffer,
    bf16_mega_moe,
    fp8_fp4_mega_moe,
    fp8_mega_moe,
    get_symm_buffer_for_mega_moe,
    get_symm_buffer_for_sm90_mega_moe,
    transform_weights_for_mega_moe,
    transform_weights_for_mega_moe_sm90,
)

__all__ = [
    "SymmBuffer",
    "bf16_mega_moe",
    "fp8_fp4_mega_moe",
    "fp8_mega_moe",
    "get_symm_buffer_for_mega_moe",
    "get_symm_buffer_for_sm90_mega_moe",
    "transform_weights_for_mega_moe",
    "transform_weights_for_mega_moe_sm90",
]
