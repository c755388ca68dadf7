"""Casts, layouts of scale factors and helpers for distributed runs, under DeepGEMM's names."""

from tilewright.deep_gemm._missing import getter, lister
from tilewright.deep_gemm.utils import layout, math
from tilewright.deep_gemm.utils.dist import init_dist, uneven_all_gather
from tilewright.deep_gemm.utils.layout import *  # noqa: F403
from tilewright.deep_gemm.utils.layout import __all__ as _layout_names
from tilewright.deep_gemm.utils.math import *  # noqa: F403
from tilewright.deep_gemm.utils.math import __all__ as _math_names

__all__ = [*_layout_names, *_math_names, "init_dist", "layout", "math", "uneven_all_gather"]

__getattr__ = getter(__name__)
__dir__ = lister(__name__)
