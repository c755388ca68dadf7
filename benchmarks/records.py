"""Reads the records of benchmarks/results: `h200_moe` is h200_moe.jsonl, a row for each line."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable

from markdown_table import Row

ROOT = pathlib.Path(__file__).parents[1]
CARDS = ("h200", "h100")
# Targets of `make` by the record that they write: those of no card, and those that a card's name precedes.
OF_NO_CARD = {"training_peers": "gpu-peers", "moe_train": "cpu-training"}
OF_A_CARD = {
    "contest": "gpu-contest",
    "expert_parallel": "gpu-expert-parallel",
    "fp4": "gpu-packed",
    "generate": "gpu-generate",
    "host": "gpu-host",
    "moe": "gpu-moe",
    "quantisers": "gpu-quantisers",
    "share": "gpu-share",
    "skew": "gpu-skew",
    "steps": "gpu-steps",
    "training": "gpu-gradients",
}


def path_of(name: str) -> pathlib.Path:
    return ROOT / f"benchmarks/results/{name}.jsonl"


def made_by(name: str) -> str:
    """The command that writes a record, and where it runs."""
    card, _, kind = name.partition("_")
    if card not in CARDS:
        return f"`make {OF_NO_CARD[name]}` writes it"
    return f"`make {OF_A_CARD.get(kind, 'gpu-bench')} card={card}` writes it, on an idle machine with an {card.upper()}"


def has_record(name: str) -> bool:
    return path_of(name).exists()


def record(name: str) -> list[Row]:
    if not has_record(name):
        raise SystemExit(f"{path_of(name).relative_to(ROOT)} is not there; {made_by(name)}")
    return [json.loads(line) for line in path_of(name).read_text().splitlines()]


def newest(rows: Iterable[Row]) -> list[Row]:
    """Those of the commit of the last run."""
    rows = list(rows)
    commit = max(rows, key=lambda row: row["started"])["commit"]
    return [row for row in rows if row["commit"] == commit]


def newest_of(name: str) -> list[Row]:
    """The newest rows of a record; none where there is no such record."""
    return newest(record(name)) if has_record(name) else []


def made_at(rows: list[Row]) -> str:
    """The origin of rows that were made in one go."""
    (commit,), (date,) = {row["commit"] for row in rows}, {row["date"] for row in rows}
    return f"Commit {commit[:7]}, {date}."


def on_device(rows: list[Row]) -> str:
    """The same, after the card's name."""
    return f"{' and '.join(sorted({row['device'] for row in rows}))}. {made_at(rows)}"
