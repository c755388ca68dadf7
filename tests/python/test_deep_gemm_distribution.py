"""The distribution tilewright-deep-gemm, built and installed into a folder.

Its package deep_gemm is tilewright.deep_gemm, in spawned workers too. With another distribution of that package it is an error.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

ROOT = pathlib.Path(__file__).parents[2]
SOURCE = ROOT / "python/deep_gemm_distribution"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """As pip installs it, without a network."""
    folder = tmp_path_factory.mktemp("distribution")
    source = shutil.copytree(SOURCE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-index", "--no-deps"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", folder / "site", source], check=True)
    return folder / "site"


def run(script, *folders, check=True):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done


SPAWNS = """
import importlib.util
import multiprocessing
import types


def work(queue):
    # As engines do: a module found by its name, names asked for by getattr, functions imported from submodules.
    assert importlib.util.find_spec("deep_gemm") is not None
    import deep_gemm
    from deep_gemm import fp8_gemm_nt
    from deep_gemm.legacy import __path__
    from deep_gemm.testing import calc_diff
    from deep_gemm.testing.bench import bench_kineto
    from deep_gemm.utils import per_block_cast_to_fp8
    from deep_gemm.utils.layout import set_mk_alignment_for_contiguous_layout
    from deep_gemm.utils.math import per_token_cast_to_fp8
    import deep_gemm.utils.dist
    import tilewright.deep_gemm
    import torch

    assert deep_gemm is tilewright.deep_gemm and deep_gemm.utils is tilewright.deep_gemm.utils
    assert fp8_gemm_nt is tilewright.deep_gemm.fp8_gemm_nt
    assert importlib.import_module("deep_gemm") is deep_gemm and importlib.util.find_spec("deep_gemm") is not None
    set_mk_alignment_for_contiguous_layout(64)
    assert deep_gemm.get_mk_alignment_for_contiguous_layout() == 64
    x, d = torch.randn(4, 128), torch.empty(4, 4)
    fp8_gemm_nt(per_token_cast_to_fp8(x, False), per_block_cast_to_fp8(x, False), d)
    # TILEWRIGHT_DEEP_GEMM_FALLBACK names a module of this folder.
    queue.put((bool(calc_diff(d, x @ x.T) < 1e-3), deep_gemm.fp8_fp4_mqa_logits(), hasattr(deep_gemm, "tf32_hc_prenorm_gemm")))


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    worker = context.Process(target=work, args=(queue,))
    worker.start()
    print(queue.get(timeout=120))
    worker.join()
"""


def test_spawned_workers_find_it(installed, tmp_path, monkeypatch):
    (tmp_path / "spawns.py").write_text(SPAWNS)
    (tmp_path / "other_deep_gemm.py").write_text("def fp8_fp4_mqa_logits():\n    return 'forwarded'\n")
    monkeypatch.setenv("TILEWRIGHT_DEEP_GEMM_FALLBACK", "other_deep_gemm")
    assert run(tmp_path / "spawns.py", installed, tmp_path).stdout == "(True, 'forwarded', False)\n"


@pytest.mark.parametrize("described_by", ["top_level.txt", "RECORD"])
def test_two_owners_are_named(installed, tmp_path, described_by):
    """As setuptools describes a distribution, and as other tools do."""
    other = tmp_path / "deep_gemm-2.6.1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: deep_gemm\nVersion: 2.6.1\n")
    (other / described_by).write_text({"top_level.txt": "deep_gemm\n", "RECORD": "deep_gemm/__init__.py,,\n"}[described_by])
    script = tmp_path / "imports.py"
    script.write_text("import deep_gemm\n")
    done = run(script, installed, tmp_path, check=False)
    assert done.returncode == 1
    assert "ImportError: deep_gemm: got the distributions deep_gemm 2.6.1 and tilewright-deep-gemm 0.1.0; expected one." in done.stderr


def test_other_distributions_do_not_count(installed, tmp_path):
    """One whose folder's name begins alike, and an older copy of this one in another folder of the path."""
    older = shutil.copytree(next(installed.glob("*.dist-info")), tmp_path / "tilewright_deep_gemm-0.0.1.dist-info")
    (older / "METADATA").write_text("Metadata-Version: 2.1\nName: tilewright_deep_gemm\nVersion: 0.0.1\n")
    other = tmp_path / "deep_gemm_tools-1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: deep_gemm_tools\nVersion: 1\n")
    (other / "RECORD").write_text("deep_gemm_tools/__init__.py,,\nx/deep_gemm/y.py,,\n")
    script = tmp_path / "imports.py"
    script.write_text("import sys\nsys.modules['tilewright'] = None  # it goes on to import it\nimport deep_gemm\n")
    assert "No module named 'tilewright.deep_gemm'" in run(script, installed, tmp_path, check=False).stderr


def test_versions_are_the_library_s():
    version = re.search(r"project\(tilewright VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    project = (SOURCE / "pyproject.toml").read_text()
    assert f'version = "{version}"' in project and f'"tilewright>={version}"' in project
