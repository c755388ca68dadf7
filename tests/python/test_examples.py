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


def blocks_of(page):
    return re.findall(r"```python\n(.*?)```", (EXAMPLES.parent / page).read_text(), re.S)


def is_expected(names):
    """A product of 64 rows with experts, on torch."""
    import torch

    d, a, experts = names["d"], names["a"].dequantize(), names["experts"].dequantize()
    expected = torch.cat([a[:17] @ experts[0].T, a[17:] @ experts[2].T])
    return d.dtype == torch.bfloat16 and bool((d.float() - expected).abs().max() < 0.01 * expected.abs().max())


def test_the_blocks_of_the_quick_start_run_one_after_another():
    blocks = blocks_of("docs/quickstart.md")
    assert len(blocks) == 3
    names = {}
    exec(blocks[0], names)  # noqa: S102
    d, x, w = names["d"], names["x"], names["w"]
    expected = names["a"].dequantize() @ names["b"].dequantize().T
    assert abs(d - expected).max() < 1e-4 * abs(expected).max()
    assert 0.03 < ((d - x @ w.T) ** 2).sum() ** 0.5 / ((x @ w.T) ** 2).sum() ** 0.5 < 0.04
    exec(blocks[1], names)  # noqa: S102
    assert names["d"].shape == (64, 512) and names["d"].dtype == "bfloat16"
    pytest.importorskip("torch")
    exec(blocks[2].replace('"cuda"', '"cpu"'), names)  # noqa: S102
    assert is_expected(names)


def test_the_block_of_the_readme_runs():
    """On the CPU; tests/wheel/on_gpu.py runs it as it is."""
    pytest.importorskip("torch")
    (block,) = blocks_of("README.md")
    names = {}
    exec(block.replace('"cuda"', '"cpu"'), names)  # noqa: S102
    assert is_expected(names)


def test_the_block_on_packed_weights_runs():
    (block,) = blocks_of("docs/fp4.md")
    names = {}
    exec(block, names)  # noqa: S102
    assert names["d"].shape == (64, 512)
    expected = names["x"][8:16].astype("float32") @ names["w"].dequantize()[1].T
    assert abs(names["d"][8:16].astype("float32") - expected).max() < 0.01 * abs(expected).max()


def test_the_block_on_determinism_runs():
    (block,) = blocks_of("docs/determinism.md")
    if not hasattr(tw, "options"):
        pytest.skip("no tw.options in this version")
    exec(block, {})  # noqa: S102
