"""What DeepGEMM offers and this package does not: the names are there and say so when they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

_ATTENTION = "attention scores are not part of Tilewright"
_MEGA = "fused mixture-of-experts kernels are not part of Tilewright; use the grouped products"
_SYMMETRIC = "products that are symmetric are not part of Tilewright; use torch.bmm"
_REASONS = {
    "fp8_fp4_mqa_logits": _ATTENTION,
    "get_paged_mqa_logits_metadata": _ATTENTION,
    "fp8_fp4_paged_mqa_logits": _ATTENTION,
    "fp8_mqa_logits": _ATTENTION,
    "fp8_paged_mqa_logits": _ATTENTION,
    "tf32_hc_prenorm_gemm": "hyper-connections are not part of Tilewright",
    "get_symm_buffer_for_mega_moe": _MEGA,
    "transform_weights_for_mega_moe": _MEGA,
    "fp8_fp4_mega_moe": _MEGA,
    "bf16_mega_moe": _MEGA,
    "fp8_mega_moe": _MEGA,
    "get_symm_buffer_for_sm90_mega_moe": _MEGA,
    "transform_weights_for_mega_moe_sm90": _MEGA,
    "k_grouped_fp4_gemm_nt_contiguous": "FP4 in groups of k is for other GPUs than Hopper; use k_grouped_fp8_gemm_*",
    "cublaslt_nvfp4_gemm_nt": "cuBLASLt has no NVFP4 on Hopper; use tilewright.gemm with recipe nvfp4",
    "batched_syrk": _SYMMETRIC,
    "batched_symm": _SYMMETRIC,
}


def _absent(name: str) -> Callable[..., NoReturn]:
    def function(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"{name}: {_REASONS[name]}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Raises NotImplementedError: {_REASONS[name]}."
    return function


fp8_fp4_mqa_logits = _absent("fp8_fp4_mqa_logits")
get_paged_mqa_logits_metadata = _absent("get_paged_mqa_logits_metadata")
fp8_fp4_paged_mqa_logits = _absent("fp8_fp4_paged_mqa_logits")
fp8_mqa_logits = _absent("fp8_mqa_logits")
fp8_paged_mqa_logits = _absent("fp8_paged_mqa_logits")
tf32_hc_prenorm_gemm = _absent("tf32_hc_prenorm_gemm")
get_symm_buffer_for_mega_moe = _absent("get_symm_buffer_for_mega_moe")
transform_weights_for_mega_moe = _absent("transform_weights_for_mega_moe")
fp8_fp4_mega_moe = _absent("fp8_fp4_mega_moe")
bf16_mega_moe = _absent("bf16_mega_moe")
fp8_mega_moe = _absent("fp8_mega_moe")
get_symm_buffer_for_sm90_mega_moe = _absent("get_symm_buffer_for_sm90_mega_moe")
transform_weights_for_mega_moe_sm90 = _absent("transform_weights_for_mega_moe_sm90")
k_grouped_fp4_gemm_nt_contiguous = _absent("k_grouped_fp4_gemm_nt_contiguous")
cublaslt_nvfp4_gemm_nt = _absent("cublaslt_nvfp4_gemm_nt")
batched_syrk = _absent("batched_syrk")
batched_symm = _absent("batched_symm")


class SymmBuffer:
    """Raises NotImplementedError: fused mixture-of-experts kernels are not part of Tilewright."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError(f"SymmBuffer: {_MEGA}")
