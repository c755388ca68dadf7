"""What is said of the runs of train.py: whether a recipe learns as well as bfloat16, and whether a planted fault is seen. Needs
no torch, so that benchmarks/training_table.py says the same of recorded runs."""

from __future__ import annotations

import math
import statistics
from typing import Any

DEVIATIONS = 2  # above the mean of bf16's seeds, the highest loss of a recipe that learns as well
LEAST_SQNR = {"": 25.0, "e5m2": 22.0}  # dB: two operands of e4m3, each off by 2.6 % in the mean, leave 28.7; dY in e5m2 24.6


def of_seeds(runs: list[dict[str, Any]]) -> tuple[float, float]:
    """Mean and standard deviation of the held-out losses of bf16; infinite, so that no loss is too high, of fewer than two seeds."""
    losses = [run["held_out"] for run in runs if run["recipe"] == "bf16"]
    return (statistics.fmean(losses), statistics.stdev(losses)) if len(losses) > 1 else (math.nan, math.inf)


def least_sqnr(run: dict[str, Any]) -> float:
    return min(run["sqnr"].values())


def shown_by(run: dict[str, Any], mean: float, deviation: float) -> list[str]:
    """What says that something is wrong with a run: "dW", "loss", both or nothing.

    Of the fault neighbouring-scales dW alone does: a positive factor for each row of dW is a diagonal preconditioner, which
    leaves dW a direction of descent. The loss told it with no optimizer that was tried (docs/moe_training.md has the numbers).
    """
    is_noisy = least_sqnr(run) < LEAST_SQNR[run["recipe"].partition("/")[2]]
    return ["dW"] * is_noisy + ["loss"] * (run["held_out"] > mean + DEVIATIONS * deviation)


def judge(runs: list[dict[str, Any]]) -> int:
    """Prints what is not as it should be; the exit code."""
    mean, deviation = of_seeds(runs)
    code = 0
    for run in runs:
        if run["recipe"] == "bf16":
            continue
        planted = run["fault"] != "none"
        if bool(shown_by(run, mean, deviation)) != planted:
            code = 1
            highest = mean + DEVIATIONS * deviation
            loss = "" if math.isinf(deviation) else f", loss {run['held_out']:.4f} where bf16's seeds reach {highest:.4f}"
            print(f"{run['recipe']}: {'the fault is not seen' if planted else 'WRONG'}: dW {least_sqnr(run):.1f} dB{loss}")
    return code
