"""Tables of a record of expert_parallel.py and expert_training.py: layers of experts over ranks, other chains, and the targets;
training steps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import NamedTuple

from expert_parallel_targets import COMBINES, EXCHANGES, FEW, MANY, SPEEDS, applies, fastest
from markdown_table import Row, table

TITLE = "Layers of experts over {} GPUs"
CHAINS = {"torch": "torch's all-to-all", "gather": "all-gather", "deep_ep": "DeepEP", "one": "one GPU"}


class Verdict(NamedTuple):
    """A target and the ratios of the rows that it is for."""

    words: str
    models: str
    tokens: str
    ratios: list[float]
    is_speed: bool  # at least the target, else at most
    target: float

    @property
    def worst(self) -> float:
        return (min if self.is_speed else max)(self.ratios)

    @property
    def is_reached(self) -> bool:
        return self.worst >= self.target if self.is_speed else self.worst <= self.target


def layer_rows(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["table"] == "layer"]


def verdicts(rows: list[Row]) -> Iterator[Verdict]:
    """The verdict on each target that the record has rows for."""
    of = layer_rows(rows)
    for exchange in EXCHANGES:
        for least, most in ((1, FEW), (MANY, math.inf)):
            ratios = []
            for row in of:
                best = fastest(row, exchange)
                if least <= row["tokens"] <= most and best is not None and exchange in row["targets_us"]:
                    ratios.append(best / row["targets_us"][exchange])
            if ratios:
                yield Verdict(f"{exchange}, of its target", "all", tokens_of(least, most), ratios, False, 1.0)
    for target in SPEEDS:
        ratios = [row["speeds"][target.chain] for row in of if target.chain in row["speeds"] and applies(target, row)]
        if ratios:
            words = f"speed against {CHAINS[target.chain]}"
            yield Verdict(words, target.model or "all", tokens_of(target.least, target.most), ratios, True, target.speed)


def tokens_of(least: float, most: float) -> str:
    if least == most:
        return f"{least:,}"
    if math.isinf(most):
        return f"from {least:,}" if least > 1 else "all"
    return f"to {most:,}"


def targets(rows: list[Row]) -> str:
    """Geometric mean and worst case of each target."""
    lines = [
        [
            of.words,
            of.models,
            of.tokens,
            str(len(of.ratios)),
            f"{statistics.geometric_mean(of.ratios):.2f}",
            f"{of.worst:.2f}",
            f"{'at least' if of.is_speed else 'at most'} {of.target:g}",
            "yes" if of.is_reached else "no",
        ]
        for of in verdicts(rows)
    ]
    return table(["", "models", "tokens of a rank", "cases", "mean", "worst", "target", "reached"], lines)


def of_target(row: Row, exchange: str) -> str:
    best = fastest(row, exchange)
    return f"{best / row['targets_us'][exchange]:.2f}" if best is not None and exchange in row["targets_us"] else ""


def layers(rows: list[Row]) -> str:
    """Microseconds of each layer and of its forms, the parts of their targets, and the speeds against the chains."""
    of = layer_rows(rows)
    parts = {"local": "local", "products": "products", "all_gather": "all-gather", "all_to_all": "all-to-all", "ours": "ours"}
    forms = {f"{exchange}_{combine}": f"{exchange}, {combine}" for exchange in EXCHANGES for combine in COMBINES}
    times = parts | forms
    chains = {chain: words for chain, words in CHAINS.items() if any(chain in row["speeds"] for row in of)}
    lines = [
        [
            row["model"],
            f"{row['tokens']:,}",
            *(f"{row['us'][name]:.1f}" if name in row["us"] else "" for name in times),
            *(of_target(row, exchange) for exchange in EXCHANGES),
            *(f"{row['speeds'][chain]:.2f}" if chain in row["speeds"] else "" for chain in chains),
        ]
        for row in of
    ]
    heads = [*times.values(), *(f"{exchange}, of its target" for exchange in EXCHANGES), *chains.values()]
    return table(["model", "tokens of a rank", *heads], lines)


def training(rows: list[Row]) -> str:
    """Microseconds of training steps, and of collectives by themselves. Empty without such rows."""
    times = {"peer": "peer", "dense": "dense", "local": "local", "all_gather": "all-gather", "all_to_all": "all-to-all"}
    lines = [
        [row["model"], f"{row['tokens']:,}", *(f"{row['us'][name]:,.0f}" if name in row["us"] else "" for name in times)]
        for row in rows
        if row["table"] == "training"
    ]
    if not lines:
        return ""
    intro = """Training: forward and backward of a layer, without an optimizer. `local` has the tokens of all
ranks and the gradients of their results at hand. An exchange by collectives has two of each of the
last columns. [The program](../expert_training.py)."""
    return f"{intro}\n\n" + table(["model", "tokens of a rank", *times.values()], lines)


def links(rows: list[Row]) -> str:
    """Times of a barrier and of copies of symmetric memory. Empty without such a row."""
    of = [row for row in rows if row["table"] == "links"]
    if not of:
        return ""
    row = of[-1]
    copies = sorted(int(name.split("_")[1]) for name in row if name.startswith("pull_"))
    lines = [[f"{size / 1024:,.0f}", f"{row[f'push_{size}_us']:.1f}", f"{row[f'pull_{size}_us']:.1f}"] for size in copies]
    rate = f"A barrier takes {row['barrier_us']:.1f} us. A large copy has {row['bytes_per_us'] / 1e3:.0f} GB/s."
    return f"{rate}\n\n" + table(["copy, KiB", "to the next rank, us", "from it, us"], lines)


def absent(rows: list[Row]) -> str:
    """Contestants that have no time in some row, with the first reason."""
    reasons: dict[str, str] = {}
    for row in layer_rows(rows):
        for name, reason in row["missing"].items():
            reasons.setdefault(name, f"{name} of {row['model']}, {row['tokens']:,} tokens: {reason}.")
    return "\n".join(["Left out:", "", *(f"- {reason}" for reason in reasons.values())]) if reasons else ""


def origin(rows: list[Row], made_at: str) -> str:
    return f"{rows[0]['device']}, {rows[0]['engine']}, torch {rows[0]['torch']}. {made_at}"


def page(rows: list[Row], made_at: str, card: str) -> str:
    """The section of a card's page of results."""
    intro = f"""## {TITLE.format(layer_rows(rows)[0]["ranks"])}

{origin(rows, made_at)}

`make gpu-expert-parallel card={card}`. Times are microseconds of CUDA graphs with cold L2, of the
slower rank. `local` is the layer of a rank's experts with the tokens of all ranks at hand. A target
is the most that an exchange may take, of its faster combine. The last columns are times of other
chains over ours. [The program](../expert_parallel.py) describes all of them."""
    return "\n\n".join(filter(None, [intro, layers(rows), targets(rows), training(rows), links(rows), absent(rows)]))


def summary(rows: list[Row], made_at: str, card: str) -> str:
    """A card's part of the summary."""
    return f"{origin(rows, made_at)}\n[Each layer](../benchmarks/results/{card}.md).\n\n{targets(rows)}"
