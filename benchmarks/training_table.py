"""The tables of docs/moe_training.md, one per device of benchmarks/results/moe_train.jsonl. performance_page.py writes them.

They compare the held-out losses of the runs of examples/moe_train with the seeds of bf16, and dW with bfloat16's.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples/moe_train"))
from judgement import LEAST_SQNR, least_sqnr, of_seeds, shown_by  # noqa: E402

Row = dict[str, Any]
HEAD = ["", "held-out loss, nats a byte", "deviations from bf16's mean", "dW, least, dB", "at least", ""]
ORDER = ("row", "tensor", "1x128", "1x128:128x128", "fold", "row/e5m2")


def newest(rows: list[Row]) -> list[Row]:
    """The runs with the commit and the steps of the last run. The later of two equal runs counts."""
    last = max(rows, key=lambda row: row["started"])
    same = [row for row in rows if all(row[key] == last[key] for key in ("commit", "steps", "large"))]
    return list({(row["recipe"], row["seed"], row["fault"]): row for row in same}.values())


def verdict(row: Row, mean: float, deviation: float) -> str:
    shown = " and ".join(shown_by(row, mean, deviation))
    if row["fault"] == "none":
        return f"worse: {shown}" if shown else "no worse"
    return f"seen: {shown}" if shown else "not seen"


def of_device(rows: list[Row], table: Callable[[list[str], list[list[str]]], str]) -> str:
    rows = newest(rows)
    mean, deviation = of_seeds(rows)
    seeds = [row for row in rows if row["recipe"] == "bf16"]
    cells = [[f"bf16, {len(seeds)} seeds", f"mean {mean:.4f}, standard deviation {deviation:.4f}", "", "", "", ""]]
    for row in (row for row in seeds if row["seed"] == 0):  # the seed of the recipes
        cells.append(["bf16, seed 0", f"{row['held_out']:.4f}", f"{(row['held_out'] - mean) / deviation:+.1f}", "", "", ""])
    others = [row for row in rows if row["recipe"] != "bf16"]
    for row in sorted(others, key=lambda row: (row["fault"] != "none", ORDER.index(row["recipe"]), row["fault"])):
        fault = "" if row["fault"] == "none" else f", fault `{row['fault']}`"
        least = LEAST_SQNR[row["recipe"].partition("/")[2]]
        cells.append([f"`{row['recipe']}`{fault}", f"{row['held_out']:.4f}", f"{(row['held_out'] - mean) / deviation:+.1f}",
                      f"{least_sqnr(row):.1f}", f"{least:.0f}", verdict(row, mean, deviation)])
    size, dates = "large" if rows[0]["large"] else "small", " and ".join(sorted({row["date"] for row in rows}))
    return f"{rows[0]['device']}, {rows[0]['steps']} steps of the {size} model, commit {rows[0]['commit'][:7]}, {dates}:\n\n{table(HEAD, cells)}"


def text(rows: list[Row], table: Callable[[list[str], list[list[str]]], str]) -> str:
    devices = dict.fromkeys(row["device"] for row in sorted(rows, key=lambda row: row["device"] != "CPU"))
    return "\n\n".join(of_device([row for row in rows if row["device"] == device], table) for device in devices)
