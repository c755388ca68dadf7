"""Runs before torch or the library is imported: sets variables that OpenMP reads only once, and checks what is installed."""

import gc
import importlib.util
import os
import pathlib
import sys

import pytest

# Threads that spin while they wait keep the cores from other jobs, and from the processes that tests start.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def pytest_configure():
    """No test is skipped silently: if tools/setup has installed torch or transformers, their import must work."""
    for package, stamp in (("torch", ".torch"), ("transformers", ".engines")):
        if importlib.util.find_spec(package) is None and (pathlib.Path(sys.prefix) / stamp).exists():
            raise pytest.UsageError(f"{package} was installed here and is gone: remove build/venv and run tools/setup torch=yes")


def pytest_collection_finish():
    """torch and the other modules are a million objects that never end: no collection looks at them again."""
    gc.freeze()
