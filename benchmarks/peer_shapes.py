"""The shapes of the suites `peers` and `peers-ragged`: benchmarks/peers/shapes.tsv. src/bench/peer_shapes.h is the C++ counterpart."""

from __future__ import annotations

import csv
import pathlib

TABLE = pathlib.Path(__file__).parent / "peers/shapes.tsv"


def shapes(suite: str, operation: str) -> list[tuple[int, ...]]:
    """The shapes of one operation in a suite."""
    return [tuple(map(int, row["shape"].split())) for row in rows() if (row["suite"], row["op"]) == (suite, operation)]


def suites() -> list[str]:
    return list(dict.fromkeys(row["suite"] for row in rows()))


def rows() -> list[dict[str, str]]:
    lines = [line for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    return [*csv.DictReader(lines, delimiter="\t")]
