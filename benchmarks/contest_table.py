"""Tables of a record of contest.py, class by class of shapes: for terminals and for pages.

A speed is a peer's time over ours in the same run. The median over the runs counts for each shape.
"""

from __future__ import annotations

import json
import math
import pathlib
import re
import statistics
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

from contest_cases import BLAS_BLOCKS, BLAS_TENSOR, CLASSES, DEEP_GEMM, DROP_IN, NATIVE, OPERATIONS, PEERS, TORCH_ROWS, WORST
from markdown_table import Row, shape, table
from records import CARDS
from training_peers_table import aligned

RUNS = 3  # over which the targets are
NOT_SLOWER = 0.98  # "not slower" tolerates noise
MOST_NAMED = 2  # shapes of a failure
WORDS_OF = {kind: words for words, kind in OPERATIONS.items()}
NAMED_VERSIONS = {"DeepGEMM": "deep_gemm", "cuBLAS": "cuBLAS package", "torch": "torch"}
DENSE = ("few", "1024", "4096")  # the list with the same weights in each
Lines = list[list[str]]


class Shape(NamedTuple):
    """One product in all its runs."""

    shape_class: str
    operation: str
    words: str
    sizes: list[int]
    runs: list[dict[str, float]]  # microseconds of each contestant
    failed: dict[str, str]  # why a contestant has none

    def speeds(self, ours: str, peer: str) -> list[float]:
        """In each run that has both."""
        return [us[peer] / us[ours] for us in self.runs if ours in us and peer in us]

    def us(self, contestant: str) -> float:
        """The median over the runs that have it."""
        return statistics.median(of_run[contestant] for of_run in self.runs if contestant in of_run)

    def speed(self, ours: str, peer: str) -> float | None:
        speeds = self.speeds(ours, peer)
        return statistics.median(speeds) if speeds else None


class Record(NamedTuple):
    heads: list[Row]
    shapes: list[Shape]

    @property
    def missing(self) -> dict[str, str]:
        """The peers that were in no case, and why."""
        present = {key for each in self.shapes for us in each.runs for key in us}
        return {key: why for head in self.heads for key, why in head["missing"].items() if key not in present}


def shapes_of(lines: list[Row]) -> list[Shape]:
    """The products of a record, each with its runs in all parts."""
    found: dict[tuple[Any, ...], Shape] = {}
    for line in lines:
        operation = WORDS_OF[line["op"]]
        key = (line["class"], operation, *line["shape"], line.get("weights"), *line.get("group_sizes", []))
        words = f"{operation} {shape(str(line['shape']))}" + (f", {line['weights']}" if "weights" in line else "")
        each = found.setdefault(key, Shape(line["class"], operation, words, line["shape"], [], {}))
        each.failed.update(line.get("failed", {}))
        if line["us"]:
            each.runs.append(line["us"])
    return list(found.values())


def newest(rows: list[Row]) -> Record:
    """All parts with the commit, card and clock of the last one."""

    def kind(head: Row) -> tuple[str, ...]:
        return head["commit"], head["device"], head["clock"]

    heads = [row for row in rows if row["kind"] == "contest"]
    of_newest = [head for head in heads if kind(head) == kind(max(heads, key=lambda head: head["started"]))]
    started = {head["started"] for head in of_newest}
    return Record(of_newest, shapes_of([row for row in rows if row["kind"] == "case" and row["started"] in started]))


def read(path: pathlib.Path) -> Record:
    return newest([json.loads(line) for line in path.read_text().splitlines()])


def geomean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


class ClassResult(NamedTuple):
    """The drop-in against DeepGEMM over a class."""

    name: str
    shapes: list[Shape]

    @property
    def speeds(self) -> dict[str, float]:
        of = {each.words: each.speed(DROP_IN, DEEP_GEMM) for each in self.shapes}
        return {words: speed for words, speed in of.items() if speed is not None}

    @property
    def runs(self) -> int:
        """The fewest of a shape."""
        return min((len(each.speeds(DROP_IN, DEEP_GEMM)) for each in self.shapes if each.words in self.speeds), default=0)

    def below(self, limit: float) -> int:
        return sum(speed < limit for speed in self.speeds.values())

    @property
    def is_missed(self) -> bool:
        target = CLASSES[self.name].target
        return bool(self.speeds) and (self.below(WORST) > 0 or (target is not None and geomean([*self.speeds.values()]) < target))

    @property
    def result(self) -> str:
        return "not judged" if not self.speeds else "missed" if self.is_missed else "reached"

    def cells(self) -> list[str]:
        target = CLASSES[self.name].target
        cells = [CLASSES[self.name].words, f"{len(self.speeds)}/{len(self.shapes)}", str(self.runs)]
        if not self.speeds:
            return [*cells, "", "" if target is None else f"{target:.2f}", "", "", "", "", self.result]
        at = min(self.speeds, key=self.speeds.__getitem__)
        return [*cells, f"{geomean([*self.speeds.values()]):.3f}", "" if target is None else f"{target:.2f}", f"{self.speeds[at]:.3f}", at,
                str(self.below(NOT_SLOWER)), str(self.below(WORST)), self.result]  # fmt: skip


HEAD = ["class", "with DeepGEMM", "runs", "mean", "target", "worst", "at", f"< {NOT_SLOWER}", f"< {WORST}", "targets"]


def results(shapes: list[Shape]) -> list[ClassResult]:
    of = {name: [each for each in shapes if each.shape_class == name] for name in CLASSES}
    return [ClassResult(name, found) for name, found in of.items() if found]


def is_missed(shapes: list[Shape]) -> bool:
    return any(each.is_missed for each in results(shapes))


def is_judged(shapes: list[Shape]) -> bool:
    """Whether each class has a speed against DeepGEMM."""
    return all(each.speeds for each in results(shapes))


def class_lines(shapes: list[Shape]) -> Lines:
    return [HEAD, *(each.cells() for each in results(shapes))]


# Ours and a peer, by what a column is called.
PAIRS = {"native / DeepGEMM": (NATIVE, DEEP_GEMM)} | {f"drop-in / {peer}": (DROP_IN, peer) for peer in dict.fromkeys(sum(PEERS.values(), ()))}


def pair_cell(shapes: list[Shape], ours: str, peer: str) -> str:
    """The geometric mean, and in how many shapes both were."""
    able = [each for each in shapes if peer in PEERS[each.operation]]
    speeds = [speed for each in able if (speed := each.speed(ours, peer)) is not None]
    if not able:
        return "no such call"
    return f"{geomean(speeds):.3f} ({len(speeds)}/{len(able)})" if speeds else f"missing (0/{len(able)})"


def pair_lines(shapes: list[Shape]) -> Lines:
    return [["class", *PAIRS],
            *([CLASSES[each.name].words, *(pair_cell(each.shapes, *pair) for pair in PAIRS.values())] for each in results(shapes))]  # fmt: skip


def slowest(shapes: list[Shape]) -> list[tuple[float, Shape]]:
    """Shapes whose median speed is below the target of each shape, the slowest first."""
    slow = [(speed, each) for each in shapes if (speed := each.speed(DROP_IN, DEEP_GEMM)) is not None and speed < WORST]
    return sorted(slow, key=lambda pair: pair[0])


def slow_shapes(shapes: list[Shape]) -> list[str]:
    """The slowest shapes with the speed in each run."""
    return [f"{each.words}: {speed:.3f} (runs {', '.join(f'{of_run:.3f}' for of_run in each.speeds(DROP_IN, DEEP_GEMM))})"
            for speed, each in slowest(shapes)]  # fmt: skip


def slow_lines(shapes: list[Shape]) -> Lines:
    """The slowest shapes with the microseconds of our calls and of DeepGEMM's."""
    contestants = (DROP_IN, NATIVE, DEEP_GEMM)
    lines = [[each.words, f"{speed:.2f}", *(f"{each.us(name):.1f}" for name in contestants)] for speed, each in slowest(shapes)]
    return [[f"below {WORST}", "speed", *(f"{name}, us" for name in contestants)], *lines]


def failures(record: Record) -> list[str]:
    """Who was left out of single shapes, and why: one line for each reason. Reasons that differ in sizes are one."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for each in record.shapes:
        for key, why in each.failed.items():
            if key not in record.missing:
                found.setdefault((key, re.sub(r"\d+", "", why)), []).append((why, each.words))
    return [f"{key} not measured: {of[0][0].removesuffix('.')}. {len(of)} in all: {', '.join(words for _, words in of[:MOST_NAMED])}"
            f"{', ...' if len(of) > MOST_NAMED else ''}" for (key, _), of in found.items()]  # fmt: skip


def missing_lines(record: Record) -> list[str]:
    return [f"{peer} is missing: {why}" for peer, why in record.missing.items()]


def few_runs(shapes: list[Shape]) -> list[str]:
    runs = min((each.runs for each in results(shapes) if each.speeds), default=RUNS)
    return [f"Some classes have {runs} of the {RUNS} runs whose median the targets are for"] if runs < RUNS else []


def head_text(head: Row) -> str:
    versions = ", ".join(f"{name} {version or 'not installed'}" for name, version in head["versions"].items())
    return f"{head['device']}, commit {head['commit'][:7]}, {head['date']}. {versions}.\nClock: {head['clock']}."


def text(record: Record) -> str:
    shapes = record.shapes
    blocks = [head_text(record.heads[-1]),
              "Speed of the drop-in, in times of DeepGEMM's\n" + aligned(class_lines(shapes)),
              "Speeds against every peer: geometric mean, and in how many shapes both were\n" + aligned(pair_lines(shapes))]  # fmt: skip
    if slow := slow_shapes(shapes):
        blocks.append(f"Below {WORST}:\n" + "\n".join(f"  {words}" for words in slow))
    said = [*missing_lines(record), *failures(record), *few_runs(shapes)]
    return "\n\n".join([*blocks, *(["\n".join(said)] if said else [])])


class Against(NamedTuple):
    """A column of the summary: whose speed it is."""

    words: str
    ours: str
    peer: str


SUMMARY = (
    Against("DeepGEMM", DROP_IN, DEEP_GEMM),
    Against("DeepGEMM, native call", NATIVE, DEEP_GEMM),
    Against("cuBLASLt, same scales", DROP_IN, BLAS_BLOCKS),
    Against("cuBLASLt, one scale per tensor", DROP_IN, BLAS_TENSOR),
    Against("torch, row scales", DROP_IN, TORCH_ROWS),
)


def mean_and_worst(shapes: list[Shape], ours: str, peer: str) -> str:
    """Nothing where none of the shapes has both."""
    speeds = [speed for each in shapes if (speed := each.speed(ours, peer)) is not None]
    return f"{geomean(speeds):.2f} ({min(speeds):.2f})" if speeds else ""


def summary(has_record: Callable[[str], bool], read_record: Callable[[str], list[Row]]) -> str:
    """Geometric means of the speeds in each class, with the worst shape, on each card: a table per card."""
    blocks = []
    for card in CARDS:
        records = [newest(read_record(name)) for name in (f"{card}_contest", f"{card}_contest_unlisted") if has_record(name)]
        if not records:
            continue
        lines = [[CLASSES[each.name].words, str(len(each.shapes)), *(mean_and_worst(each.shapes, column.ours, column.peer) for column in SUMMARY)]
                 for of in records for each in results(of.shapes)]  # fmt: skip
        commits = ", ".join(dict.fromkeys(of.heads[-1]["commit"][:7] for of in records))
        head = records[0].heads[-1]
        versions = ", ".join(f"{name} {head['versions'][key]}" for name, key in NAMED_VERSIONS.items())
        origin = textwrap.fill(f"{head['device']}, commits {commits}, {head['date']}. {versions}.", 100, break_on_hyphens=False)
        blocks += [origin, table(["class", "shapes", *(column.words for column in SUMMARY)], lines)]
    return "\n\n".join(blocks)


def dense(record: Record) -> str:
    """The dense shapes with few weights and many row counts: microseconds of the drop-in, and its speed in times of DeepGEMM's."""
    cells: dict[tuple[int, int], dict[int, str]] = {}
    for each in record.shapes:
        if each.shape_class in DENSE and (speed := each.speed(DROP_IN, DEEP_GEMM)) is not None:
            m, n, k = each.sizes
            cells.setdefault((n, k), {})[m] = f"{each.us(DROP_IN):.1f} {speed:.2f}"
    rows = sorted({m for of in cells.values() for m in of})
    return table(["m", *(f"{n} x {k}" for n, k in cells)], [[str(m), *(of.get(m, "") for of in cells.values())] for m in rows])


def page(
    has_record: Callable[[str], bool], read_record: Callable[[str], list[Row]], name: str, title: str = "All contestants in one run"
) -> str:
    """In Markdown; nothing where there is no record."""
    if not has_record(name):
        return ""
    record = newest(read_record(name))
    head, shapes = record.heads[-1], record.shapes
    (columns, *lines), (pair_columns, *pairs) = class_lines(shapes), pair_lines(shapes)
    blocks = [f"## {title}\n\n{head['device']}, commit {head['commit'][:7]}, {head['date']}, by `make gpu-contest`.\nSpeeds of "
              f"the drop-in are in times of DeepGEMM's. For each shape the median of {RUNS} runs counts.",
              table(columns, lines), "Geometric means against every peer, and in how many shapes both were:", table(pair_columns, pairs)]  # fmt: skip
    slow_columns, *slow = slow_lines(shapes)
    if slow:
        blocks += ["Shapes below their target. [Targets](../targets.md) says what was tried.", table(slow_columns, slow)]
    reasons = [*missing_lines(record), *failures(record), *few_runs(shapes)]
    said = [textwrap.fill(f"- {words}.", 100, subsequent_indent="  ") for words in reasons]
    return "\n\n".join([*blocks, *(["\n".join(said)] if said else [])])
