"""The targets of expert_parallel.py: how long a layer over ranks may take, and how much faster than other chains it must be.

A layer of few tokens may add fixed microseconds to its local part. A layer of many tokens may add half of the time of its bytes.
The targets are for two ranks.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

Row = dict[str, Any]

EXCHANGES = ("peer", "dense")
COMBINES = ("rows", "sums")
CALLS: dict[str, dict[str, str]] = {  # our calls by name, with the words of their groups
    "ours": {},  # the group chooses
    **{f"{exchange}_{combine}": {"exchange": exchange, "combine": combine} for exchange in EXCHANGES for combine in COMBINES},
}
FEW, MANY = 128, 2048  # tokens a rank: up to FEW, and from MANY on
ADDED_US = {"peer": 14.0, "dense": 5.0}  # dense: on top of its two collectives
PART_OF_BYTES = 0.5
RANKS = 2


class Speed(NamedTuple):
    """The least speed against a chain, in times: its time over that of our call. models: None are all."""

    chain: str
    model: str | None
    least: int
    most: float
    speed: float


SPEEDS = (
    Speed("torch", "Qwen3-30B-A3B", 1, 512, 1.5),
    Speed("torch", None, MANY, math.inf, 1.1),
    Speed("gather", "Qwen3-30B-A3B", 1, FEW, 1.15),
    Speed("gather", None, 1, math.inf, 1.0),
    Speed("one", "Qwen3-235B-A22B", 32, 32, 1.5),
)


def announced_bytes(hidden: int, choices: int, tokens: int) -> int:
    """The announcement of a rank: fp8 tokens with a float32 scale per 128 values, ids and weights of four bytes."""
    return tokens * (hidden + hidden // 32 + 8 * choices)


def summed_bytes(hidden: int, tokens: int) -> int:
    """The part of another rank in the combine: a bf16 sum per token."""
    return 2 * tokens * hidden


def has_targets(row: Row) -> bool:
    return bool(row["ranks"] == RANKS)


def exchange_targets(row: Row) -> dict[str, float]:
    """The most microseconds of each exchange. Empty between few and many tokens, and where the rate was not measured."""
    us, tokens = row["us"], row["tokens"]
    if not has_targets(row) or "local" not in us:
        return {}
    if tokens <= FEW:
        found = {"peer": us["local"] + ADDED_US["peer"]}
        if "all_gather" in us and "all_to_all" in us:
            found["dense"] = us["local"] + us["all_gather"] + us["all_to_all"] + ADDED_US["dense"]
        return found
    if tokens < MANY or "bytes_per_us" not in row:
        return {}
    moved = announced_bytes(row["hidden"], row["choices"], tokens) + summed_bytes(row["hidden"], tokens)
    return dict.fromkeys(EXCHANGES, us["local"] + PART_OF_BYTES * moved / row["bytes_per_us"])


def applies(target: Speed, row: Row) -> bool:
    return has_targets(row) and target.model in (None, row["model"]) and target.least <= row["tokens"] <= target.most


def fastest(row: Row, exchange: str) -> float | None:
    """The time of the faster combine."""
    found = [row["us"][f"{exchange}_{combine}"] for combine in COMBINES if f"{exchange}_{combine}" in row["us"]]
    return min(found, default=None)


def judged(row: Row) -> Row:
    """The row with its targets and ratios. `of_target` is a time over its target, `speeds` are chains' times over our call's."""
    targets, us = exchange_targets(row), row["us"]
    forms = [(exchange, f"{exchange}_{combine}") for exchange in targets for combine in COMBINES]
    ratios = {form: us[form] / targets[exchange] for exchange, form in forms if form in us}
    chains = [chain for chain in ("torch", "gather", "one", "deep_ep") if chain in us and "ours" in us]
    speeds = {chain: us[chain] / us["ours"] for chain in chains}
    least: dict[str, float] = {}
    for target in SPEEDS:
        if target.chain in chains and applies(target, row):
            least[target.chain] = max(target.speed, least.get(target.chain, 0.0))
    return {**row, "targets_us": targets, "of_target": ratios, "speeds": speeds, "least_speeds": least}
