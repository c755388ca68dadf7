"""DeepGEMM's kernels of whole mixtures of experts: none of them is here."""

from tilewright.deep_gemm._missing import getter, lister

__all__: list[str] = []
__path__: list[str] = []  # of a package, so that `from deep_gemm.mega import name` says why there is none
__getattr__ = getter(__name__)
__dir__ = lister(__name__)
