"""benchmarks/expert_parallel.py and expert_training.py on the CPU, in two processes: chains compute the same. Wrong and missing ones
are named. Targets and tables follow from the times."""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
if not torch.distributed.is_available():
    pytest.skip("needs torch.distributed", allow_module_level=True)

import expert_parallel_targets as targets  # noqa: E402
import expert_parallel_table as tables  # noqa: E402

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = ROOT / "benchmarks/expert_parallel.py"
TRAINING = ROOT / "benchmarks/expert_training.py"
STAND_IN = ROOT / "tests/python/deep_ep_stand_in"
CHAINS = {"one", "torch", "gather", "deep_ep"}


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def run(*words, program=PROGRAM, ranks=2, **environment):
    """A program in new processes. Returns the exit codes and rank 0's output."""
    path = os.pathsep.join([str(STAND_IN), *filter(None, [os.environ.get("PYTHONPATH")])])
    common = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
              "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), **environment}  # fmt: skip
    started = [
        subprocess.Popen(
            [sys.executable, program, "--device", "cpu", *words],
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(ranks)
    ]  # fmt: skip
    outputs = [process.communicate(timeout=200)[0] for process in started]
    return [process.returncode for process in started], outputs[0]


def test_all_contestants_compute_one_gpu_s_results():
    codes, output = run("--check")
    assert codes == [0, 0] and "done, 0 wrong" in output, output
    lines = re.findall(r"^tiny.* \d+   (.*)", output, re.M)
    assert len(lines) == 6, output
    for line in lines:
        errors = {name: float(value) for name, value in (word.split() for word in line.split(", "))}
        assert CHAINS - {"one"} <= set(errors) and "local" in errors and max(errors.values()) < 0.01, line


def test_three_ranks():
    codes, output = run("--check", "--models", "tiny-wide", "--tokens", "5", ranks=3)
    assert codes == [0] * 3 and "done, 0 wrong" in output, output
    for program, words in ((PROGRAM, ("--check",)), (TRAINING, ())):
        codes, output = run(*words, program=program, ranks=3)
        assert codes == [2] * 3
        assert "got 3 processes; expected a divisor of the 8 experts of tiny" in output


def test_training_steps_are_timed(tmp_path):
    record = tmp_path / "record.jsonl"
    codes, output = run("--repeats", "1", "--json", record, program=TRAINING)
    assert codes == [0, 0] and "0 tensors differ" in output, output
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    assert len(rows) == 4 and all(set(row["us"]) == {"dense", "local", "all_gather", "all_to_all"} for row in rows)
    assert not any(row["missing"] for row in rows)
    assert "| tiny |" in tables.training(rows) and not tables.training([])


def test_a_wrong_result_is_named_and_not_timed(tmp_path):
    record = tmp_path / "record.jsonl"
    words = ("--models", "tiny", "--tokens", "7", "--repeats", "1", "--json", record)
    codes, output = run(*words, DEEP_EP_FAULT="1")
    assert codes == [1, 1] and "done, 1 wrong" in output
    assert re.search(r"left out: deep_ep of tiny, 7 tokens: wrong: a token differs by [\d.]+ of its norm from one GPU", output)
    row = json.loads(record.read_text())
    assert "deep_ep" not in row["us"] and row["missing"]["deep_ep"].startswith("wrong") and "torch" in row["us"]


def test_a_record_has_all_times_and_ratios(tmp_path):
    record = tmp_path / "record.jsonl"
    codes, output = run("--models", "tiny", "--repeats", "1", "--json", record)
    assert codes == [0, 0], output
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    assert [row["tokens"] for row in rows] == [1, 7, 40]
    for row in rows:
        named = CHAINS | {"local", "products", "all_gather", "all_to_all"} | set(targets.CALLS)
        assert named == set(row["us"]) | set(row["missing"])
        assert set(row["us"]).isdisjoint(row["missing"]) and all(us > 0 for us in row["us"].values())
        assert targets.judged(row) == row
    assert tables.layers(rows).count("| tiny |") == 3 and tables.absent(rows).count("\n- ") == len(rows[0]["missing"])


def test_a_start_without_torchrun_or_a_known_model_says_so():
    environment = {name: value for name, value in os.environ.items() if name != "RANK"}
    done = subprocess.run([sys.executable, PROGRAM, "--device", "cpu"], env=environment, capture_output=True, text=True)
    assert done.returncode == 2 and "start it with torchrun" in done.stderr
    codes, output = run("--models", "tiny,large", ranks=1)
    assert codes == [2] and "got models tiny,large; expected some of tiny, tiny-wide" in output


def row_of(tokens=32, model="Qwen3-30B-A3B", ranks=2, **us):
    times = {"local": 100.0, "products": 90.0, "all_gather": 10.0, "all_to_all": 12.0, "ours": 120.0,
             "peer_rows": 125.0, "peer_sums": 114.0, "dense_rows": 150.0, "dense_sums": 127.0,
             "torch": 180.0, "gather": 132.0, "one": 192.0, **us}  # fmt: skip
    return targets.judged({
        "table": "layer", "model": model, "hidden": 2048, "inner": 768, "experts": 128, "choices": 8, "ranks": ranks,
        "tokens": tokens, "us": times, "errors": {}, "missing": {}, "bytes_per_us": 1000.0,
    })  # fmt: skip


def test_targets_of_few_tokens_are_fixed_times():
    row = row_of()
    assert row["targets_us"] == {"peer": 114.0, "dense": 127.0}
    assert row["of_target"] == {"peer_rows": 125 / 114, "peer_sums": 1.0, "dense_rows": 150 / 127, "dense_sums": 1.0}
    assert row["speeds"] == {"torch": 1.5, "gather": 1.1, "one": 1.6} and row["least_speeds"] == {"torch": 1.5, "gather": 1.15}


def test_targets_of_many_tokens_are_half_of_the_time_of_the_bytes():
    moved = 2048 * (2048 + 64 + 64) + 2 * 2048 * 2048
    row = row_of(2048)
    assert row["targets_us"] == dict.fromkeys(("peer", "dense"), 100 + moved / 1000 / 2)
    assert row["least_speeds"] == {"torch": 1.1, "gather": 1.0}
    assert row_of(512)["targets_us"] == {} and row_of(512)["least_speeds"] == {"torch": 1.5, "gather": 1.0}
    assert row_of(32, ranks=4)["targets_us"] == row_of(32, ranks=4)["least_speeds"] == {}
    assert row_of(32, "Qwen3-235B-A22B")["least_speeds"] == {"gather": 1.0, "one": 1.5}


def test_the_table_judges_each_target_by_its_worst_case():
    rows = [row_of(8), row_of(32, gather=140.0), row_of(2048, torch=126.0), row_of(32, "Qwen3-235B-A22B", one=174.0)]
    assert tables.targets(rows).splitlines()[2:] == [
        "| peer, of its target | all | to 128 | 3 | 1.00 | 1.00 | at most 1 | yes |",
        "| peer, of its target | all | from 2,048 | 1 | 0.02 | 0.02 | at most 1 | yes |",
        "| dense, of its target | all | to 128 | 3 | 1.00 | 1.00 | at most 1 | yes |",
        "| dense, of its target | all | from 2,048 | 1 | 0.02 | 0.02 | at most 1 | yes |",
        "| speed against torch's all-to-all | Qwen3-30B-A3B | to 512 | 2 | 1.50 | 1.50 | at least 1.5 | yes |",
        "| speed against torch's all-to-all | all | from 2,048 | 1 | 1.05 | 1.05 | at least 1.1 | no |",
        "| speed against all-gather | Qwen3-30B-A3B | to 128 | 2 | 1.13 | 1.10 | at least 1.15 | no |",
        "| speed against all-gather | all | all | 4 | 1.12 | 1.10 | at least 1 | yes |",
        "| speed against one GPU | Qwen3-235B-A22B | 32 | 1 | 1.45 | 1.45 | at least 1.5 | no |",
    ]
    late = row_of(8, peer_sums=116.0)
    assert "| peer, of its target | all | to 128 | 1 | 1.02 | 1.02 | at most 1 | no |" in tables.targets([late])


def test_the_page_has_times_targets_links_and_what_is_missing():
    links = {"table": "links", "ranks": 2, "barrier_us": 4.3, "bytes_per_us": 366000.0, "push_65536_us": 2.9, "pull_65536_us": 2.8}
    fields = {"device": "NVIDIA H100 80GB HBM3", "engine": "NCCL 2.28.9", "torch": "2.11"}
    lost = row_of(8)
    del lost["us"]["peer_rows"]
    lost["missing"]["peer_rows"] = "ValueError: no"
    rows = [{**fields, **links}, {**fields, **lost}]
    text = tables.page(rows, "Commit 0123456.", "h200")
    assert text.startswith("## Layers of experts over 2 GPUs\n\nNVIDIA H100 80GB HBM3, NCCL 2.28.9, torch 2.11. Commit 0123456.\n")
    times = "100.0 | 90.0 | 10.0 | 12.0 | 120.0 |  | 114.0 | 150.0 | 127.0"
    assert f"| Qwen3-30B-A3B | 8 | {times} | 1.00 | 1.00 | 1.50 | 1.10 | 1.60 |" in text
    assert "A barrier takes 4.3 us. A large copy has 366 GB/s." in text and "| 64 | 2.9 | 2.8 |" in text
    assert text.endswith("Left out:\n\n- peer_rows of Qwen3-30B-A3B, 8 tokens: ValueError: no.")
    short = tables.summary(rows, "Commit 0123456.", "h200")
    assert "Commit 0123456.\n[Each layer](../benchmarks/results/h200.md)." in short and short.endswith(tables.targets(rows))


def test_a_time_that_is_missing_leaves_only_its_target_out():
    us = row_of()["us"]
    del us["all_to_all"]
    assert targets_of(us) == {"peer": 114.0}
    del us["local"]
    assert targets_of(us) == {}


def targets_of(us):
    return targets.judged({**row_of(), "us": us})["targets_us"]
