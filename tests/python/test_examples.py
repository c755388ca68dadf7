"""The examples run and say what they should."""

import pathlib
import re
import subprocess
import sys

import pytest
import tilewright as tw

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


# The error of quantising normal data: about 2.7% a side in fp8, 11% in MXFP4.
@pytest.mark.parametrize("name,lines,largest", [("gemm.py", 1, 0.045), ("grouped.py", 2, 0.15)])
def test_example(name, lines, largest):
    run = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=True)
    errors = [float(percent) / 100 for percent in re.findall(r"relative error ([\d.]+)%", run.stdout)]
    assert len(errors) == lines == len(run.stdout.splitlines())
    assert all(0.01 < error < largest for error in errors), run.stdout


def readme_s_blocks():
    page = (EXAMPLES.parent / "README.md").read_text()
    blocks = [block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "tw." in block]
    assert len(blocks) == 3
    return blocks


def test_readme_s_blocks_run_one_after_another():
    blocks = readme_s_blocks()
    names = {}
    exec(blocks[0], names)  # noqa: S102
    d, x, w = names["d"], names["x"], names["w"]
    expected = names["a"].dequantize() @ names["b"].dequantize().T
    assert abs(d - expected).max() < 1e-4 * abs(expected).max()
    assert 0.03 < ((d - x @ w.T) ** 2).sum() ** 0.5 / ((x @ w.T) ** 2).sum() ** 0.5 < 0.04
    exec(blocks[1], names)  # noqa: S102
    assert names["d"].shape == (64, 512) and names["d"].dtype == "bfloat16"


def test_readme_s_block_for_torch():
    """On the CPU; tests/wheel/on_gpu.py runs it as it is."""
    torch = pytest.importorskip("torch")
    names = {"tw": tw}
    exec(readme_s_blocks()[2].replace('"cuda"', '"cpu"'), names)  # noqa: S102
    d, a, experts = names["d"], names["a"].dequantize(), names["experts"].dequantize()
    expected = torch.cat([a[:17] @ experts[0].T, a[17:] @ experts[2].T])
    assert d.dtype == torch.bfloat16 and (d.float() - expected).abs().max() < 0.01 * expected.abs().max()
