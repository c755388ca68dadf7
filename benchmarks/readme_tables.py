"""The tables of README.md on speed, from the records in benchmarks/results: microseconds of well-known products, and ratios by class."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Callable, Iterable
from typing import NamedTuple

import contest_table
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

class Comparison(NamedTuple):
    """A row of ratios to DeepGEMM: what `tilewright classes` calls it in the H200's record, and its class in the H100's contest."""

    words: str
    class_h200: str
    class_h100: str
    ours: str = contest_table.DROP_IN


# Dense shapes are those of two suites of `tilewright bench`, which have none in common.
COMPARISONS = (
    Comparison("dense, `peers-ragged`, m from 72 to 1,500", "dense ragged, scales along m", "ragged"),
    Comparison("dense, `peers`, m = 64 and 128", "dense m = 64, 128, scales along m", "few"),
    Comparison("dense, `peers`, m = 1024", "dense m = 1024, scales along m", "1024"),
    Comparison("dense, `peers`, m from 4096", "dense m >= 4096, scales along m", "4096"),
    Comparison("m-grouped, offsets", "contiguous, exact ends, scales along k", "contiguous", contest_table.NATIVE),
    Comparison("m-grouped, padded, through the drop-in", "contiguous, drop-in", "contiguous"),
    Comparison("m-grouped, masked", "masked, scales along m", "masked"),
)  # fmt: skip
BLAS = {"1x128 / 128x128 scale": ("cuBLASLt, same scales", "cuBLASLt blocks"),
        "per-tensor scale": ("cuBLASLt, one scale per tensor: less work", "cuBLASLt tensor")}  # fmt: skip
DENSE = ("few", "1024", "4096", "ragged")
MANY_TOKENS, MANY_OF_AN_EXPERT = 8192, 2048
RUNS = [f"tilewright bench --backend hopper --suite {suite} --peers --recipe 1d2d --sa-layout m --json benchmarks/results/h200.jsonl"
        for suite in ("peers", "peers-ragged")]  # fmt: skip


def geomean(values: Iterable[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def times(value: float) -> str:
    return f"{value:.2f}x"


def cell(speeds: Iterable[float]) -> str:
    """The mean and the worst. Bold: slower in the mean."""
    values = list(speeds)
    mean, worst = geomean(values), min(values)
    return mean_and_worst(mean, worst)


def mean_and_worst(mean: float, worst: float) -> str:
    rounded = times(mean)
    return f"{f'**{rounded}**' if round(mean, 2) < 1 else rounded} ({times(worst)})"


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


def speeds_of(contest: contest_table.Record, classes: Iterable[str], ours: str, peer: str) -> list[float]:
    speeds = [each.speed(ours, peer) for each in contest.shapes if each.shape_class in classes]
    return [speed for speed in speeds if speed is not None]


def has_many_tokens(layer: str) -> bool:
    """Of "8 x 2048 x 7168 -> 4096" (experts, tokens of each) or "8192 x 4096 -> 14336" (dense)."""
    *experts, tokens, _ = layer.split(" -> ")[0].split(" x ")
    return int(tokens) >= (MANY_OF_AN_EXPERT if experts else MANY_TOKENS)


def step_rows(rows: list[Row]) -> list[list[str]]:
    """Training steps of layers with many tokens for their weights, and of the others."""
    steps = [row for row in rows if row["figure"] == "training step"]
    parts: dict[bool, list[float]] = {True: [], False: []}
    for row in steps:
        parts[has_many_tokens(row["layer"])].append(row["speed"])
    words = {True: f"{MANY_TOKENS:,} tokens, or {MANY_OF_AN_EXPERT:,} of each expert", False: "fewer tokens"}
    return [[f"training step, {words[many]}: {len(speeds)} layers", "torch, bf16", "", cell(speeds)] for many, speeds in parts.items()]


def layer_rows(rows: list[Row]) -> list[list[str]]:
    """Whole layers of experts, against the fused kernels of others."""
    parts = (("up to 512 tokens", "triton", 0, 512), ("from 2,048 tokens", "triton", 513, math.inf), ("", "torch", 0, math.inf))
    peers = {"triton": "Triton's fused fp8 layer", "torch": "torch, bf16, compiled"}
    lines = []
    for words, peer, least, most in parts:
        speeds = [row[f"{peer}_us"] / row["us"] for row in rows if least <= row["tokens"] <= most and f"{peer}_us" in row]
        lines.append([f"MoE layer, fp8{', ' * bool(words)}{words}: {len(speeds)} layers", peers[peer], "", cell(speeds)])
    return lines


def engine_row(rows: list[Row]) -> list[str]:
    """Experts of models of transformers against its own kernels."""
    of = [row for row in rows if row["table"] == "block"]
    recipes = ", ".join(f"`{recipe}`" for recipe in dict.fromkeys(row["recipe"] for row in of))
    words = f"experts in transformers, 1 to 2,048 tokens, {recipes}: {len(of)} calls"
    return [words, "its `grouped_mm`, bf16", "", cell([row["ratio"] for row in of])]


def ratios(record: Record, classes: list[Row], peers: list[Row]) -> str:
    """classes: what `tilewright classes` says with tuned rows; peers: the lines of benchmarks/peers that it compares with."""
    of = {row["class"]: row for row in classes if row["tuned_rows"]}
    deep_gemm = " ".join(next(row["peer"] for row in peers if row["peer"].startswith("DeepGEMM")).split()[:2])
    contest = contest_table.newest(record("h100_contest"))
    rows = []
    for each in COMPARISONS:
        h200 = of[each.class_h200]
        h100 = speeds_of(contest, [each.class_h100], each.ours, contest_table.DEEP_GEMM)
        rows.append([f"{each.words}: {h200['shapes']} shapes", "DeepGEMM",
                     mean_and_worst(h200["deep_gemm"], h200["deep_gemm_worst"]), cell(h100)])  # fmt: skip
    for scales, (words, peer) in BLAS.items():
        h200_speeds = against_blas(record("h200"), scales)
        h100 = speeds_of(contest, DENSE, contest_table.NATIVE, peer)
        rows.append([f"dense, both suites: {len(h200_speeds)} shapes", words, cell(h200_speeds), cell(h100)])
    layers = newest(record("h100_moe"))
    rows += layer_rows(layers)
    engines = newest(record("h100_generate"))
    rows.append(engine_row(engines))
    steps = newest(record("h100_steps"))
    rows += step_rows(steps)
    of_h100 = (contest.heads[0]["commit"], commit_of(layers), commit_of(engines), steps[0]["commit"])
    commits = ", ".join(dict.fromkeys(commit[:7] for commit in of_h100))
    fork = " ".join(reversed(contest.heads[0]["versions"]["deep_gemm"].replace("(", "").replace(")", "").split()))
    origin = (f"H200: commit {commit_of(record('h200'))}, {deep_gemm}. H100: commits {commits}, DeepGEMM as {fork}. "
              f"{versions(record('h200'))}, torch {steps[0]['torch'].split('+')[0]}.")  # fmt: skip
    return table(["product", "compared with", "H200: mean (worst)", "H100: mean (worst)"], rows) + "\n\n" + textwrap.fill(origin, 100, break_on_hyphens=False)
