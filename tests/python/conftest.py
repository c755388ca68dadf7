"""Fixtures of the Python tests, and what is said where torch is not installed."""

import importlib.util
import os
import pathlib
import sys

import numpy as np
import pytest
from torch_tests import left_out

# Threads of OpenMP that spin while they wait keep the cores from other jobs, and from the processes that tests start.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
HAS_TORCH = importlib.util.find_spec("torch") is not None


def pytest_configure():
    """No test is left out in silence: where tools/setup has installed torch it has to be there."""
    if not HAS_TORCH and (pathlib.Path(sys.prefix) / ".torch").exists():
        raise pytest.UsageError("torch was installed here and is gone: remove build/venv and run tools/setup torch=yes")


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
