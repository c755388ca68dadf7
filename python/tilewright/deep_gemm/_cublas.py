"""Names of bf16 products that are here only when the caller has said that they may go to cuBLAS on a GPU."""

from __future__ import annotations

import sys

from tilewright.deep_gemm import dense, grouped
from tilewright.deep_gemm._missing import CUBLAS_NAMES


def allow_cublas(allowed: bool = True) -> None:
    """Adds bf16_gemm_nn, m_grouped_bf16_gemm_nt_contiguous and k_grouped_bf16_gemm_tn_contiguous, on any device.

    Megatron-LM takes a library that has them for one with batch-invariant kernels. Here they are cuBLAS's on a GPU, and
    results may depend on the batch. False takes them away again. It is of this process: spawned workers call it too.
    """
    package = vars(sys.modules[__package__])
    for name in CUBLAS_NAMES:
        if allowed:
            package[name] = getattr(dense, name, None) or getattr(grouped, name)
        else:
            package.pop(name, None)
    others = [name for name in package["__all__"] if name not in CUBLAS_NAMES]
    package["__all__"][:] = [*others, *CUBLAS_NAMES] if allowed else others
