"""Reads the peers' tables of benchmarks/peers. src/bench/peers_table.h is the C++ counterpart."""

from __future__ import annotations

import json
import pathlib
from typing import Any

FOLDER = pathlib.Path(__file__).parent / "peers"
SUITES = {"peers": "h200.jsonl", "peers-ragged": "h200_ragged.jsonl"}


def rows(file: str = SUITES["peers"]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / file).read_text().splitlines()]


def is_deep_gemm(row: dict[str, Any]) -> bool:
    return "DeepGEMM" in row["peer"]


def is_blas(row: dict[str, Any]) -> bool:
    return "cuBLASLt" in row["peer"] and row["peer"].endswith("per-tensor scale")


# The shape whose cuBLASLt time makes runs comparable.
REFERENCE: list[int] = next(row["shape"] for row in rows(SUITES["peers-ragged"]) if row["op"] == "dense reference")
