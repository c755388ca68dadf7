"""Draws the class table of `tilewright classes`: docs/speed_light.svg and docs/speed_dark.svg, which README.md shows.

python benchmarks/plot_classes.py                  # from benchmarks/results/h200.jsonl
python benchmarks/plot_classes.py RECORD FOLDER

The drawn numbers are in each file's description too, where tests/lint/test_performance_page.py reads them.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
PROGRAM = ROOT / "build/release/src/cli/tilewright"
CLASSES = {
    "dense ragged, scales along m": "dense, 72 to 1,500 rows, any number",
    "dense m = 64, 128, scales along m": "dense, 64 and 128 rows",
    "dense m = 1024, scales along m": "dense, 1,024 rows",
    "dense m >= 4096, scales along m": "dense, 4,096 rows and more",
    "exact ends, below 400 rows, scales along k": "groups by ends, fewer than 400 rows",
    "contiguous, exact ends, scales along k": "groups by ends",
    "contiguous, drop-in": "groups by index, DeepGEMM's calls",
    "masked, scales along m": "masked groups",
}
THEMES = {
    "light": {"text": "#1f2328", "grid": "#d1d9e0", "ours": "#0969da", "other": "#9a6700"},
    "dark": {"text": "#f0f6fc", "grid": "#3d444d", "ours": "#4493f8", "other": "#d29922"},
}


def read(record: pathlib.Path) -> list[dict[str, Any]]:
    """What is drawn, a class a line: its name, and geometric mean and worst next to either library."""
    command = [PROGRAM, "classes", record, "--json", "-"]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    rows = {row["class"]: row for row in map(json.loads, lines) if row["tuned_rows"]}
    drawn = []
    for name, shown in CLASSES.items():
        row = rows[name]
        drawn.append({"class": shown, "DeepGEMM": [row["deep_gemm"], row["deep_gemm_worst"]]})
        if row.get("blas_lt"):
            drawn[-1]["cuBLASLt"] = [row["blas_lt"], row["blas_lt_worst"]]
    return drawn


def draw(rows: list[dict[str, Any]], theme: dict[str, str], path: pathlib.Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams |= {"svg.hashsalt": "tilewright", "svg.fonttype": "path", "font.size": 11}
    figure, axes = plt.subplots(figsize=(9, 4.2))
    for i, row in enumerate(rows):
        y = len(rows) - 1 - i
        for library, color, shift in (("DeepGEMM", theme["ours"], 0.14), ("cuBLASLt", theme["other"], -0.18)):
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
    axes.set_xlim(0.65, 1.35)
    axes.set_xlabel("speed, theirs = 1: dot geometric mean, tick worst shape")
    axes.set_title("Tilewright on an H200, fp8 with 1x128 : 128x128 scales, bf16 out", loc="left", fontsize=11,
                   color=theme["text"], pad=26)  # fmt: skip
    for x, library, color in ((0.0, "against DeepGEMM", "ours"), (0.32, "against cuBLASLt, one scale a tensor", "other")):
        axes.annotate("\N{BLACK CIRCLE} " + library, (x, 1.03), xycoords="axes fraction", color=theme[color], fontsize=10)
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
    record = pathlib.Path(arguments[0]) if arguments else ROOT / "benchmarks/results/h200.jsonl"
    folder = pathlib.Path(arguments[1]) if len(arguments) > 1 else ROOT / "docs"
    rows = read(record)
    for name, theme in THEMES.items():
        draw(rows, theme, folder / f"speed_{name}.svg")
        print(folder / f"speed_{name}.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
