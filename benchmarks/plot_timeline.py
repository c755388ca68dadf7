"""Draws the pictures of docs/one_kernel.md, light and dark, and writes its section on measured clocks.

python benchmarks/plot_timeline.py                  # from the record, into docs
python benchmarks/plot_timeline.py RECORD FOLDER    # the same into another folder, with one_kernel.md in it

The record is the file RECORD below, which build/release/benchmarks/kernel_timeline has written on an H200. Without a record,
only the ring is drawn, and the section stays empty. tests/lint/test_one_kernel.py compares the page with the record.
"""

from __future__ import annotations

import json
import pathlib
import re
import statistics
import sys
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
RECORD = ROOT / "benchmarks/results/h200_timeline.jsonl"
SECTION = re.compile(r"(?<=<!-- timeline -->\n).*?(?=<!-- end -->)", re.DOTALL)
THEMES = {
    "light": {"text": "#1f2328", "line": "#59636e", "fill": "#ddf4ff", "soft": "#f6f8fa", "wait": "#d1d9e0", "multiply": "#0969da",
              "promote": "#bc4c00", "epilogue": "#1a7f37", "load": "#59636e"},
    "dark": {"text": "#f0f6fc", "line": "#9198a1", "fill": "#12314f", "soft": "#212830", "wait": "#3d444d", "multiply": "#4493f8",
             "promote": "#f0883e", "epilogue": "#3fb950", "load": "#9198a1"},
}  # fmt: skip
# The activity of a warp from each event to the next one.
DOING = {"waits_empty": "wait", "loads": "load", "waits_full": "wait", "multiplies": "multiply", "released": "promote",
         "epilogue": "epilogue"}  # fmt: skip
ROLES = ["load", "multiply 0", "multiply 1"]
Spans = list[tuple[str, int, int]]


# ---- The record


def read(record: pathlib.Path) -> tuple[dict[str, Any], dict[int, dict[str, Spans]]]:
    """The line about the run, and for each block the spans of its roles: activity, first and last clock."""
    about, *lines = map(json.loads, record.read_text().splitlines())
    blocks: dict[int, dict[str, Spans]] = {}
    for line in lines:
        events, clocks = line["events"], line["clocks"]
        spans = [(DOING[e], a, b) for e, a, b in zip(events, clocks, clocks[1:], strict=False) if e in DOING]
        blocks.setdefault(line["block"], {})[line["role"]] = spans
    return about, blocks


def tile_ends(spans: Spans) -> list[int]:
    """The clocks at which a consumer's epilogues end."""
    return [end for what, _, end in spans if what == "epilogue"]


def median_clocks(blocks: dict[int, dict[str, Spans]]) -> dict[str, float]:
    """Spans of consumers, for all tiles except the first of a block, whose operands arrive after a cold start."""
    found: dict[str, list[int]] = {"wait": [], "multiply": [], "promote": [], "epilogue": [], "tile": []}
    for roles in blocks.values():
        for role in ("multiply 0", "multiply 1"):
            ends = tile_ends(roles[role])
            found["tile"] += [b - a for a, b in zip(ends, ends[1:], strict=False)]
            for what, a, b in roles[role]:
                if what in found and a > ends[0]:
                    found[what].append(b - a)
    return {what: statistics.median(values) for what, values in found.items()}


def section(record: pathlib.Path) -> str:
    """The text of the page on the record; empty without a record."""
    if not record.exists():
        return ""
    about, blocks = read(record)
    clocks = median_clocks(blocks)
    k_blocks = about["shape"][2] // 128
    rows = [("wait for a full stage", "wait"), ("four wgmmas of a k-block, issue to end", "multiply"),
            ("promotion of 64 sums a thread", "promote"), ("epilogue: 64 sums a thread to shared memory", "epilogue"),
            (f"a tile of {k_blocks} k-blocks, end to end", "tile")]  # fmt: skip
    table = "\n".join(f"| {name} | {clocks[what]:,.0f} |" for name, what in rows)
    m, n, k = about["shape"]
    slower = (about["stamped_us"] / about["shipped_us"] - 1) * 100
    return f"""
<picture>
  <source media="(prefers-color-scheme: dark)" srcset="kernel_timeline_dark.svg">
  <img alt="Time line of one block: start and change of tile" src="kernel_timeline_light.svg">
</picture>

One {about["device"].upper()}, m = {m}, n = {n}, k = {k}, commit {about["commit"]}.
Medians of {len(blocks)} blocks, of one consumer warpgroup, in cycles of the SM:

| span | clocks |
|---|---|
{table}

The shipped kernel took {about["shipped_us"]:.1f} us in the same run, the stamped one {about["stamped_us"]:.1f} ({slower:+.1f} %).
Stamps cost time, so the spans are those of the stamped kernel.
"""


# ---- The pictures


def pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams |= {"svg.hashsalt": "tilewright", "svg.fonttype": "path", "font.size": 11}
    return plt


def save(figure: Any, path: pathlib.Path) -> None:
    figure.savefig(path, transparent=True, metadata={"Date": None})
    pyplot().close(figure)
    print(path)


def draw_ring(theme: dict[str, str], path: pathlib.Path) -> None:
    figure, axes = pyplot().subplots(figsize=(9, 4.6))
    axes.set_xlim(0, 90)
    axes.set_ylim(0, 46)
    axes.axis("off")

    def box(x: float, y: float, width: float, height: float, words: str = "", face: str = "soft", size: float = 10) -> None:
        from matplotlib.patches import Rectangle

        axes.add_patch(Rectangle((x, y), width, height, facecolor=theme[face], edgecolor=theme["line"], linewidth=1))
        axes.text(x + width / 2, y + height / 2, words, ha="center", va="center", color=theme["text"], fontsize=size)

    def arrow(start: tuple[float, float], end: tuple[float, float], color: str) -> None:
        style = {"arrowstyle": "-|>", "color": theme[color], "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", end, start, arrowprops=style)

    def words(x: float, y: float, text: str, color: str = "text", size: float = 9.5, ha: str = "left") -> None:
        axes.text(x, y, text, ha=ha, va="center", color=theme[color], fontsize=size)

    box(0, 22, 16, 11, "load warp\none thread, TMA")
    for i in range(5):
        box(27 + i * 6, 22, 6, 11, str(i), "fill" if i == 2 else "soft", 12)
    words(42, 35, "ring of 5 stages, a k-block each", ha="center", size=10.5)
    box(70, 28.5, 20, 7.5, "consumer warpgroup 0\nrows 0 to 63")
    box(70, 19, 20, 7.5, "consumer warpgroup 1\nrows 64 to 127")
    arrow((16, 30), (27, 30), "multiply")
    words(21.5, 31.6, "fills", "multiply", ha="center")
    arrow((57, 30.5), (70, 32), "multiply")
    arrow((57, 28.5), (70, 24), "multiply")
    words(63, 34, "full", "multiply", ha="center")
    axes.plot([80, 80, 8], [19, 15.5, 15.5], color=theme["promote"], linewidth=1.4)
    arrow((8, 15.5), (8, 22), "promote")
    words(42.5, 17.3, "empty: 8 warps have read it", "promote", ha="center")
    words(0, 43.5, "One block: 384 threads, one to an SM, 199,680 bytes of shared memory", size=11)
    words(0, 39.8, "Warp 1, which stores D, is not drawn. Warps 2 and 3 have no work.", "line", 9)

    # Stage 2 in detail.
    for x, edge in ((39, 10), (45, 78)):
        axes.plot([x, edge], [22, 11.5], color=theme["line"], linewidth=0.8, linestyle=(0, (3, 3)), zorder=0)
    box(10, 4, 27, 7.5, "A: 128 rows x 128 of k\n16 KB, swizzled", "fill")
    box(37, 4, 27, 7.5, "B: 128 rows x 128 of k\n16 KB, swizzled", "fill")
    box(64, 4, 14, 7.5, "scales, f32\n128 of A, 1 of B", "fill")
    words(10, 1.5, "one full barrier: an arrival of the load warp, 33,280 bytes by TMA, an arrival of the copy of B's scale", size=9.5)
    figure.subplots_adjust(0.01, 0.01, 0.99, 0.99)
    save(figure, path)


def draw_timeline(about: dict[str, Any], roles: dict[str, Spans], theme: dict[str, str], path: pathlib.Path) -> None:
    figure, panels = pyplot().subplots(2, 1, figsize=(9, 5.2))
    consumer = roles["multiply 0"]
    end = tile_ends(consumer)[0]
    step = (end - consumer[0][1]) / (about["shape"][2] // 128)
    windows = [("the start of the block", 0, consumer[0][1] + 6 * step), ("from its first tile to the second", end - 4 * step, end + 5 * step)]
    for axes, (title, begin, stop) in zip(panels, windows, strict=True):
        for i, role in enumerate(ROLES):
            y = len(ROLES) - 1 - i
            for what, a, b in roles[role]:
                if b > begin and a < stop:
                    a, b = max(a, begin), min(b, stop)
                    axes.barh(y, b - a, left=a, height=0.62, color=theme[what], linewidth=0)
        axes.set_xlim(begin, stop)
        axes.set_ylim(-0.5, len(ROLES) - 0.5)
        axes.set_yticks(range(len(ROLES)), [{"multiply 0": "warpgroup 0", "multiply 1": "warpgroup 1"}.get(r, r + " warp") for r in reversed(ROLES)])
        axes.set_title(title, loc="left", fontsize=10.5, color=theme["text"])
        axes.tick_params(colors=theme["text"], length=0)
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        axes.set_facecolor("none")
        for side in axes.spines.values():
            side.set_visible(False)
    panels[1].set_xlabel("clocks of the SM since the block's first load", color=theme["text"])
    shown = {"wait": "waits", "load": "issues TMA loads", "multiply": "wgmma", "promote": "promotes", "epilogue": "D to shared memory"}
    from matplotlib.patches import Patch

    handles = [Patch(color=theme[what], label=text) for what, text in shown.items()]
    figure.legend(handles=handles, ncols=6, loc="upper center", frameon=False, fontsize=9.5, labelcolor=theme["text"],
                  handlelength=1, columnspacing=1.4)  # fmt: skip
    figure.tight_layout(rect=(0, 0, 1, 0.94))
    save(figure, path)


def main(arguments: list[str]) -> None:
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return
    record = pathlib.Path(arguments[0]) if arguments else RECORD
    folder = pathlib.Path(arguments[1]) if len(arguments) > 1 else ROOT / "docs"
    for name, theme in THEMES.items():
        draw_ring(theme, folder / f"kernel_ring_{name}.svg")
        if record.exists():
            about, blocks = read(record)
            draw_timeline(about, blocks[min(blocks)], theme, folder / f"kernel_timeline_{name}.svg")
    page = folder / "one_kernel.md"
    text = page.read_text()
    page.write_text(SECTION.sub(lambda _: section(record), text))
    print(page)


if __name__ == "__main__":
    main(sys.argv[1:])
