"""The wheels of build/wheels, which tools/wheel has built: what they need of a system, and that they work where they are all
that is installed (`make test-wheel`)."""

import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
QUICK_START = (ROOT / "docs/quickstart.md").read_text()
WHEELS = sorted((ROOT / "build/wheels").glob("*.whl"))
NEEDED = {"libgomp.so.1", "libm.so.6", "libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}
NEWEST = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GOMP": (5, 0), "OMP": (5, 0), "GCC": (12, 0)}
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


def python_of(wheel):
    return re.search(r"-cp3(\d+)-", wheel.name).group(1)


def interpreters(wheel):
    """Those that this machine has: of the wheel's version, or from it on where it is of the stable ABI."""
    own = int(python_of(wheel))
    fits = [v for v in VERSIONS if int(v[2:]) == own or ("abi3" in wheel.name and int(v[2:]) > own)]
    found = {v: subprocess.run([ROOT / "tools/find-python", v], capture_output=True, text=True).stdout.strip() for v in fits}
    return {v: path for v, path in found.items() if path}


def environment(folder):
    """Nothing of the caller's: no compiler, no toolkit, no packages of the system."""
    return {"PATH": str(folder / "bin"), "HOME": str(folder), "LANG": "C.UTF-8"}


INSTALLED = [(wheel, version, path) for wheel in WHEELS for version, path in interpreters(wheel).items()]
IDS = [f"{wheel.name.split('-')[2]}-{wheel.name.split('-')[3]}-{version}" for wheel, version, _ in INSTALLED]


def install_lines():
    """README's first commands that install something, as they are written there."""
    first = re.search(r"```bash\n(.*?)```", README, re.S).group(1)
    lines = [line.split("#")[0].split() for line in first.splitlines() if line.strip().startswith("pip install ")]
    assert len(lines) == 2
    return lines


@pytest.fixture(scope="module", params=INSTALLED, ids=IDS)
def python(request, tmp_path_factory):
    """An interpreter with what README's lines install there, which is the wheel, and its environment."""
    wheel, _, path = request.param
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([path, "-m", "venv", folder], check=True)
    options = ["--quiet", "--disable-pip-version-check", "--no-compile", "--only-binary=:all:", "--report", folder / "report"]
    for pip, install, *what in install_lines():
        subprocess.run([folder / "bin" / pip, install, *options, *what], check=True, cwd=ROOT)
    (installed,) = json.loads((folder / "report").read_text())["install"]
    assert installed["download_info"]["url"].endswith(f"/{wheel.name}")
    return folder


def run(folder, *arguments):
    done = subprocess.run(
        [folder / "bin" / arguments[0], *arguments[1:]], capture_output=True, text=True, env=environment(folder), cwd=folder
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_there_are_wheels():
    """For the Python of this build at least; tools/wheel says which interpreters it has not found."""
    assert sysconfig.get_python_version() in {version for _, version, _ in INSTALLED}
    assert len(INSTALLED) >= len(WHEELS) > 0


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda w: w.name)
def test_a_wheel_needs_old_systems_only(wheel, tmp_path):
    assert wheel.name.endswith("-manylinux_2_35_x86_64.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    binaries = [f for f in tmp_path.rglob("*") if f.is_file() and f.read_bytes()[:4] == b"\x7fELF"]
    # The third has a name and nothing else (python/tilewright/_openmp.py).
    assert sorted(b.name.split(".")[0] for b in binaries) == ["_core", "libgomp", "tilewright"]
    for binary in binaries:
        told = subprocess.run(["objdump", "-p", binary], capture_output=True, text=True, check=True).stdout
        needed = set(re.findall(r"NEEDED +(\S+)", told))
        assert needed <= NEEDED, binary.name
        versions = [(name, tuple(map(int, v.split(".")))) for name, v in re.findall(r"\b([A-Z]+)_(\d+(?:\.\d+)+)", told)]
        assert bool(needed) == (binary.name != "libgomp.so.1")
        assert versions and all(version <= NEWEST[name] for name, version in versions), (binary.name, sorted(set(versions)))
        assert "RUNPATH" not in told and "RPATH" not in told
    names = {f.relative_to(tmp_path).as_posix() for f in tmp_path.rglob("*")}
    files = ("__init__.py", "py.typed", "_core.pyi", "selftest.py", "deep_gemm/__init__.py", "torch/__init__.py", "integrations/vllm.py")
    for name in files:
        assert f"tilewright/{name}" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_quick_start_runs(python):
    """The first example in Python, as it is written there."""
    code = re.search(r"```python\n(.*?)```", QUICK_START, re.S).group(1)
    out = run(python, "python", "-c", code + "\nprint(np.abs(d - x @ w.T).max() < 0.1 * np.abs(x @ w.T).max())")
    assert out == "True\n"


def test_engines_load_their_doors(python):
    """As vLLM and SGLang do it in each process. Neither they nor torch are here, and Tilewright is not asked for."""
    code = """
import sys
from importlib.metadata import entry_points
for group in ("vllm.general_plugins", "sglang.srt.plugins"):
    (door,) = entry_points(group=group)
    print(door.name, door.load()(), {"torch", "vllm", "sglang"} & set(sys.modules))
"""
    assert run(python, "python", "-c", code).splitlines() == ["tilewright None set()"] * 2


def test_all_wheels_have_the_same_program():
    """Therefore the selftest of the program runs for only one of them."""
    programs = set()
    for wheel in WHEELS:
        with zipfile.ZipFile(wheel) as archive:
            programs |= {archive.read(name) for name in archive.namelist() if name.endswith(".data/scripts/tilewright")}
    assert len(programs) == 1


def test_selftest_passes(python, request):
    first = request.node.callspec.params["python"] == INSTALLED[0]
    out = run(python, "python", "-m", "tilewright.selftest", "--rounds", "2", *([] if first else ["--calls-only"]))
    assert not first or ("tilewright verify --quick: backend" in out and " 0 failed" in out)
    assert re.search(r"numpy: \d+ calls, 0 wrong", out) and out.splitlines()[-1].startswith("all right")


def test_the_program_has_the_kernels(python):
    """The kernels of the pack. They exist if the build had NVRTC."""
    assert run(python, "tilewright", "--version").strip()
    has_pack = os.path.getsize(ROOT / "build/release/src/cli/tilewright") > 20 * 2**20
    kernels = re.search(r"(\d+) kernels", run(python, "tilewright", "doctor")) if has_pack else None
    assert not has_pack or int(kernels.group(1)) > 100


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
