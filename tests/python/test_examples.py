"""The examples run and say what they should."""

import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


# The error of quantising normal data: about 2.7% a side in fp8, 11% in MXFP4.
@pytest.mark.parametrize("name,lines,largest", [("gemm.py", 1, 0.045), ("grouped.py", 2, 0.15)])
def test_example(name, lines, largest):
    run = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=True)
    errors = [float(percent) / 100 for percent in re.findall(r"relative error ([\d.]+)%", run.stdout)]
    assert len(errors) == lines == len(run.stdout.splitlines())
    assert all(0.01 < error < largest for error in errors), run.stdout
