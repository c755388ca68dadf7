"""Names of DeepGEMM that this package does not have.

The names are missing, because engines ask by hasattr and getattr which kernels a library has, and do without the others.
The error of a missing name gives the reason and an alternative.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tilewright.deep_gemm import _fallback

_ATTENTION = "Tilewright has no attention kernels."
_MEGA = "Tilewright has no fused mixture-of-experts kernels. Use the grouped products."
_HYPER = "Tilewright has no kernels for hyper-connections."
_SYMMETRIC = "Tilewright has no symmetric products. Use torch.bmm."
_COMPILING = (
    "SGLang's DeepGEMM has it to compile kernels per shape, which Tilewright does not do. "
    "Set SGLANG_JIT_DEEPGEMM_PRECOMPILE=0."
)
_DETERMINISTIC = "Every product here repeats bit for bit, whatever was chosen. So there is no choice to ask for."
_CUBLAS = (
    "Here it would go to cuBLAS on a GPU, but engines conclude from this name that results do not depend on the batch. "
    "tilewright.deep_gemm.allow_cublas() adds it."
)

CUBLAS_NAMES = ("bf16_gemm_nn", "k_grouped_bf16_gemm_tn_contiguous", "m_grouped_bf16_gemm_nt_contiguous")
"""The names from which Megatron-LM concludes that a library has batch-invariant kernels."""

REASONS = {
    **dict.fromkeys(CUBLAS_NAMES, _CUBLAS),
    "fp8_fp4_mqa_logits": _ATTENTION,
    "fp8_fp4_paged_mqa_logits": _ATTENTION,
    "fp8_fp4_paged_sparse_mqa_logits": _ATTENTION,
    "fp8_fp4_sparse_mqa_logits": _ATTENTION,
    "fp8_mqa_logits": _ATTENTION,
    "fp8_paged_mqa_logits": _ATTENTION,
    "get_mqa_logits_metadata": _ATTENTION,
    "get_paged_mqa_logits_metadata": _ATTENTION,
    "get_paged_sparse_mqa_logits_metadata": _ATTENTION,
    "get_sparse_mqa_logits_metadata": _ATTENTION,
    "mega_mhc": _HYPER,
    "tf32_hc_prenorm_gemm": _HYPER,
    "NVFP4SymmBuffer": _MEGA,
    "SymmBuffer": _MEGA,
    "bf16_mega_gate": _MEGA,
    "bf16_mega_moe": _MEGA,
    "fp4_fp4_mega_moe": _MEGA,
    "fp8_fp4_mega_moe": _MEGA,
    "fp8_mega_moe": _MEGA,
    "get_bf16_mega_gate_config": _MEGA,
    "get_block_m_for_mega_moe": _MEGA,
    "get_block_m_for_nvfp4_mega_moe": _MEGA,
    "get_symm_buffer_for_mega_moe": _MEGA,
    "get_symm_buffer_for_sm90_mega_moe": _MEGA,
    "mega_moe_pre_dispatch": _MEGA,
    "mega_moe_pre_dispatch_sm90": _MEGA,
    "nvfp4_mega_moe": _MEGA,
    "transform_ue4m3_sf_into_required_layout": _MEGA,
    "transform_weights_for_mega_moe": _MEGA,
    "transform_weights_for_mega_moe_sm90": _MEGA,
    "transform_weights_for_mega_moe_sm90_fp4": _MEGA,
    "k_grouped_fp4_gemm_nt_contiguous": "DeepGEMM has k-grouped FP4 only on other GPUs than Hopper. Use k_grouped_fp8_gemm_*.",
    "cublaslt_nvfp4_gemm_nt": "cuBLASLt has no NVFP4 on Hopper. Use tilewright.gemm with recipe nvfp4.",
    "batched_syrk": _SYMMETRIC,
    "batched_symm": _SYMMETRIC,
    "get_deterministic_algorithms": _DETERMINISTIC,
    "get_compile_mode": _COMPILING,
    "set_compile_mode": _COMPILING,
    "_C": "Tilewright's functions are in Python. Its own extension module is tilewright._core.",
}
"""The reason and an alternative for each missing name of DeepGEMM up to 2.8.0, and of those that engines look up."""

# The reasons for submodules that are empty.
_REASONS_OF_PARTS = {"mega": _MEGA, "legacy": "Tilewright has no kernels for A100."}
_FORWARDING = "tilewright.deep_gemm.fall_back_to(module) takes it from a real DeepGEMM."


def _text(module: str, part: str, name: str) -> str:
    reason = REASONS.get(name) or _REASONS_OF_PARTS.get(part)
    text = f"module {module!r} has no attribute {name!r}"
    return f"{text}. {reason} {_FORWARDING}" if reason else text


def getter(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of this package or of a submodule."""
    part = module.removeprefix(__package__).removeprefix(".")

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        there = _fallback.part(part)
        if there is not None and hasattr(there, name):
            return getattr(there, name)
        text = _text(module, part, name)
        # `from module import name` calls this function first. An ImportError from here replaces its own, which has no reason.
        if part in _REASONS_OF_PARTS or name in REASONS:
            if sys._getframe(1).f_code.co_name == "_handle_fromlist":
                raise ImportError(text, name=module)
        raise AttributeError(text, name=name)

    return __getattr__


def lister(module: str) -> Callable[[], list[str]]:
    """The `__dir__` that belongs to `getter`."""
    part = module.removeprefix(__package__).removeprefix(".")

    def __dir__() -> list[str]:
        there = _fallback.part(part)
        forwarded = () if there is None else (name for name in dir(there) if not name.startswith("_"))
        return sorted({*vars(sys.modules[module]), *forwarded})

    return __dir__
