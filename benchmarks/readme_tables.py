"""The tables of README.md on speed, from the records in benchmarks/results: microseconds of well-known products, and ratios by class."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable
from typing import NamedTuple

import contest_table
from contest_cases import BLAS_BLOCKS, BLAS_TENSOR, DEEP_GEMM, DROP_IN, NATIVE
from markdown_table import Row, table
from records import CARDS, newest
from training_sizes import drawn

Record = Callable[[str], list[Row]]


class Key(NamedTuple):
    """The subject of a row of ratios."""

    words: str
    unit: str  # of which it has several
    peer: str


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
    """A row of ratios of the live contest: what it is, its classes of shapes, and whose times they are."""

    words: str
    classes: tuple[str, ...]
    peer: str = DEEP_GEMM
    ours: str = DROP_IN


LISTED = ("few", "1024", "4096", "ragged")
# Dense shapes are those of two suites of `tilewright bench`, which have none in common.
COMPARISONS = (
    Comparison("dense, `peers-ragged`, m from 72 to 1,500", ("ragged",)),
    Comparison("dense, `peers`, m = 64 and 128", ("few",)),
    Comparison("dense, `peers`, m = 1024", ("1024",)),
    Comparison("dense, `peers`, m from 4096", ("4096",)),
    Comparison("m-grouped, offsets", ("contiguous",), ours=NATIVE),
    Comparison("m-grouped, padded, through the drop-in", ("contiguous",)),
    Comparison("m-grouped, masked", ("masked",)),
    Comparison("layers of twelve models", ("models",)),
    Comparison("random sizes", ("random",)),
    Comparison("dense, both suites", LISTED, BLAS_BLOCKS, NATIVE),
    Comparison("dense, both suites", LISTED, BLAS_TENSOR, NATIVE),
)
PEER_WORDS = {DEEP_GEMM: "DeepGEMM", BLAS_BLOCKS: "cuBLASLt, same scales",
              BLAS_TENSOR: "cuBLASLt, one scale per tensor: less work"}  # fmt: skip
STEPS = ("training step", "captured training step")  # figures of training_step.py
MANY_TOKENS, MANY_OF_AN_EXPERT = 8192, 2048


def times(value: float) -> str:
    return f"{value:.2f}x"


def cell(speeds: Iterable[float]) -> str:
    """The mean and the worst. Bold: slower in the mean."""
    values = list(speeds)
    mean, worst = contest_table.geomean(values), min(values)
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


def speeds_of(contest: contest_table.Record, classes: Iterable[str], ours: str, peer: str) -> list[float]:
    speeds = [each.speed(ours, peer) for each in contest.shapes if each.shape_class in classes]
    return [speed for speed in speeds if speed is not None]


def has_many_tokens(layer: str) -> bool:
    """Of "8 x 2048 x 7168 -> 4096" (experts, tokens of each) or "8192 x 4096 -> 14336" (dense)."""
    *experts, tokens, _ = layer.split(" -> ")[0].split(" x ")
    return int(tokens) >= (MANY_OF_AN_EXPERT if experts else MANY_TOKENS)


def parts_of_steps(rows: list[Row]) -> dict[Key, list[float]]:
    """Training steps of layers with many tokens for their weights, and of the others."""
    words = {True: f"{MANY_TOKENS:,} tokens, or {MANY_OF_AN_EXPERT:,} of each expert", False: "fewer tokens"}
    keys = {(figure, many): Key(f"{figure}, {of}", "layers", "torch, bf16") for figure in STEPS for many, of in words.items()}
    found: dict[Key, list[float]] = {key: [] for key in keys.values()}
    for row in rows:
        if row["figure"] in STEPS:
            found[keys[row["figure"], has_many_tokens(row["layer"])]].append(row["speed"])
    return found


def parts_of_layers(rows: list[Row]) -> dict[Key, list[float]]:
    """Whole layers of experts, against the fused kernels of others."""
    rows = [row for row in rows if not row.get("gpt_oss")]
    parts = ((", up to 512 tokens", "triton", 0, 512), (", from 2,048 tokens", "triton", 513, math.inf),
             (", from 512 tokens", "deep_gemm", 0, math.inf), ("", "torch", 0, math.inf))  # fmt: skip
    peers = {"triton": "Triton's fused fp8 layer", "deep_gemm": "DeepGEMM's products and Triton", "torch": "torch, bf16, compiled"}
    return {
        Key(f"MoE layer, fp8{words}", "layers", peers[peer]): [
            row[f"{peer}_us"] / row["us"] for row in rows if least <= row["tokens"] <= most and f"{peer}_us" in row
        ]
        for words, peer, least, most in parts
    }


def parts_of_engines(rows: list[Row]) -> dict[Key, list[float]]:
    """Experts of models of transformers against its own kernels."""
    of = [row for row in rows if row["table"] == "block"]
    recipes = ", ".join(f"`{recipe}`" for recipe in dict.fromkeys(row["recipe"] for row in of))
    return {Key(f"experts in transformers, 1 to 2,048 tokens, {recipes}", "calls", "its `grouped_mm`, bf16"): [row["ratio"] for row in of]}


class Card(NamedTuple):
    """The speeds of a card by row of the table, and where they come from."""

    speeds: dict[Key, list[float]]
    commits: list[str]
    versions: dict[str, str]


def card_of(record: Record, has_record: Callable[[str], bool], card: str) -> Card:
    """The newest run of each record that there is."""
    contests = [contest_table.newest(record(name)) for name in (f"{card}_contest", f"{card}_contest_unlisted") if has_record(name)]
    found = Card({}, [of.heads[-1]["commit"][:7] for of in contests], contests[0].heads[-1]["versions"] if contests else {})
    for each in COMPARISONS:
        speeds = [speed for of in contests for speed in speeds_of(of, each.classes, each.ours, each.peer)]
        found.speeds[Key(each.words, "shapes", PEER_WORDS[each.peer])] = speeds
    for kind, parts in (("moe", parts_of_layers), ("generate", parts_of_engines), ("steps", parts_of_steps)):
        if has_record(f"{card}_{kind}"):
            rows = newest(record(f"{card}_{kind}"))
            found.speeds.update(parts(rows))
            found.commits.append(rows[0]["commit"][:7])
    return found


def counted(speeds: Iterable[list[float]]) -> str:
    """How many shapes a row has; two numbers where the cards' records differ."""
    return " and ".join(dict.fromkeys(str(len(each)) for each in speeds if each))


def ratios(record: Record, has_record: Callable[[str], bool]) -> str:
    cards = {card: card_of(record, has_record, card) for card in CARDS}
    keys = dict.fromkeys(key for card in cards.values() for key in card.speeds)
    rows = []
    for key in keys:
        speeds = [card.speeds.get(key, []) for card in cards.values()]
        if not any(speeds):
            continue
        rows.append([f"{key.words}: {counted(speeds)} {key.unit}", key.peer, *(cell(of) if of else "" for of in speeds)])
    of_cards = "; ".join(f"{name.upper()}: {', '.join(dict.fromkeys(card.commits))}" for name, card in cards.items() if card.commits)
    versions = {f"{words} {card.versions[key]}": None for card in cards.values() for words, key in contest_table.NAMED_VERSIONS.items() if card.versions}
    origin = f"Commits: {of_cards}. Versions: {', '.join(versions)}."
    head = ["product", "compared with", *(f"{name.upper()}: mean (worst)" for name in cards)]
    return table(head, rows) + "\n\n" + textwrap.fill(origin, 100, break_on_hyphens=False)
