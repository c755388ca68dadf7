"""examples/moe_train on the CPU: dW of each recipe against bfloat16 at fixed steps, losses that fall, and faults that are seen."""

import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

FOLDER = pathlib.Path(__file__).parents[2] / "examples/moe_train"
sys.path.insert(0, str(FOLDER))
import observe  # noqa: E402
import train  # noqa: E402


def run(*words, recipe="row"):
    return train.train(recipe, 0, train.parsed(["--steps", "9", "--every", "4", "--batch", "4", *words]))


@pytest.mark.parametrize("recipe", train.RECIPES)
def test_gradients_of_weights_are_near_those_of_bfloat16(recipe):
    seen = run(recipe=recipe)
    assert list(seen["sqnr"]) == [0, 4, 8]
    assert all(27 < noise < 45 for noise in seen["sqnr"].values()), seen["sqnr"]
    losses = dict(seen["losses"])
    assert losses[8] < losses[4] < losses[0]


@pytest.mark.parametrize("recipe", train.RECIPES)
def test_gradients_in_e5m2_are_coarser(recipe):
    """On the same numbers, which the first step has, by about 3 dB: one bit less of one side."""
    seen, finer = run(recipe=f"{recipe}/e5m2"), run("--steps", "1", recipe=recipe)
    assert 2 < finer["sqnr"][0] - seen["sqnr"][0] < 5
    assert train.judge([seen]) == 0


def test_bf16_is_its_own_reference():
    assert min(run(recipe="bf16")["sqnr"].values()) > 45


@pytest.mark.parametrize("fault", [fault for fault in observe.FAULTS if fault != "none"])
@pytest.mark.parametrize("recipe", train.RECIPES)
def test_planted_faults_are_seen(recipe, fault):
    seen = run("--fault", fault, recipe=recipe)
    assert min(seen["sqnr"].values()) < 24
    assert train.judge([seen]) == 0


def test_what_is_wrong_is_said(capsys):
    seeds = [{"recipe": "bf16", "held_out": 2.0 + 0.01 * i} for i in range(4)]
    good = {"recipe": "row", "fault": "none", "sqnr": {0: 29.0}, "held_out": 2.01}
    assert train.judge([*seeds, good]) == 0
    assert train.judge([*seeds, good | {"held_out": 2.2}]) == 1
    assert "loss 2.2000 where bf16's seeds reach 2.0408" in capsys.readouterr().out
    assert train.judge([good | {"sqnr": {0: 24.0}}]) == 1
    assert train.judge([good | {"sqnr": {0: 24.0}, "recipe": "row/e5m2"}]) == 0
    assert train.judge([good | {"sqnr": {0: 21.0}, "recipe": "row/e5m2"}]) == 1
    assert train.judge([good | {"fault": "flushed"}]) == 1
    assert "the fault is not seen: dW 29.0 dB" in capsys.readouterr().out


def test_the_command_runs_and_refuses(tmp_path):
    command = [sys.executable, "-W", "ignore", FOLDER / "train.py"]
    words = ["--steps", "2", "--batch", "1", "--recipes", "row", "--json", tmp_path / "runs.jsonl"]
    done = subprocess.run([*command, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 2
    refused = subprocess.run([*command, "--recipes", "mxfp4"], capture_output=True, text=True)
    assert refused.returncode == 2 and "mxfp4 given, one of row, tensor, 1x128, fold expected" in refused.stderr
