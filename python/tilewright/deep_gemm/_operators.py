"""torch operators of all products, torch.ops.tilewright.*, which torch.compile and CUDA graphs keep as they are.

They write into d and return nothing, so that their fake implementations do nothing. If no compiler, tracer, dispatch mode or
tensor subclass observes operators, calls bypass torch's dispatcher, which takes longer than the rest of a call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from tilewright.deep_gemm import _bf16, _einsum, _fp8
from tilewright.deep_gemm._checks import refuse_all_but_tensors

_FP8 = "Tensor a, Tensor sfa, Tensor b, Tensor sfb, Tensor(d!) d"
_BF16 = "Tensor a, Tensor b, Tensor(d!) d"
_RECIPES = "int[]? recipe, int[]? recipe_a, int[]? recipe_b"

# A compiler must not change the strides of inputs, because GPU kernels read K-major operands.
_TAGS = tuple(
    getattr(torch.Tag, name) for name in ("needs_exact_strides", "needs_fixed_stride_order") if hasattr(torch.Tag, name)
)[:1]

_library = torch.library.Library("tilewright", "DEF")


_NO_TENSORS = {type(None), bool, int, str, list, tuple}
_TENSORS = {torch.Tensor, torch.nn.Parameter}
_KNOWN = _TENSORS | _NO_TENSORS


def _is_watched(given: tuple[Any, ...]) -> bool:
    """Whether a compiler, tracer, dispatch mode or tensor subclass observes which operators run."""
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or is_in_torch_dispatch_mode()
        or not _KNOWN.issuperset(map(type, given))
    )


def _wants_gradient(given: tuple[Any, ...]) -> bool:
    if torch.is_grad_enabled():
        for x in given:
            # Not isinstance, which would call torch's metaclass in Python.
            if type(x) not in _NO_TENSORS and getattr(x, "requires_grad", False):
                return True
    return False


def _define(name: str, arguments: str, function: Callable[..., None]) -> Callable[..., None]:
    """Registers an operator and returns it as a function. It records no gradient."""

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

    named = _tensor_arguments(arguments)
    first, last = min(named), max(i for i, (_, optional) in named.items() if not optional) + 1

    def entry(*given: Any) -> None:
        watched = _is_watched(given)
        if (watched or not _TENSORS.issuperset(map(type, given[first:last]))) and not torch.compiler.is_compiling():
            refuse_all_but_tensors([*named.values()], [given[i] for i in named])
        (operator if watched else without_gradient)(*given)

    return entry


def _tensor_arguments(arguments: str) -> dict[int, tuple[str, bool]]:
    """Tensor arguments by position: the name of the argument for the caller, and whether it may be None."""
    words = [argument.rsplit(" ", 1) for argument in arguments.split(", ")]
    has_factors = any(name == "sfa" for _, name in words)
    ours = {"sfa": "a[1]", "sfb": "b[1]", "layout": "grouped_layout"} | (
        {"a": "a[0]", "b": "b[0]"} if has_factors else {}
    )
    return {
        i: (ours.get(name, name), kind == "Tensor?")
        for i, (kind, name) in enumerate(words)
        if kind.startswith("Tensor")
    }


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
    f"{_FP8}, Tensor? c, int[]? ks, Tensor? grouped_layout, bool flat, int[] recipe",
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
    "k_grouped_bf16_gemm", f"{_BF16}, Tensor? c, int[]? ks, Tensor? grouped_layout", _bf16.k_grouped
)
einsum = _define("einsum", f"str expr, {_BF16}, Tensor? c, bool use_cublaslt", _einsum.einsum)
