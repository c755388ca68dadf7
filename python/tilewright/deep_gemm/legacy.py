"""DeepGEMM's Triton kernels for A100: none of them is here, and each says so when it is looked up."""

from __future__ import annotations

from typing import NoReturn


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotImplementedError(f"deep_gemm.legacy.{name}: kernels for A100 are not part of Tilewright")
