"""Judges the runs of train.py: whether a recipe learns as well as bfloat16, and whether a planted fault is detected.

This module does not import torch, so that benchmarks/training_table.py can judge recorded runs.
"""

from __future__ import annotations

import math
import statistics
from typing import Any

DEVIATIONS = 2  # a recipe learns as well if its loss is at most this many standard deviations above the mean of bf16
# dB. Two e4m3 operands, each with a mean error of 2.6 %, give 28.7; with dY in e5m2 it is 24.6.
LEAST_SQNR = {"": 25.0, "e5m2": 22.0}


def of_seeds(runs: list[dict[str, Any]]) -> tuple[float, float]:
    """Mean and standard deviation of the held-out losses of bf16.

    With fewer than two seeds the standard deviation is infinite, so that no loss is too high.
    """
    losses = [run["held_out"] for run in runs if run["recipe"] == "bf16"]
    return (statistics.fmean(losses), statistics.stdev(losses)) if len(losses) > 1 else (math.nan, math.inf)


def least_sqnr(run: dict[str, Any]) -> float:
    return min(run["sqnr"].values())


def shown_by(run: dict[str, Any], mean: float, deviation: float) -> list[str]:
    """The signs that a run is wrong: "dW", "loss", both or none.

    The fault neighbouring-scales shows only in dW: a positive factor per row of dW is a diagonal preconditioner, so that dW
    remains a direction of descent. The loss showed it with none of the optimizers that were tried (numbers: docs/moe_training.md).
    """
    is_noisy = least_sqnr(run) < LEAST_SQNR[run["recipe"].partition("/")[2]]
    return ["dW"] * is_noisy + ["loss"] * (run["held_out"] > mean + DEVIATIONS * deviation)


def judge(runs: list[dict[str, Any]]) -> int:
    """Prints unexpected results, and returns the exit code."""
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
            print(f"{run['recipe']}: {'the fault is not detected' if planted else 'WRONG'}: dW {least_sqnr(run):.1f} dB{loss}")
    return code
