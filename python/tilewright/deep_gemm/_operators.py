"""torch operators of all products, torch.ops.tilewright.*: torch.compile and CUDA graphs keep them as they are.

They write into d and return nothing, so their fake implementations have nothing to do. Where nobody watches operators
(no compiler, tracer, mode or subclass of tensors), calls go past torch's dispatcher, which takes longer than all the
rest of a call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from tilewright.deep_gemm import _bf16, _einsum, _fp8

_FP8 = "Tensor a, Tensor sfa, Tensor b, Tensor sfb, Tensor(d!) d"
_BF16 = "Tensor a, Tensor b, Tensor(d!) d"
_RECIPES = "int[]? recipe, int[]? recipe_a, int[]? recipe_b"

# A compiler may not lay inputs out anew: kernels on a GPU read along k.
_TAGS = tuple(
    getattr(torch.Tag, name) for name in ("needs_exact_strides", "needs_fixed_stride_order") if hasattr(torch.Tag, name)
)[:1]

_library = torch.library.Library("tilewright", "DEF")


_NO_TENSORS = {type(None), bool, int, str, list, tuple}
_PLAIN = {torch.Tensor, torch.nn.Parameter, *_NO_TENSORS}


def _is_watched(given: tuple[Any, ...]) -> bool:
    """Whether someone but the caller wants to know which operators run."""
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or is_in_torch_dispatch_mode()
        or not _PLAIN.issuperset(map(type, given))
    )


def _wants_gradient(given: tuple[Any, ...]) -> bool:
    if torch.is_grad_enabled():
        for x in given:
            # isinstance would ask torch's metaclass, in Python
            if type(x) not in _NO_TENSORS and getattr(x, "requires_grad", False):
                return True
    return False


def _define(name: str, arguments: str, function: Callable[..., None]) -> Callable[..., None]:
    """The operator as a function. What it computes has no gradient, and none is recorded."""

    def without_gradient(*given: Any) -> None:
        if _wants_gradient(given):
            with torch.no_grad():
                function(*given)
        else:
            function(*given)

    _library.define(f"{name}({arguments}) -> ()", tags=_TAGS)
    _library.impl(name, without_gradient, "CPU")
    _library.impl(name, without_gradient, "CUDA")
    _library.impl(name, torch.library.fallthrough_kernel, "Autograd")
    torch.library.register_fake(f"tilewright::{name}", lambda *given: None, lib=_library)
    operator = getattr(torch.ops.tilewright, name).default

    def entry(*given: Any) -> None:
        (operator if _is_watched(given) else without_gradient)(*given)

    return entry


fp8_gemm = _define("fp8_gemm", f"{_FP8}, Tensor? c, {_RECIPES}", _fp8.dense)
fp8_gemm_skip_head_mid = _define(
    "fp8_gemm_skip_head_mid", f"{_FP8}, int[] head_splits, int[]? recipe", _fp8.skip_head_mid
)
m_grouped_fp8_gemm_contiguous = _define(
    "m_grouped_fp8_gemm_contiguous",
    f"{_FP8}, Tensor grouped_layout, bool psum, int expected_m, {_RECIPES}",
    _fp8.m_grouped_contiguous,
)
m_grouped_fp8_gemm_masked = _define(
    "m_grouped_fp8_gemm_masked", f"{_FP8}, Tensor masked_m, int expected_m, {_RECIPES}", _fp8.m_grouped_masked
)
k_grouped_fp8_gemm = _define(
    "k_grouped_fp8_gemm",
    f"{_FP8}, Tensor? c, int[] ks, Tensor? grouped_layout, bool flat, int multiple, int[] recipe",
    _fp8.k_grouped,
)
fp8_einsum = _define("fp8_einsum", f"str expr, {_FP8}, Tensor? c, int[] recipe", _einsum.fp8_einsum)

bf16_gemm = _define("bf16_gemm", f"{_BF16}, Tensor? c", _bf16.dense)
cublaslt_gemm = _define("cublaslt_gemm", f"{_BF16}, Tensor? c", _bf16.by_cublaslt)
m_grouped_bf16_gemm_contiguous = _define(
    "m_grouped_bf16_gemm_contiguous",
    f"{_BF16}, Tensor grouped_layout, bool psum, int expected_m",
    _bf16.m_grouped_contiguous,
)
m_grouped_bf16_gemm_masked = _define(
    "m_grouped_bf16_gemm_masked", f"{_BF16}, Tensor masked_m, int expected_m", _bf16.m_grouped_masked
)
k_grouped_bf16_gemm = _define(
    "k_grouped_bf16_gemm", f"{_BF16}, Tensor? c, int[] ks, Tensor? grouped_layout, int multiple", _bf16.k_grouped
)
einsum = _define("einsum", f"str expr, {_BF16}, Tensor? c, bool use_cublaslt", _einsum.einsum)
