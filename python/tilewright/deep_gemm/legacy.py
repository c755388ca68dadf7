"""DeepGEMM's Triton kernels for A100. Tilewright has none of them."""

from tilewright.deep_gemm._missing import getter, lister

__all__: list[str] = []
__path__: list[str] = []  # makes it a package, so that `from deep_gemm.legacy import name` gives the reason
__getattr__ = getter(__name__)
__dir__ = lister(__name__)
