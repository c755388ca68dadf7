"""Draws the charts of docs/performance.md, each in a light and a dark form: speed_*.svg from a record of `make gpu-contest`,
training_*.svg from that of `make gpu-peers`.

python benchmarks/plot_classes.py                  # from h200_contest.jsonl and training_peers.jsonl of benchmarks/results
python benchmarks/plot_classes.py RECORD FOLDER    # speed_*.svg only

The drawn numbers are in each file's description too, where tests/lint reads them.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any, NamedTuple

import contest_table
from contest_cases import BLAS_TENSOR, DEEP_GEMM, DROP_IN, NATIVE

ROOT = pathlib.Path(__file__).parents[1]
# Words of a class of shapes, and whose calls are drawn: the drop-in's unless the class is named twice.
CLASSES = {
    "dense, 72 to 1,500 rows, any number": ("ragged", DROP_IN),
    "dense, 64 and 128 rows": ("few", DROP_IN),
    "dense, 1,024 rows": ("1024", DROP_IN),
    "dense, 4,096 rows and more": ("4096", DROP_IN),
    "groups by ends": ("contiguous", NATIVE),
    "groups by index, DeepGEMM's calls": ("contiguous", DROP_IN),
    "masked groups": ("masked", DROP_IN),
    "layers of twelve models": ("models", DROP_IN),
    "random sizes": ("random", DROP_IN),
}


class Chart(NamedTuple):
    title: str
    libraries: tuple[tuple[str, str], ...]  # key of a row, words of the legend
    low: float
    high: float
    height: float


SPEED = Chart("Tilewright on an H200, fp8 with 1x128:128x128 scales, bf16 out",
              (("DeepGEMM", "against DeepGEMM"), ("cuBLASLt", "against cuBLASLt, one scale per tensor")), 0.65, 1.35, 4.6)  # fmt: skip
TRAINING = Chart("Tilewright on an H100, products of a training step", (("torch", "against torch"), ("DeepGEMM", "against DeepGEMM")),
                 0.75, 1.65, 4.2)  # fmt: skip
TRAINING_WORDS = {"forward": "forward", "dgrad": "dgrad", "wgrad": "wgrad", "wgrad-other": "wgrad, other sizes", "from-bf16": "dW from bf16",
                  "forward-random": "forward, random", "dgrad-random": "dgrad, random", "wgrad-random": "wgrad, random"}  # fmt: skip
THEMES = {
    "light": {"text": "#1f2328", "grid": "#d1d9e0", "ours": "#0969da", "other": "#9a6700"},
    "dark": {"text": "#f0f6fc", "grid": "#3d444d", "ours": "#4493f8", "other": "#d29922"},
}


def read(record: pathlib.Path) -> list[dict[str, Any]]:
    """What is drawn, a class a line: its name, and geometric mean and worst next to either library."""
    shapes = contest_table.read(record).shapes
    drawn = []
    for words, (name, ours) in CLASSES.items():
        row: dict[str, Any] = {"class": words}
        for library, peer in (("DeepGEMM", DEEP_GEMM), ("cuBLASLt", BLAS_TENSOR)):
            speeds = [speed for each in shapes if each.shape_class == name and (speed := each.speed(ours, peer)) is not None]
            if speeds:
                row[library] = [round(contest_table.geomean(speeds), 3), round(min(speeds), 3)]
        if len(row) > 1:
            drawn.append(row)
    return drawn


def read_training(record: pathlib.Path) -> list[dict[str, Any]]:
    """The same of the newest run against torch and DeepGEMM, a pair of ours and a baseline a line."""
    import training_peers_table

    rows = [json.loads(line) for line in record.read_text().splitlines()]
    commit = max(rows, key=lambda row: row["started"])["commit"]
    rows = [row for row in rows if row["commit"] == commit]
    drawn = []
    for section in training_peers_table.sections(rows):
        for of in training_peers_table.verdicts(rows, section):
            if of.speeds:
                library = "DeepGEMM" if of.target.peer.startswith("DeepGEMM") else "torch"
                drawn.append({"class": f"{TRAINING_WORDS[section]}: {of.target.ours}", library: [of.geomean, min(of.speeds.values())]})
    return drawn


def draw(rows: list[dict[str, Any]], theme: dict[str, str], path: pathlib.Path, chart: Chart = SPEED) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams |= {"svg.hashsalt": "tilewright", "svg.fonttype": "path", "font.size": 11}
    figure, axes = plt.subplots(figsize=(9, chart.height))
    for i, row in enumerate(rows):
        y = len(rows) - 1 - i
        both = all(library in row for library, _ in chart.libraries)
        for (library, _), color, shift in zip(chart.libraries, (theme["ours"], theme["other"]), (0.14, -0.18) if both else (0, 0), strict=True):
            if library not in row:
                continue
            mean, worst = row[library]
            axes.plot([worst, mean], [y + shift] * 2, color=color, linewidth=1.5)
            axes.plot(worst, y + shift, "|", color=color, markersize=7)
            axes.plot(mean, y + shift, "o", color=color, markersize=7)
            aside = 20 if 0.96 < mean < 1 else 8  # not across the line of 1
            axes.annotate(f"{mean:.2f}", (mean, y + shift), (aside, 0), textcoords="offset points", va="center",
                          fontsize=9, color=theme["text"])  # fmt: skip
    axes.axvline(1, color=theme["text"], linewidth=1)
    axes.set_yticks(range(len(rows)), [row["class"] for row in reversed(rows)])
    axes.set_xlim(chart.low, chart.high)
    axes.set_xlabel("speed, theirs = 1: dot geometric mean, tick worst shape")
    axes.set_title(chart.title, loc="left", fontsize=11, color=theme["text"], pad=26)
    for x, (_, words), color in zip((0.0, 0.32), chart.libraries, ("ours", "other"), strict=True):
        axes.annotate("\N{BLACK CIRCLE} " + words, (x, 1.03), xycoords="axes fraction", color=theme[color], fontsize=10)
    axes.tick_params(colors=theme["text"], length=0)
    axes.xaxis.label.set_color(theme["text"])
    axes.grid(axis="x", color=theme["grid"], linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_facecolor("none")
    for side in axes.spines.values():
        side.set_visible(False)
    figure.tight_layout()
    metadata = {"Date": None, "Description": json.dumps(rows)}
    figure.savefig(path, transparent=True, metadata=metadata)
    plt.close(figure)


def main(arguments: list[str]) -> None:
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return
    record = pathlib.Path(arguments[0]) if arguments else ROOT / "benchmarks/results/h200_contest.jsonl"
    folder = pathlib.Path(arguments[1]) if len(arguments) > 1 else ROOT / "docs"
    rows = read(record)
    for name, theme in THEMES.items():
        draw(rows, theme, folder / f"speed_{name}.svg")
        print(folder / f"speed_{name}.svg")
        if not arguments:
            draw(read_training(ROOT / "benchmarks/results/training_peers.jsonl"), theme, folder / f"training_{name}.svg", TRAINING)
            print(folder / f"training_{name}.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
