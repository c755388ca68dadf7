"""The contestants of one case of `make gpu-contest`: whole calls as users make them, on the same values.

The drop-in and DeepGEMM get the same tensors. The native call has K-major scales and, for contiguous groups, no padding. torch's
calls with one scale per tensor or row do less work. Scales are made and brought into a call's order before it is timed, because a
quantizer writes them in any order.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Iterator
from typing import Any

import tilewright as tw
import torch
from contest_cases import BLAS_BLOCKS, BLAS_TENSOR, DEEP_GEMM, DROP_IN, NATIVE, TORCH_ROWS, Case
from deep_gemm_call import Call
from tilewright import deep_gemm as our_deep_gemm
from training_contestant import TILEWRIGHT, TORCH, Contestant, Maker, MissingError, begins_of, deep_gemm, named

# The limit of calc_diff, as in DeepGEMM's tests. The rounding of D to bf16 gives 1e-6.
MOST_DIFFERENCE = 1e-3
MOST_GROUPS = 3  # that a check looks at
ROWS_OF_TORCH = f"{TORCH} _scaled_mm, _scaled_grouped_mm per-row scale"


@functools.cache
def found_deep_gemm() -> tuple[Any, str]:
    """The module `deep_gemm`, or why it is missing. A failed import is slow, and is not repeated for each case."""
    try:
        module = deep_gemm()
    except MissingError as why:
        return None, str(why)
    if getattr(module, "fp8_gemm_nt", None) is our_deep_gemm.fp8_gemm_nt:
        return None, "the module deep_gemm is tilewright.deep_gemm; DeepGEMM is not installed"
    return module, ""


def live_deep_gemm() -> Any:
    module, why = found_deep_gemm()
    if module is None:
        raise MissingError(why)
    return module


@functools.cache
def deep_gemm_version() -> str | None:
    """With the package that brought it, because forks have the same module."""
    module, _ = found_deep_gemm()
    if module is None:
        return None
    packages = importlib.metadata.packages_distributions().get("deep_gemm", [])
    return " ".join([str(getattr(module, "__version__", "of an unknown version")), *(f"({name})" for name in packages)])


class Contest:
    """The contestants of a case, on `device`."""

    def __init__(self, case: Case, device: str):
        self.case, self.device = case, device
        self.call = Call(case.operation, case.shape, case.rows, device)
        self.starts = begins_of(tuple(case.rows))[:-1]  # of groups without padding

    def contestants(self) -> Iterator[tuple[str, str, Maker]]:
        yield DROP_IN, f"{TILEWRIGHT} drop-in", self.drop_in
        yield NATIVE, TILEWRIGHT, {"dense": self.native_dense, "contiguous": self.native_contiguous, "masked": self.native_masked}[self.case.operation]
        yield DEEP_GEMM, f"DeepGEMM {deep_gemm_version() or ''}".strip(), self.deep_gemm
        if self.case.operation == "dense":
            yield BLAS_TENSOR, f"cuBLASLt of {TORCH}, _scaled_mm per-tensor scale", self.blas_tensor
            yield BLAS_BLOCKS, f"cuBLASLt of {TORCH}, _scaled_mm 1x128 / 128x128 scale", self.blas_blocks
            yield TORCH_ROWS, ROWS_OF_TORCH, self.torch_rows
        elif self.case.operation == "contiguous":
            yield TORCH_ROWS, ROWS_OF_TORCH, self.torch_grouped_rows

    def contestant(self, call: Callable[[], Any], result: Callable[[], torch.Tensor], **checked: Any) -> Contestant:
        """checked: what `Call.difference` is told of the result."""

        def error() -> float:
            return self.call.difference(result(), most_groups=MOST_GROUPS, **checked)

        return Contestant(call, result, error, MOST_DIFFERENCE, {}, sum(self.case.rows))

    def through(self, module: Any, **options: Any) -> Contestant:
        self.call.d.fill_(float("nan"))  # the result of another contestant must not pass as this one's
        return self.contestant(self.call.through(module, **options), lambda: self.call.d)

    def drop_in(self) -> Contestant:
        return self.through(our_deep_gemm)

    def deep_gemm(self) -> Contestant:
        """Kernels for these n and k, which is DeepGEMM's default. A fork has another default for dense calls."""
        return self.through(live_deep_gemm(), compiled_dims="nk")

    def quantized(self) -> tuple[tw.Quantized, tw.Quantized]:
        return tw.Quantized(self.call.a, "1x128", self.call.a_scales.contiguous()), tw.Quantized(self.call.b, "128x128", self.call.b_scales)

    def native_dense(self) -> Contestant:
        (a, b), d = self.quantized(), self.call.output(*self.call.lead)
        return self.contestant(lambda: tw.gemm(a, b, out=d), lambda: d)

    def native_contiguous(self) -> Contestant:
        call, d = self.call.by_exact_ends()
        return self.contestant(call, lambda: d, starts=self.starts)

    def native_masked(self) -> Contestant:
        (a, b), d = self.quantized(), self.call.output(*self.call.lead)
        counts, hint = self.call.sizes, self.call.expected_m
        return self.contestant(lambda: tw.grouped_gemm(a, b, counts=counts, expected_m=hint, out=d), lambda: d)

    def scaled_mm(self, a_scales: torch.Tensor, b_scales: torch.Tensor, fast: bool, **checked: Any) -> Contestant:
        function, a, b, made = named(torch, "_scaled_mm"), self.call.a, self.call.b.T, [torch.empty(0)]

        def call() -> None:
            made[0] = function(a, b, scale_a=a_scales, scale_b=b_scales, out_dtype=torch.bfloat16, use_fast_accum=fast)

        return self.contestant(call, lambda: made[0], **checked)

    def blas_tensor(self) -> Contestant:
        one = torch.ones((), device=self.device)
        return self.scaled_mm(one, one, True, a_real=self.call.a_values, b_real=lambda _: self.call.b.float())

    def blas_blocks(self) -> Contestant:
        """cuBLASLt reads scales of 128x128 blocks in rows of a multiple of four."""
        blocks = self.call.b_scales
        padded = torch.zeros(len(blocks), -(-self.call.k_blocks // 4) * 4, device=self.device)
        padded[:, : self.call.k_blocks] = blocks
        return self.scaled_mm(self.call.a_scales, padded[:, : self.call.k_blocks].T, False)

    def row_scales(self, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.call.scales(tokens), self.call.scales(*self.call.outer, self.call.n)

    def of_rows(self, a_scales: torch.Tensor, b_scales: torch.Tensor) -> dict[str, Any]:
        """Operands with row scales, for the check of a product. A has no padding."""
        return {
            "a_real": lambda group, rows: self.call.a_values(group, rows) * a_scales[rows + self.starts[group], None],
            "b_real": lambda group: self.call.of_group(self.call.b, group).float() * self.call.of_group(b_scales, group)[:, None],
        }

    def torch_rows(self) -> Contestant:
        a_scales, b_scales = self.row_scales(len(self.call.a))
        return self.scaled_mm(a_scales[:, None], b_scales[None], True, **self.of_rows(a_scales, b_scales))

    def torch_grouped_rows(self) -> Contestant:
        function = named(torch, "_scaled_grouped_mm")
        _, a, ends = self.call.unpadded()
        a_scales, b_scales = self.row_scales(len(a))
        b, made = self.call.b.transpose(-1, -2), [torch.empty(0)]

        def call() -> None:
            made[0] = function(a, b, a_scales, b_scales, offs=ends, out_dtype=torch.bfloat16, use_fast_accum=True)

        return self.contestant(call, lambda: made[0], starts=self.starts, **self.of_rows(a_scales, b_scales))
