"""Tables of what `tilewright bench` and the host's programs record on an H200: single products, groups, continuous load, host time."""

from __future__ import annotations

import math
import re
import statistics

from markdown_table import Row, shape, table
from records import made_at, newest, record

# Options of `tilewright bench` by what a table calls their rows: those of `make gpu-bench`, which other records do without.
WHOLE_TENSORS = {"unpromoted": "--suite peers --recipe tensor,row --unpromoted", "promoted": "--suite peers --recipe tensor,row"}
FEW_ROWS = [f"--suite {suite} --m 1,16,48 --recipe 1d2d" for suite in ("qwen3-235b", "llama-70b")]


def is_ours(row: Row) -> bool:
    return bool(row["peer"].startswith("Tilewright"))


def is_blas(row: Row) -> bool:
    return "cuBLASLt" in row["peer"] and bool(row["peer"].endswith("per-tensor scale"))


def run_of(rows: list[Row], options: str) -> list[Row]:
    """The rows of `tilewright bench --backend hopper OPTIONS`, with a peer or without."""
    command = f"tilewright bench --backend hopper {options} --json benchmarks/results/h200.jsonl"
    return [row for row in rows if row["command"].replace(" --peers", "") == command]


def source() -> str:
    return f"One H200, cold and clean L2. {made_at(newest(record('h200')))}{older()}"


def older() -> str:
    """Which tables are of rows that were not measured with the others."""
    rows = record("h200")
    now = newest(rows)[0]["commit"]
    tables = {"scales of whole tensors and rows": [*WHOLE_TENSORS.values()], "few rows": FEW_ROWS}
    commits = {words: {row["commit"] for options in runs for row in run_of(rows, options)} - {now} for words, runs in tables.items()}
    words = [words for words, of in commits.items() if of]
    if not words:
        return ""
    all_of_them = sorted({commit[:7] for of in commits.values() for commit in of})
    return f"\nMeasured at commit {', '.join(all_of_them)}, and not again: {'; '.join(words)}."


def whole_tensors() -> str:
    """Scales of rows and tensors against cuBLASLt per tensor on the same shape, just before or after."""
    rows = []
    for words, options in WHOLE_TENSORS.items():
        run = run_of(record("h200"), options)
        blas: dict[tuple[int, ...], list[float]] = {}
        for row in run:
            if is_blas(row):
                blas.setdefault(tuple(row["shape"]), []).append(row["us"])
        for recipe in ("tensor", "row"):
            ours = {tuple(r["shape"]): r["us"] for r in run if is_ours(r) and r["recipe"] == f"{recipe}:{recipe}"}
            speeds = {key: statistics.median(blas[key]) / us for key, us in ours.items() if key in blas}
            of = [[v for key, v in speeds.items() if low <= key[0] < high] for low, high in ((4096, 1 << 30), (1024, 4096), (1, 1024))]
            means = (f"{statistics.geometric_mean(values):.3f}" for values in of)
            rows.append([f"per {recipe}, {words}", *means, f"{min(speeds.values()):.3f}"])
    return table(["", "m from 4096", "m = 1024", "m = 64, 128", "worst"], rows)


def groups() -> str:
    ends = run_of(record("h200"), "--suite peers --op m_grouped_offsets --recipe 1d2d --sa-layout k")
    masked = run_of(record("h200"), "--suite peers --op m_grouped_masked --recipe 1d2d --sa-layout k")
    us: dict[str, dict[tuple[int, int], float]] = {}
    for words, row in [("exact ends", r) for r in ends] + [("masked", r) for r in masked]:
        if not is_ours(row):
            continue
        count, rest = row["shape"][0], row["shape"][2:] if words == "masked" else row["shape"][1:]
        us.setdefault(f"{words}, {count} x {rest[0]}", {})[rest[1], rest[2]] = row["us"]
    weights = [(4096, 7168), (7168, 2048)]
    lines = [[name, *(f"{cells[nk]:.4g}" if nk in cells else "" for nk in weights)] for name, cells in us.items()]
    return table(["", *(f"n{n} k{k}" for n, k in weights)], lines)


def skew() -> str:
    """Rates of groups of which one is hot, over those of groups of one size."""
    rates: dict[tuple[str, str], dict[int, list[float]]] = {}
    names = {("m_grouped_offsets", "nt"): "forward, nt", ("m_grouped_offsets", "nn"): "dgrad, nn", ("k_grouped", "nt"): "wgrad, k-grouped"}
    rows = record("h200_skew")
    for row in rows:
        hot = re.search(r"--hot (\d+)", row["command"])
        assert hot, row["command"]
        groups, *sizes = row["shape"]
        words = f"{names[row['grouping'], row['layout']]}, {groups} x {shape(str(sizes))}"
        rates.setdefault((words, row["recipe"]), {}).setdefault(int(hot[1]), []).append(row["tflops"])
    hots = sorted({hot for cells in rates.values() for hot in cells} - {1})
    cells = {key: {hot: statistics.median(values) for hot, values in of.items()} for key, of in rates.items()}
    lines = [[*key, f"{of[1]:.0f}", *(f"{of[hot] / of[1]:.2f}" for hot in hots)] for key, of in cells.items()]
    return f"{made_at(rows)}\n\n" + table(["", "recipe", "even, TFLOP/s", *(f"{hot} : 1" for hot in hots)], lines)


def continuous() -> str:
    rows = [row for row in record("h200") if "sustained_s" in row]
    cells = []
    for own in filter(is_ours, rows):
        blas = next(r for r in rows if r["shape"] == own["shape"] and not is_ours(r))
        measured = [f"{own['tflops']:.0f}", f"{own['watts']:.0f}", f"{own['pj_per_flop']:.3f}", f"{blas['pj_per_flop']:.3f}"]
        cells.append([shape(str(own["shape"])), *measured])
    return table(["", "TFLOP/s", "W", "pJ per FLOP", "cuBLASLt per tensor's, same run"], cells)


def few_rows() -> str:
    rows = [row for options in FEW_ROWS for row in run_of(record("h200"), options)]
    stream = {tuple(r["shape"]): r["us"] for r in rows if r["peer"].startswith("TMA")}
    ours = {tuple(r["shape"]): r["us"] for r in rows if is_ours(r)}
    lines = []
    for n, k in sorted({key[1:] for key in ours}, key=math.prod, reverse=True):
        cells = (f"{ours[m, n, k]:.1f}, {ours[m, n, k] / stream[m, n, k]:.2f}" for m in (1, 16, 48))
        lines.append([f"{n} x {k}, {n * k / 1e6:.0f} MB", *cells])
    return table(["weights", "m = 1", "m = 16", "m = 48"], lines)


def host_time() -> str:
    """The median of several runs of each program, and the extremes."""
    rows = record("h200_host")

    def cell(who: str, key: str) -> str:
        values = sorted(row[key] for row in rows if row["from"] == who)
        low, middle, high = (f"{value:.1f}" for value in (values[0], statistics.median(values), values[-1]))
        return middle if low == high else f"{middle} ({low} to {high})"

    def milliseconds(who: str, key: str) -> str:
        return f"{statistics.median(row[key] for row in rows if row['from'] == who) / 1000:.0f}"

    first = [f"{milliseconds(who, 'first_call_us')} and {milliseconds(who, 'compiled_call_us')} from {who}" for who in ("C++", "Python")]
    lines = [
        ["C++", cell("C++", "same_pointers_us"), "3", cell("C++", "fresh_pointers_us"), ""],
        ["Python", cell("Python", "same_tensors_us"), "", cell("Python", "fresh_tensors_us"), "7"],
        ["`tilewright.deep_gemm`", cell("Python", "deep_gemm_us"), "", "", ""],
        ["only the driver: `cuLaunchKernelEx` of a small kernel", cell("C++", "driver_launch_us"), "", "", ""],
        ["for comparison: torch zeroes an element", cell("Python", "torch_zero_us"), "", "", ""],
    ]
    return (
        f"{made_at(rows)}\n\n{table(['', 'same pointers', 'target', 'fresh pointers', 'target'], lines)}\n\n"
        f"First calls with their result, in milliseconds, precompiled and compiled (targets 50 and 1,000):\n{'; '.join(first)}."
    )
