"""The tables of README.md on speed, from the records in benchmarks/results: microseconds of well-known products, and ratios by class."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from typing import NamedTuple

import training_peers_table
from markdown_table import Row, shape, table
from training_sizes import drawn

Record = Callable[[str], list[Row]]


class Product(NamedTuple):
    """A row of the first table: what it is, and which lines of a record are it."""

    model: str
    record: str  # h200_{record}, h100_{record}
    op: str
    recipe: str
    shape: list[int]
    is_decode: bool = False  # bound by memory: its rate is bytes per second


GROUPED = "m_grouped_contiguous"
MASKED = "m_grouped_masked"
PRODUCTS = (
    Product("DeepSeek-V3, gate and up", "training", GROUPED, "tensor:tensor", [8, 2048, 4096, 7168]),
    Product("gpt-oss, gate and up", "training", GROUPED, "tensor:tensor", [8, 2048, 5760, 2880]),
    Product("DeepSeek-V3 decode, packed MXFP4", "fp4", MASKED, "1x128:mxfp4", [32, 256, 20, 4096, 7168], True),
    Product("gpt-oss decode, packed MXFP4", "fp4", MASKED, "bf16:mxfp4", [128, 256, 4, 5760, 2880], True),
)  # fmt: skip

# By what `tilewright classes` calls them. Dense shapes are those of two suites of `tilewright bench`, which have none in common.
CLASSES = {
    "dense ragged, scales along m": "dense, `peers-ragged`, m from 72 to 1,500",
    "dense m = 64, 128, scales along m": "dense, `peers`, m = 64 and 128",
    "dense m = 1024, scales along m": "dense, `peers`, m = 1024",
    "dense m >= 4096, scales along m": "dense, `peers`, m from 4096",
    "contiguous, exact ends, scales along k": "m-grouped, offsets",
    "masked, scales along m": "m-grouped, masked",
    "contiguous, drop-in": "m-grouped, through the drop-in",
}
BLAS = {"1x128 / 128x128 scale": "cuBLASLt, same scales", "per-tensor scale": "cuBLASLt, one scale per tensor"}
TRAINING = (("forward", "tensor", "training, forward, per tensor"), ("wgrad", "row", "training, wgrad, per row"))
RUNS = [f"tilewright bench --backend hopper --suite {suite} --peers --recipe 1d2d --sa-layout m --json benchmarks/results/h200.jsonl"
        for suite in ("peers", "peers-ragged")]  # fmt: skip


def geomean(values: Iterable[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def times(value: float) -> str:
    return f"{value:.2f}x"


def line(words: str, gpu: str, peer: str, mean: float, worst: float) -> list[str]:
    return [words, gpu, peer, times(mean), times(worst), verdict(mean)]


def line_of(product: Product, rows: list[Row]) -> Row:
    """The one line of a record, or the first of several."""
    return next(row for row in rows if row["op"] == product.op and row["shape"] == product.shape and row.get("recipe") == product.recipe
                and row.get("layout") == "nt" and not {"--unpacked", "--wide-rows"} & set(row["command"].split()))  # fmt: skip


def tokens(product: Product) -> int:
    """All groups' tokens. A record's shape has the mean; a group has 0.7 to 1.3 times that (src/bench/shapes.cpp)."""
    if product.op == MASKED:
        groups, most, mean, *_ = product.shape
        return sum(min(size, most) for size in drawn(mean, groups, 2))
    return sum(drawn(product.shape[1], product.shape[0], 1))


def words_of(product: Product) -> str:
    n, k = product.shape[-2:]
    return f"{product.model}: {product.shape[0]} experts, {tokens(product):,} tokens, n {n}, k {k}"


def rate_of(product: Product, row: Row) -> str:
    return f"{row['gbs'] / 1000:.2f} TB/s" if product.is_decode else f"{row['tflops']:.0f} TFLOP/s"


def products(record: Record) -> str:
    rows = []
    for product in PRODUCTS:
        of = [line_of(product, record(f"{gpu}_{product.record}")) for gpu in ("h200", "h100")]
        rows.append([words_of(product), f"`{product.recipe}`", *(cell for row in of for cell in (f"{row['us']:.1f}", rate_of(product, row)))])
    return table(["product", "recipe", "H200, us", "rate", "H100, us", "rate"], rows)


def against_blas(rows: list[Row], scales: str) -> list[float]:
    """cuBLASLt's time over ours on each dense shape, both of one run."""
    speeds = []
    for command in RUNS:
        run = [row for row in rows if row["command"] == command and row["op"] == "dense"]
        blas: dict[tuple[int, ...], list[float]] = {}
        for row in run:
            if row["peer"].startswith("cuBLASLt") and row["peer"].endswith(scales):
                blas.setdefault(tuple(row["shape"]), []).append(row["us"])
        ours = {tuple(row["shape"]): row["us"] for row in run if row["peer"].startswith("Tilewright")}
        speeds += [statistics.median(blas[key]) / us for key, us in ours.items() if key in blas]
    return speeds


def newest(rows: list[Row]) -> list[Row]:
    """Those of the commit of the last run."""
    commit = max(rows, key=lambda row: row["started"])["commit"]
    return [row for row in rows if row["commit"] == commit]


def commit_of(rows: list[Row]) -> str:
    return newest(rows)[0]["commit"][:7]


def versions(*records: list[Row]) -> str:
    """The libraries of live lines, each once: cuBLASLt 13.1.0, torch 2.11.0."""
    found = {" ".join(row["peer"].split()[:2]) for rows in records for row in rows if row["peer"].startswith(("cuBLASLt 1", "torch "))}
    return ", ".join(sorted(found))


def ratios(record: Record, classes: list[Row], peers: list[Row]) -> str:
    """classes: what `tilewright classes` says with tuned rows; peers: the lines of benchmarks/peers that it compares with."""
    of = {row["class"]: row for row in classes if row["tuned_rows"]}
    deep_gemm = " ".join(next(row["peer"] for row in peers if row["peer"].startswith("DeepGEMM")).split()[:2])
    rows = [line(f"{words}: {of[name]['shapes']} shapes", "H200", "DeepGEMM", of[name]["deep_gemm"], of[name]["deep_gemm_worst"])
            for name, words in CLASSES.items()]  # fmt: skip
    for scales, words in BLAS.items():
        speeds = against_blas(record("h200"), scales)
        rows.append(line(f"dense, both suites: {len(speeds)} shapes", "H200", words, geomean(speeds), min(speeds)))
    training = newest(record("training_peers"))
    for section, ours, words in TRAINING:
        against = next(v for v in training_peers_table.verdicts(training, section) if v.target.ours == ours)
        worst = min(against.speeds.values())
        rows.append(line(f"{words}: {len(against.speeds)} shapes", "H100", "torch, fp8 per row", against.geomean, worst))
    used = [row for row in training if row["section"] in {section for section, _, _ in TRAINING}]
    origin = f"H200 at commit {commit_of(record('h200'))}, H100 at {commit_of(training)}; {deep_gemm}, {versions(record('h200'), used)}."
    return table(["product", "GPU", "compared with", "their time / ours, mean", "worst shape", ""], rows) + "\n\n" + origin


def verdict(mean: float) -> str:
    """Level: up to 5 % faster, as the table rounds it."""
    rounded = round(mean, 2)
    return "**slower**" if rounded < 1 else "level" if rounded <= 1.05 else "faster"
