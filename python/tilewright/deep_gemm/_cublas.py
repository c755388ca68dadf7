"""`allow_cublas`: bf16 products that exist only if the caller permits cuBLAS on a GPU."""

from __future__ import annotations

import sys

from tilewright.deep_gemm import dense, grouped
from tilewright.deep_gemm._missing import CUBLAS_NAMES


def allow_cublas(allowed: bool = True) -> None:
    """Adds bf16_gemm_nn, m_grouped_bf16_gemm_nt_contiguous and k_grouped_bf16_gemm_tn_contiguous, on any device.

    They are missing by default, because Megatron-LM concludes from all three that a library has batch-invariant kernels.
    Here they go to cuBLAS on a GPU, so that results may depend on the batch. The setting is per process: call it in spawned
    workers too.

    Args:
        allowed: True (default) adds the names, False removes them.
    """
    package = vars(sys.modules[__package__])
    for name in CUBLAS_NAMES:
        if allowed:
            package[name] = getattr(dense, name, None) or getattr(grouped, name)
        else:
            package.pop(name, None)
    others = [name for name in package["__all__"] if name not in CUBLAS_NAMES]
    package["__all__"][:] = [*others, *CUBLAS_NAMES] if allowed else others
