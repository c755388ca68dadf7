"""Runs before torch or the library is imported: sets variables that OpenMP reads only once, and checks that torch is installed."""

import importlib.util
import os
import pathlib
import sys

import pytest

# Threads that spin while they wait keep the cores from other jobs, and from the processes that tests start.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def pytest_configure():
    """No test is skipped silently: if tools/setup has installed torch, its import must work."""
    if importlib.util.find_spec("torch") is None and (pathlib.Path(sys.prefix) / ".torch").exists():
        raise pytest.UsageError("torch was installed here and is gone: remove build/venv and run tools/setup torch=yes")
