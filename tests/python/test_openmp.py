"""Where the system has no libgomp.so.1, torch's copy is taken; without torch the error names the way out."""

import functools
import os
import pathlib
import subprocess
import sys

import pytest
from tilewright import _openmp

COPY = "libgomp-0123abcd.so.1"
MULTIPLY = """
import numpy as np, tilewright as tw
from tilewright import _openmp
a = tw.quantize(np.ones((512, 512), np.float32), "1x128.ue8m0")
print(tw.gemm(a, a, out_dtype="f32")[0, 0], *_openmp.preloads)
"""


@pytest.fixture(name="torch_folder")
def folder_with_torch(tmp_path):
    """A torch that cannot be imported, for it must not be."""
    (tmp_path / "torch/lib").mkdir(parents=True)
    (tmp_path / "torch/__init__.py").write_text("raise RuntimeError('imported')\n")
    return tmp_path


def test_copies_are_found_and_torch_is_not_imported(torch_folder, monkeypatch):
    monkeypatch.syspath_prepend(torch_folder)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert not _openmp.torch_copies()
    (torch_folder / "torch.libs").mkdir()
    copies = [torch_folder / "torch/lib" / COPY, torch_folder / "torch.libs/libgomp.so.1.0.0"]
    for copy in copies:
        copy.write_text("no library")
    assert _openmp.torch_copies() == copies
    assert not _openmp.load_torch_copy() and not _openmp.preloads


def test_programs_load_what_this_process_has(monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "/other.so")
    assert _openmp.environment() == dict(os.environ)
    monkeypatch.setattr(_openmp, "preloads", ["/a.so", "/b.so"])
    assert _openmp.environment() == {**os.environ, "LD_PRELOAD": "/a.so /b.so /other.so"}


@functools.cache
def system_copy():
    """The system's libgomp, which a process without torch loads; this one has torch's copy if torch came first."""
    maps = "import tilewright; print(open('/proc/self/maps').read())"
    lines = subprocess.run([sys.executable, "-c", maps], capture_output=True, text=True, check=True).stdout.splitlines()
    return next(pathlib.Path(line.split()[-1]) for line in lines if "/libgomp.so.1" in line and "tilewright" not in line)


def without_it(code, **environment):
    """Runs Python in separate namespaces, where the system's libgomp is an empty file."""
    hide = f'mount --bind /dev/null {system_copy()} && exec "$0" -c "$1"'
    return subprocess.run(
        ["unshare", "--mount", "--map-root-user", "sh", "-c", hide, sys.executable, code],
        capture_output=True, text=True, check=False, env={**os.environ, **environment})  # fmt: skip


def needs_namespaces():
    if (done := without_it("pass")).returncode != 0:
        pytest.skip("this system gives no namespaces: " + done.stderr.strip()[:80])


def test_torch_s_copy_is_loaded(torch_folder):
    needs_namespaces()
    renamed = system_copy().read_bytes().replace(b"libgomp.so.1\0", b"libgomp-0123\0")  # its name as torch's has another
    (torch_folder / "torch/lib" / COPY).write_bytes(renamed)
    done = without_it(MULTIPLY, PYTHONPATH=str(torch_folder))
    result, copy, name = done.stdout.split() if done.returncode == 0 else [done.stderr] * 3
    assert (float(result), copy) == (512.0, str(torch_folder / "torch/lib" / COPY))
    assert name.endswith("tilewright/_libgomp/libgomp.so.1")


def test_without_one_the_error_names_the_way_out(torch_folder):
    needs_namespaces()
    done = without_it("import tilewright", PYTHONPATH=str(torch_folder))
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("ImportError: ") and "libgomp" in line
    assert line.endswith("install OpenMP's run time, e.g. with apt-get install libgomp1, or install torch, whose copy is then used.")
