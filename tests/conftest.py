"""Before any test of Python is imported, and torch or the library with it: what OpenMP reads once, and whether torch is there."""

import importlib.util
import os
import pathlib
import sys

import pytest

# Threads that spin while they wait keep the cores from other jobs, and from the processes that tests start.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def pytest_configure():
    """No test is left out in silence: where tools/setup has installed torch it has to be there."""
    if importlib.util.find_spec("torch") is None and (pathlib.Path(sys.prefix) / ".torch").exists():
        raise pytest.UsageError("torch was installed here and is gone: remove build/venv and run tools/setup torch=yes")
