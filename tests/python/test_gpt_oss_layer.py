"""examples/gpt_oss_layer on a checkpoint that is written here, byte by byte: two files, scales in another than their codes."""

import pathlib
import re
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw

FOLDER = pathlib.Path(__file__).parents[2] / "examples/gpt_oss_layer"
sys.path.insert(0, str(FOLDER))
import gates  # noqa: E402
import gpt_oss_checkpoint  # noqa: E402
import gpt_oss_layer  # noqa: E402
from checkpoint import read_layer  # noqa: E402
from gpt_oss_checkpoint import EXPERTS, HIDDEN, MLP  # noqa: E402

PROGRAM = FOLDER.parents[1] / "build/release/src/cli/tilewright"
INNER = 96  # in all tests except one: the checks in numpy take long for the model's 2880


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return gpt_oss_checkpoint.write(tmp_path_factory.mktemp("gpt-oss"), INNER)


def test_reads_what_was_written(checkpoint):
    layer = read_layer(checkpoint, 3)
    written = {name: array for tensors in gpt_oss_checkpoint.random_tensors(INNER).values() for name, array in tensors.items()}
    assert layer.up.shape == (EXPERTS, 2 * INNER, HIDDEN) and layer.down.shape == (EXPERTS, HIDDEN, INNER)
    assert layer.down.bias.tobytes() == written[MLP + "experts.down_proj_bias"].tobytes()
    codes, scales = (written[MLP + f"experts.gate_up_proj_{part}"] for part in ("blocks", "scales"))
    real = layer.up.real(2)
    for row, k in [(0, 0), (0, 1), (191, 2879), (17, 1000), (18, 33)]:
        byte = int(codes[2, row, k // 32, k % 32 // 2])
        code = byte >> 4 if k % 2 else byte & 15
        magnitude = [0, 0.5, 1, 1.5, 2, 3, 4, 6][code % 8]
        assert real[row, k] == (-magnitude if code > 7 else magnitude) * 2.0 ** (int(scales[2, row, k // 32]) - 127)


def test_every_product_passes(checkpoint, capsys):
    assert gpt_oss_layer.main([str(checkpoint), "--layer", "3"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:6] for line in lines] == [
        [str(tokens), product, str(2 * tokens), str(n), str(k), arithmetic]
        for tokens in (1, 7, 64)
        for product, n, k in (("up", 2 * INNER, HIDDEN), ("down", HIDDEN, INNER))
        for arithmetic in ("fast", "bit_exact")
    ]
    assert all(line.endswith("passes") for line in lines)
    ends = {line.rindex(line.split()[9]) + len(line.split()[9]) for line in lines}
    assert len(ends) == 1 == len({len(line) for line in lines}) and ends.pop() == len(header)


def test_products_of_the_model_s_width_pass(tmp_path, capsys):
    """Down is 2880 x 2880 and up is 5760 x 2880, each with its biases."""
    folder = gpt_oss_checkpoint.write(tmp_path, HIDDEN)
    assert gpt_oss_layer.main([str(folder), "--layer", "3", "--tokens", "1"]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1:5] for line in lines[::2]] == [["up", "2", "5760", "2880"], ["down", "2", "2880", "2880"]]
    assert all(line.endswith("passes") for line in lines)


def forward(checkpoint, plant):
    """Results of 7 tokens where `plant(product)` spoils the products."""
    layer = read_layer(checkpoint, 3)
    products = [gpt_oss_layer.Product("up", layer.up, "cpu"), gpt_oss_layer.Product("down", layer.down, "cpu")]
    for product in products:
        plant(product)
    tokens = np.random.default_rng(2).standard_normal((7, HIDDEN)).astype(ml_dtypes.bfloat16)
    return gpt_oss_layer.forward(layer, products, tokens)


FAULTS = {
    "no bias": lambda bias: bias * 0,
    "the next expert's": lambda bias: np.roll(bias, 1, axis=0),
    "gate's for up": lambda bias: bias[:, np.arange(bias.shape[1]) ^ 1],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_bias_is_seen_by_every_gate(checkpoint, fault):
    def plant(product):
        product.bias = FAULTS[fault](product.bias).astype(product.bias.dtype)

    for result in forward(checkpoint, plant)[1]:
        assert result.verdict.bound > 1 and result.verdict.worst > 1 and not result.verdict.passes
        assert result.verdict.wrong_bits is None or result.verdict.wrong_bits > 1000


def test_one_wrong_bit_is_seen(checkpoint):
    x = np.random.default_rng(3).standard_normal((3, 64)).astype(ml_dtypes.bfloat16).astype(np.float64)
    total, _ = gates.tensor_core(x, x)
    right = gates.to_bf16(x @ x.T)
    assert np.array_equal(right.diagonal(), gates.to_bf16(total)) and total.all()
    part = gates.Part(x, x, np.zeros(3), right)
    assert gates.judge([part], True).wrong_bits == 0
    right[1, 2] *= 1 + 2**-7
    verdict = gates.judge([part], True)
    assert verdict.wrong_bits == 1 and not verdict.passes


def test_the_output_is_the_weighted_sum_of_experts(checkpoint):
    layer = read_layer(checkpoint, 3)
    products = [gpt_oss_layer.Product("up", layer.up, "cpu"), gpt_oss_layer.Product("down", layer.down, "cpu")]
    token = np.random.default_rng(4).standard_normal((1, HIDDEN)).astype(ml_dtypes.bfloat16)
    output, _ = gpt_oss_layer.forward(layer, products, token)
    x = token[0].astype(np.float64)
    scores = layer.router @ x + layer.router_bias
    best = np.argsort(scores)[::-1][:2]
    expected = 0
    for expert in best:
        up = layer.up.real(expert) @ x + layer.up.bias[expert].astype(np.float64)
        gate, linear = np.minimum(up[0::2], 7), np.clip(up[1::2], -7, 7)
        inner = gate / (1 + np.exp(-1.702 * gate)) * (linear + 1)
        down = layer.down.real(expert) @ inner + layer.down.bias[expert].astype(np.float64)
        expected = expected + down * np.exp(scores[expert]) / np.exp(scores[best]).sum()
    assert np.linalg.norm(output[0].astype(np.float64) - expected) < 0.01 * np.linalg.norm(expected)


def test_the_command_helps_and_refuses(checkpoint):
    command = [sys.executable, FOLDER / "gpt_oss_layer.py"]
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert "gpt_oss_layer.py gpt-oss-20b/ --layer 0" in done.stdout
    done = subprocess.run([*command, checkpoint, "--layer", "9"], capture_output=True, text=True)
    assert done.returncode == 1 and "no tensor 'model.layers.9.mlp.router.weight'" in done.stderr


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
def test_the_commands_of_the_page_on_checkpoints(checkpoint, tmp_path):
    """Converts and multiplies as docs/checkpoints.md does."""
    load = pytest.importorskip("safetensors.numpy")
    page = (FOLDER.parents[1] / "docs/checkpoints.md").read_text()
    command = re.search(r"^tilewright (convert gpt-oss-20b/ gpt-oss-20b-packed/ --pack bf16)$", page, re.M)[1]
    assert command in (FOLDER.parents[1] / "docs/quickstart.md").read_text()
    packed = tmp_path / "packed"
    words = command.replace("gpt-oss-20b-packed/", str(packed)).replace("gpt-oss-20b/", str(checkpoint)).split()
    subprocess.run([PROGRAM, *words], check=True, capture_output=True)
    code = re.search(r"```python\n(import json\n.*?)```", page, re.S)[1]
    code = code.replace("gpt-oss-20b-packed", str(packed)).replace("model.layers.0.mlp.", MLP)
    layer = read_layer(checkpoint, 3)
    x = np.ones((EXPERTS, HIDDEN), ml_dtypes.bfloat16)
    names = {"tw": tw, "x": x, "ends": np.arange(1, EXPERTS + 1), "bias": layer.up.bias.astype(np.float32)}
    exec(code, names)  # noqa: S102
    assert load and names["d"].shape == (EXPERTS, 2 * INNER)
    expected = layer.up.real(2).sum(1) + layer.up.bias[2].astype(np.float64)
    assert abs(names["d"][2].astype(np.float64) - expected).max() < 0.01 * abs(expected).max()
