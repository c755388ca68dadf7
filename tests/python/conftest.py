"""Fixtures of the Python tests, and what is said where torch is not installed."""

import importlib.util

import numpy as np
import pytest
from torch_tests import left_out

HAS_TORCH = importlib.util.find_spec("torch") is not None


def pytest_terminal_summary(terminalreporter):
    if not HAS_TORCH:
        terminalreporter.write_line(left_out(terminalreporter.stats.get("skipped", [])))


@pytest.fixture
def rng(request):
    """Random numbers that depend on the test's name only."""
    return np.random.default_rng(list(request.node.name.encode()))


@pytest.fixture
def cublas_allowed():
    """The names of tilewright.deep_gemm that go to cuBLAS on a GPU."""
    from tilewright import deep_gemm

    deep_gemm.allow_cublas()
    yield
    deep_gemm.allow_cublas(False)


@pytest.fixture
def scalar_inductor():
    """Inductor without vector instructions: to probe for them and to precompile its headers takes most of a minute."""
    import torch

    with torch._inductor.config.patch({"cpp.vec_isa_ok": False, "cpp_cache_precompile_headers": False, "compile_threads": 1}):
        yield
