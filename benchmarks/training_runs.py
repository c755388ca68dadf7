"""Runs examples/moe_train for docs/moe_training.md: four seeds of bf16, each recipe, and two planted faults.

python benchmarks/training_runs.py --json benchmarks/results/moe_train.jsonl                  # the small model on a CPU
python benchmarks/training_runs.py --device cuda --json benchmarks/results/moe_train.jsonl    # the large one on a GPU

Each run is a process that appends its line when it ends. `--at-once` of them share the device, so that their times have no
meaning. At the end all runs are judged. The exit code is 1 if a recipe learns worse than bf16, a fault is not detected, or a run
failed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import time

EXAMPLE = pathlib.Path(__file__).resolve().parents[1] / "examples/moe_train"
sys.path.insert(0, str(EXAMPLE))
from judgement import judge  # noqa: E402

SEEDS = 4
RECIPES = ("row", "tensor", "1x128", "1x128:128x128", "fold", "row/e5m2")
FAULTS = ("flushed", "neighbouring-scales")  # planted in recipe `row`
# The wider model has a lower learning rate than the default of train.py. It needs some hundred steps before it learns more than
# pairs of bytes.
LARGE = ["--large", "--rate", "5e-4"]
STEPS = 600
STEPS_ON_CPU = 400


def runs() -> list[list[str]]:
    """The arguments of train.py for each run."""
    of_bf16 = [["--recipes=", "--seeds", "1", "--first-seed", str(seed)] for seed in range(SEEDS)]
    of_recipes = [["--recipes", recipe, "--seeds", "0"] for recipe in RECIPES]
    return of_bf16 + of_recipes + [["--recipes", "row", "--seeds", "0", "--fault", fault] for fault in FAULTS]


def run(words: list[str]) -> str:
    """The run's row of the table of train.py, or the reason why there is none."""
    done = subprocess.run([sys.executable, EXAMPLE / "train.py", *words], capture_output=True, text=True, check=False)
    row = done.stdout.splitlines()[1:2]
    return row[0] if row else f"FAILED: {' '.join(words)}: {done.stderr.strip()}"


def lines_of(path: pathlib.Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, help=f"{STEPS}; on a CPU {STEPS_ON_CPU}")
    parser.add_argument("--at-once", type=int, help="processes; all on a GPU, one on a CPU")
    parser.add_argument("--json", required=True, type=pathlib.Path, help="append lines to this file")
    return parser.parse_args()


def main() -> int:
    arguments = parsed()
    on_cpu = arguments.device == "cpu"
    steps, at_once = arguments.steps or (STEPS_ON_CPU if on_cpu else STEPS), arguments.at_once or (1 if on_cpu else len(runs()))
    common = ["--device", arguments.device, *([] if on_cpu else LARGE), "--steps", str(steps), "--json", str(arguments.json)]
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    before = len(lines_of(arguments.json))
    begin = time.monotonic()
    print(f"{len(runs())} runs of {steps} steps, {at_once} at once", flush=True)
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        ended = concurrent.futures.as_completed([pool.submit(run, [*common, *words]) for words in runs()])
        for count, future in enumerate(ended, 1):
            print(f"{count:>2} of {len(runs())}, {time.monotonic() - begin:4.0f} s: {future.result()}", flush=True)
    lines = [json.loads(line) for line in lines_of(arguments.json)[before:]]
    return judge(lines) or int(len(lines) < len(runs()))


if __name__ == "__main__":
    sys.exit(main())
