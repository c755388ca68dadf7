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


def test_readme_s_blocks_run_one_after_another():
    page = (EXAMPLES.parent / "README.md").read_text()
    blocks = [block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "tw." in block]
    assert len(blocks) == 2
    names = {}
    exec(blocks[0], names)  # noqa: S102
    d, x, w = names["d"], names["x"], names["w"]
    expected = names["a"].dequantize() @ names["b"].dequantize().T
    assert abs(d - expected).max() < 1e-4 * abs(expected).max()
    assert 0.03 < ((d - x @ w.T) ** 2).sum() ** 0.5 / ((x @ w.T) ** 2).sum() ** 0.5 < 0.04
    exec(blocks[1], names)  # noqa: S102
    assert names["d"].shape == (64, 512) and names["d"].dtype == "bfloat16"
