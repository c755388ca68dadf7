"""Functions to time and compare, and decorators for tests, under DeepGEMM's names."""

from tilewright.deep_gemm._missing import getter, lister
from tilewright.deep_gemm.testing import numeric, utils
from tilewright.deep_gemm.testing.bench import bench, bench_kineto
from tilewright.deep_gemm.testing.numeric import assert_bitwise_equal, calc_diff, count_bytes
from tilewright.deep_gemm.testing.utils import get_arch_major, ignore_env, test_filter

__all__ = [
    "assert_bitwise_equal",
    "bench",
    "bench_kineto",
    "calc_diff",
    "count_bytes",
    "get_arch_major",
    "ignore_env",
    "numeric",
    "test_filter",
    "utils",
]

__getattr__ = getter(__name__)
__dir__ = lister(__name__)
