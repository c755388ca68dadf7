"""What training_peers.py's lines say: microseconds of each contestant, how many times as fast as a peer ours are, and whether that reaches
the targets. For terminals and for docs/performance.md."""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

from markdown_table import Row, shape, table
from training_sizes import SECTIONS, Target


class Verdict(NamedTuple):
    """Ours against a peer over the products of a section."""

    target: Target
    speeds: dict[str, float]  # by product

    @property
    def geomean(self) -> float:
        return math.exp(statistics.fmean(map(math.log, self.speeds.values())))

    @property
    def is_missed(self) -> bool:
        return self.target.factor is not None and bool(self.speeds) and self.geomean < self.target.factor

    def words(self) -> str:
        what = f"{self.target.ours} against {self.target.peer}"
        if not self.speeds:
            return f"{what}: nothing to compare"
        at = min(self.speeds, key=self.speeds.__getitem__)
        text = f"{what}: {self.geomean:.3f} in the geometric mean of {len(self.speeds)}, worst {self.speeds[at]:.3f} at {at}"
        if self.target.factor is None:
            return text
        below = sum(speed < self.target.factor for speed in self.speeds.values())
        return f"{text}; target {self.target.factor}: {'missed' if self.is_missed else 'reached'}, {below} below it"


def product_of(row: Row) -> str:
    return " ".join(filter(None, (row.get("weights", ""), shape(str(row["shape"])))))


def sections(rows: list[Row]) -> list[str]:
    return [name for name in SECTIONS if any(row["section"] == name for row in rows)]


def times(rows: list[Row], section: str) -> dict[str, dict[str, float]]:
    """By product and contestant; of two lines the later one."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["section"] == section and "us" in row:
            found.setdefault(product_of(row), {})[row["key"]] = row["us"]
    return found


def verdicts(rows: list[Row], section: str) -> list[Verdict]:
    us = times(rows, section)
    return [Verdict(target, {name: of[target.peer] / of[target.ours] for name, of in us.items() if target.ours in of and target.peer in of})
            for target in SECTIONS[section].targets]  # fmt: skip


def contestants(rows: list[Row], section: str) -> list[str]:
    return list(dict.fromkeys(row["key"] for row in rows if row["section"] == section and "us" in row))


def failures(rows: list[Row], section: str) -> list[str]:
    """Who was not measured, and why: one line for each reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["section"] == section and "failed" in row:
            found.setdefault((row["peer"], row["failed"]), []).append(product_of(row))
    of = len({product_of(row) for row in rows if row["section"] == section})
    return [f"{peer} not measured: {why}{'' if len(names) == of else ' (' + ', '.join(names) + ')'}" for (peer, why), names in found.items()]


def cells(rows: list[Row], section: str) -> list[list[str]]:
    """A head and a line for each product: microseconds, then the speed against each peer of a target."""
    keys, judged = contestants(rows, section), verdicts(rows, section)
    lines = [[SECTIONS[section].words, *(f"{key}, us" for key in keys), *(f"{v.target.ours} / {v.target.peer}" for v in judged)]]
    for name, of in times(rows, section).items():
        speeds = [f"{v.speeds[name]:.3f}" if name in v.speeds else "" for v in judged]
        lines.append([name, *(f"{of[key]:.1f}" if key in of else "" for key in keys), *speeds])
    return lines


def aligned(lines: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(line, widths, strict=True))).rstrip()
        for line in lines)  # fmt: skip


def text(rows: list[Row]) -> str:
    blocks = []
    for section in sections(rows):
        said = [f"  {verdict.words()}" for verdict in verdicts(rows, section)] + [f"  {why}" for why in failures(rows, section)]
        blocks.append("\n".join([aligned(cells(rows, section)), *said]))
    return "\n\n".join(blocks)


def page(rows: list[Row], origin: str) -> str:
    """Of one run, in Markdown; nothing where there is none."""
    if not rows:
        return ""
    blocks = [f"## Training products against live peers\n\n{origin} {' and '.join(sorted({row['device'] for row in rows}))}. Ours and the peers "
              "of a line in one run, in turns,\neach call behind a flush of L2; ratios are the peer's time over ours. "
              "benchmarks/README.md has the sizes."]  # fmt: skip
    for section in sections(rows):
        head, *lines = cells(rows, section)
        said = [f"- {words}." for words in [v.words() for v in verdicts(rows, section)] + failures(rows, section)]
        blocks += [table(head, lines), "\n".join(said)] if lines else ["\n".join(said)]
    return "\n\n".join(blocks)
