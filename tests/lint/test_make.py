"""`make run` and `make wheel` build no tests and print a line per step; only `make run` leaves the kernels out."""

import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).parents[2]


def commands(target):
    # The make that runs these tests exports its options and the variables of its command line (built=yes).
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(["make", "-n", target], cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def step(folder, *arguments):
    (folder / "tools").mkdir(exist_ok=True)
    script = folder / "tools/step"
    script.write_text((ROOT / "tools/step").read_text())
    return subprocess.run(["bash", script, *arguments], cwd=folder, capture_output=True, text=True)


def test_run_and_wheel_build_one_target():
    for target in ("run", "wheel"):
        builds = re.findall(r"cmake --build .*", commands(target))
        assert builds and all(line.endswith("--target tilewright_program") for line in builds), builds


def test_only_run_leaves_kernels_out():
    assert "TILEWRIGHT_QUICK_RUN" in commands("run")
    for target in ("build", "test-cpp", "wheel"):
        assert "cmake --preset release" in commands(target)
        assert "TILEWRIGHT_QUICK_RUN" not in commands(target)
    presets = {p["name"]: p for p in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]}
    assert presets["release"]["cacheVariables"]["TILEWRIGHT_QUICK_RUN"] == "OFF"  # also after `make run` in the same folder


def test_a_step_prints_one_line(tmp_path):
    done = step(tmp_path, "build", "the library", "bash", "-c", "echo much; echo more >&2")
    assert done.returncode == 0
    assert re.fullmatch(r"build: the library \.\.\. \d+ s\n", done.stdout)
    assert (tmp_path / "build/logs/build.log").read_text() == "much\nmore\n"


def test_a_step_prints_warnings_and_the_end_of_a_failure(tmp_path):
    warned = step(tmp_path, "build", "the library", "echo", "x.cpp:1:1: warning: unused")
    assert warned.stdout.splitlines()[1:] == ["x.cpp:1:1: warning: unused"]
    failed = step(tmp_path, "build", "the library", "bash", "-c", "seq 100; exit 3")
    assert failed.returncode == 3
    assert failed.stdout.splitlines()[0].endswith("the end of build/logs/build.log:")
    assert failed.stdout.splitlines()[-1] == "100" and "50" not in failed.stdout.splitlines()
