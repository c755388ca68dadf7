"""Writes the numbers of README.md, docs/performance.md, docs/moe_training.md, docs/transformers.md and the pages of
benchmarks/results: the text between `<!-- NAME -->` and `<!-- end -->` comes from the records of benchmarks/results.

python benchmarks/performance_page.py            # writes the pages
python benchmarks/performance_page.py --check    # exit code 1 if a page differs from the records

tests/lint/test_performance_page.py runs the check.
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Callable

import bench_tables
import contest_table
import expert_parallel_table
import fp4_tables
import generate_table
import layer_tables
import moe_table
import readme_tables
import steps_table
import training_peers_table
import training_table
from markdown_table import Row, table
from records import CARDS, ROOT, has_record, made_at, newest, newest_of, on_device, record

SUMMARY_PAGE = ROOT / "docs/performance.md"
H200_PAGE = ROOT / "benchmarks/results/h200.md"
H100_PAGE = ROOT / "benchmarks/results/h100.md"
README = ROOT / "README.md"
TRAINING_PAGE = ROOT / "docs/moe_training.md"
TRANSFORMERS_PAGE = ROOT / "docs/transformers.md"


def training_summary() -> str:
    """A line for each pair of ours and a baseline that has a target, and for those of the sizes of `make gpu-gradients`."""
    rows = newest(record("training_peers"))
    cells = []
    for section in training_peers_table.sections(rows):
        for of in training_peers_table.verdicts(rows, section):
            if of.speeds:
                names = [training_peers_table.SECTIONS[section].words, of.target.ours, of.target.peer]
                cells.append([*names, str(len(of.speeds)), f"{of.geomean:.2f}", f"{min(of.speeds.values()):.2f}"])
    return f"{on_device(rows)}\n\n" + table(["product", "ours", "baseline", "shapes", "speed", "worst shape"], cells)


# Shapes of docs/performance.md: what decoding of a mixture of experts multiplies, and a dense layer of one and of 16 tokens.
DECODE = ("masked 32 x 20 x 4096 x 7168", "masked 32 x 20 x 7168 x 2048", "masked 8 x 16 x 4096 x 7168", "dense 1 x 7168 x 16384", "dense 16 x 7168 x 16384")


def fp4_summary() -> str:
    cells = []
    for card in ("H200", "H100"):
        times: dict[str, dict[str, Row]] = {}
        for row in newest(record(f"{card.lower()}_fp4")):
            if "--wide-rows" not in row["command"] and "--unpacked" not in row["command"]:
                times.setdefault(fp4_tables.product_of(row), {})[row["recipe"]] = row
        for name in DECODE:
            of = [times[name][recipe] for recipe in fp4_tables.PACKED]
            cells.append([card, name, *(f"{row['us']:.1f}" for row in of), f"{of[0]['floor_us']:.1f}"])
    return table(["GPU", "product", *(f"{recipe.replace(':', ' x ')}, us" for recipe in fp4_tables.PACKED), "bytes of MXFP4, us"], cells)


def training_peers() -> str:
    rows = newest_of("training_peers")
    return training_peers_table.page(rows, made_at(rows)) if rows else ""


def quantisers() -> str:
    rows = newest_of("h200_quantisers")
    return layer_tables.quantisers(rows, made_at(rows)) if rows else ""


def on_an_h100() -> str:
    """Measured on another card than the rest of the page: gradients, quantisers, and pairs of FP4 and MXFP8 that have no other record."""
    if not (rows := newest_of("h100_training")):
        return ""
    blocks = [f"## Gradients, quantizers and FP4 weights\n\n{made_at(rows)} {' and '.join(sorted({row['device'] for row in rows}))}, by "
              "`make gpu-gradients card=h100`.\nD of f32 += A B and k-grouped calls, as in the [tables of an H200](h200.md). \"Aligned\" are segments\n"
              "as the quantizers write them.",
              layer_tables.gradients(rows), layer_tables.dgrad(rows)]  # fmt: skip
    if of := newest_of("h100_quantisers"):
        blocks.append(layer_tables.quantisers(of, made_at(of), head="Quantizers. "))
    if of := newest_of("h100_fp4"):
        blocks.append(f"FP4 weights, as in the tables of an H200; then MXFP8 and NVFP4 with each other and with fp8.\n{made_at(of)} Microseconds, and over "
                      "the time of the bytes:")  # fmt: skip
        blocks += [fp4_tables.packed(of), fp4_tables.short_blocks(of), fp4_tables.pairs(of)]
    return "\n\n".join(filter(None, blocks))


def experts_over_gpus(contents: Callable[[list[Row], str, str], str], *cards: str) -> str:
    found = [(rows, made_at(rows), card) for card in cards or CARDS if (rows := newest_of(f"{card}_expert_parallel"))]
    return "\n\n".join(contents(*of) for of in found)


def of_cards(kind: str, contents: Callable[[list[Row]], str], *cards: str) -> str:
    """The contents of the newest run on each card that has a record, below its origin."""
    found = [rows for card in cards or CARDS if (rows := newest_of(f"{card}_{kind}"))]
    return "\n\n".join(f"{on_device(rows)}\n\n{contents(rows)}" for rows in found)


def of_steps(kind: str, contents: Callable[[list[Row]], str]) -> str:
    return "\n\n".join(contents(rows) for card in CARDS if (rows := newest_of(f"{card}_{kind}")))


def contest(card: str) -> dict[str, Callable[[], str]]:
    """The tables of the live contest on a card."""
    name = f"{card}_contest"
    return {
        "contest": lambda: contest_table.page(has_record, record, name),
        "dense": lambda: contest_table.dense(contest_table.newest(record(name))),
    }


H200_TABLES = contest("h200") | {
    "layers": lambda: of_cards("moe", moe_table.layers, "h200"),
    "experts over GPUs": lambda: experts_over_gpus(expert_parallel_table.page, "h200"),
    "source": bench_tables.source,
    "whole tensors": bench_tables.whole_tensors,
    "groups": bench_tables.groups,
    "skew": bench_tables.skew,
    "continuous load": bench_tables.continuous,
    "few rows": bench_tables.few_rows,
    "quantisers": quantisers,
    "host time": bench_tables.host_time,
    "gradients": lambda: layer_tables.gradients(record("h200_training")),
    "dgrad": lambda: layer_tables.dgrad(record("h200_training")),
    "packed": lambda: fp4_tables.packed(record("h200_fp4")),
    "short blocks": lambda: fp4_tables.short_blocks(record("h200_fp4")),
}
H100_TABLES = contest("h100") | {
    "contest unlisted": lambda: contest_table.page(has_record, record, "h100_contest_unlisted", "Random sizes and layers of models"),
    "layers": lambda: of_cards("moe", moe_table.layers, "h100"),
    "experts over GPUs": lambda: experts_over_gpus(expert_parallel_table.page, "h100"),
    "training peers": training_peers,
    "on an H100": on_an_h100,
}
SUMMARY_TABLES = {
    "products": lambda: readme_tables.products(record),
    "summary": lambda: contest_table.summary(has_record, record),
    "layers": lambda: of_cards("moe", moe_table.classes),
    "experts over GPUs": lambda: experts_over_gpus(expert_parallel_table.summary),
    "training summary": training_summary,
    "fp4 summary": fp4_summary,
}
TRAINING_TABLES = {
    "steps": lambda: of_steps("steps", steps_table.steps),
    "share": lambda: of_steps("share", steps_table.share),
    "training": lambda: training_table.text(record("moe_train"), table),
}
TRANSFORMERS_TABLES = {
    "blocks": lambda: of_cards("generate", generate_table.blocks),
    "models": lambda: of_cards("generate", generate_table.models),
    "hosts": lambda: of_cards("generate", generate_table.hosts),
}
README_TABLES = {"ratios": lambda: readme_tables.ratios(record, has_record)}
PAGES = {H200_PAGE: H200_TABLES, H100_PAGE: H100_TABLES, SUMMARY_PAGE: SUMMARY_TABLES, TRAINING_PAGE: TRAINING_TABLES,
         TRANSFORMERS_PAGE: TRANSFORMERS_TABLES, README: README_TABLES}  # fmt: skip


def written(page: str, tables: dict[str, Callable[[], str]], name_of_page: str) -> str:
    for name, contents in tables.items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- end -->)", re.S)
        if len(place.findall(page)) != 1:
            raise SystemExit(f"{name_of_page}: `<!-- {name} -->` to `<!-- end -->` is there {len(place.findall(page))} times, not once")
        text = contents()
        page = place.sub(lambda match, text=text: match[1] + text + match[2], page)
    return page


def main(words: list[str]) -> int:
    if words not in ([], ["--check"]):
        print(__doc__)
        return 0 if words in (["-h"], ["--help"]) else 2
    for path, tables in PAGES.items():
        page = path.read_text()
        new = written(page, tables, path.name)
        if words and new != page:
            print(f"{path.name} is not what the records say; run python benchmarks/performance_page.py", file=sys.stderr)
            return 1
        path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
