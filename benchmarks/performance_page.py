"""Writes the numbers of docs/performance.md and docs/torch.md: what is between `<!-- NAME -->` and `<!-- end -->` there comes
from the records of benchmarks/results.

python benchmarks/performance_page.py            # writes the pages anew
python benchmarks/performance_page.py --check    # exit code 1 if a page says something else

Needs build/release/src/cli/tilewright. tests/lint/test_performance_page.py runs the check.
"""

from __future__ import annotations

import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
from collections.abc import Callable

import fp4_tables
import layer_tables
import peers_table
import training_peers_table
import training_table
from markdown_table import Row, shape, table

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs/performance.md"
TORCH_PAGE = ROOT / "docs/torch.md"
PROGRAM = ROOT / "build/release/src/cli/tilewright"


# Options of `tilewright bench` by what a table calls their rows: those of `make gpu-bench`, which other records do without.
WHOLE_TENSORS = {"unpromoted": "--suite peers --recipe tensor,row --unpromoted", "promoted": "--suite peers --recipe tensor,row"}
FEW_ROWS = [f"--suite {suite} --m 1,16,48 --recipe 1d2d" for suite in ("qwen3-235b", "llama-70b")]
ROW_INDICES = "--suite peers --op m_grouped_indices --recipe 1d2d --sa-layout k"

MADE_BY = {"h200_host": "gpu-host", "h200_skew": "gpu-skew", "h200_training": "gpu-gradients", "h200_fp4": "gpu-packed",
           "h200_quantisers": "gpu-quantisers", "h100_training": "gpu-gradients", "training_peers": "gpu-peers", "moe_train": "cpu-training"}


def record(name: str) -> list[Row]:
    path = ROOT / f"benchmarks/results/{name}.jsonl"
    if not path.exists():
        made_by = MADE_BY.get(name, "gpu-bench")
        where = ", on an idle machine with an H200" if made_by.startswith("gpu") else ""
        raise SystemExit(f"benchmarks/results/{name}.jsonl is not there; `make {made_by}` writes it{where}")
    return [json.loads(line) for line in path.read_text().splitlines()]


def has_record(name: str) -> bool:
    return (ROOT / f"benchmarks/results/{name}.jsonl").exists()


def made_at(rows: list[Row]) -> str:
    """The origin of rows that were made in one go."""
    (commit,), (date,) = {row["commit"] for row in rows}, {row["date"] for row in rows}
    return f"Commit {commit[:7]}, {date}."


def newest(rows: list[Row]) -> list[Row]:
    """Those of the commit of the last run."""
    commit = max(rows, key=lambda row: row["started"])["commit"]
    return [row for row in rows if row["commit"] == commit]


def is_ours(row: Row) -> bool:
    return row["peer"].startswith("Tilewright")


def is_reference(row: Row) -> bool:
    return row["shape"] == peers_table.REFERENCE and peers_table.is_blas(row)


def geomean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def run_of(rows: list[Row], options: str) -> list[Row]:
    """The rows of `tilewright bench --backend hopper OPTIONS`, with a peer or without."""
    command = f"tilewright bench --backend hopper {options} --json benchmarks/results/h200.jsonl"
    return [row for row in rows if row["command"].replace(" --peers", "") == command]


def source() -> str:
    rows = newest(record("h200"))
    ends = sorted(row["us"] for row in rows if is_reference(row) and "sustained_s" not in row)
    theirs = next(r["us"] for r in peers_table.rows() if is_reference(r))
    (commit,), (date,) = {row["commit"] for row in rows}, {row["date"] for row in rows}
    return (f"The records of commit {commit[:7]}, `benchmarks/results`: one H200, measured on {date} with cold, clean L2. cuBLASLt with one\n"
            f"scale per tensor on 4096 x 4096 x 7168 took {ends[0]:.1f} to {ends[-1]:.1f} us, in DeepGEMM's run {theirs:.1f}.{older()}")


def older() -> str:
    """Which tables are of rows that were not measured with the others."""
    rows = record("h200")
    now = newest(rows)[0]["commit"]
    tables = {"row indices": [ROW_INDICES], "scales of whole tensors and rows": [*WHOLE_TENSORS.values()], "few rows": FEW_ROWS}
    commits = {words: {row["commit"] for options in runs for row in run_of(rows, options)} - {now} for words, runs in tables.items()}
    words = [words for words, of in commits.items() if of]
    if not words:
        return ""
    all_of_them = sorted({commit[:7] for of in commits.values() for commit in of})
    return f"\nNot measured anew, of commit {', '.join(all_of_them)}: {'; '.join(words)}."


def classes() -> str:
    command = [PROGRAM, "classes", ROOT / "benchmarks/results/h200.jsonl", "--json", "-"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = []
    for line in map(json.loads, lines):
        against = [f"{line['deep_gemm']:.3f}", f"{line['deep_gemm_worst']:.3f} at {shape(line['deep_gemm_worst_shape'])}", str(line["deep_gemm_slower"])]
        target = f"{line['target']:.2f}" if "target" in line else ""
        blas = [f"{line['blas_lt']:.3f}", f"{line['blas_lt_worst']:.3f} at {shape(line['blas_lt_worst_shape'])}"] if "blas_lt" in line else ["", ""]
        rows.append([line["class"], "on" if line["tuned_rows"] else "off", str(line["shapes"]), *against, target, *blas])
    return table(["class", "tuned rows", "shapes", "speed", "worst", "slower", "target", "against cuBLASLt", "worst"], rows)


def dense() -> str:
    rows = run_of(record("h200"), "--suite peers --recipe 1d2d --sa-layout m")
    peers = peers_table.rows()
    deep_gemm = {tuple(r["shape"]): r["us"] for r in filter(peers_table.is_deep_gemm, peers) if r["op"] == "dense"}
    factor = statistics.median(r["us"] for r in rows if is_reference(r)) / next(r["us"] for r in peers if is_reference(r))
    ours = {tuple(r["shape"]): r["us"] for r in rows if is_ours(r) and tuple(r["shape"]) in deep_gemm}
    weights = list(dict.fromkeys(key[1:] for key in ours))
    cells = {key: f"{us:.1f} {deep_gemm[key] * factor / us:.2f}" for key, us in ours.items()}
    return table(["m", *(f"{n} x {k}" for n, k in weights)],
                 [[str(m), *(cells.get((m, *nk), "") for nk in weights)] for m in sorted({key[0] for key in ours})])


def whole_tensors() -> str:
    """Scales of rows and tensors against cuBLASLt per tensor on the same shape, just before or after."""
    rows = []
    for words, options in WHOLE_TENSORS.items():
        run = run_of(record("h200"), options)
        blas: dict[tuple[int, ...], list[float]] = {}
        for row in run:
            if peers_table.is_blas(row):
                blas.setdefault(tuple(row["shape"]), []).append(row["us"])
        for recipe in ("tensor", "row"):
            ours = {tuple(r["shape"]): r["us"] for r in run if is_ours(r) and r["recipe"] == f"{recipe}:{recipe}"}
            speeds = {key: statistics.median(blas[key]) / us for key, us in ours.items() if key in blas}
            of = [[v for key, v in speeds.items() if low <= key[0] < high] for low, high in ((4096, 1 << 30), (1024, 4096), (1, 1024))]
            rows.append([f"per {recipe}, {words}", *(f"{geomean(values):.3f}" for values in of), f"{min(speeds.values()):.3f}"])
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
    return table(["", *(f"n{n} k{k}" for n, k in weights)],
                 [[name, *(f"{cells[nk]:.4g}" if nk in cells else "" for nk in weights)] for name, cells in us.items()])


def skew() -> str:
    """Rates of groups of which one is hot, over those of groups of one size."""
    rates: dict[tuple[str, str], dict[int, list[float]]] = {}
    names = {("m_grouped_offsets", "nt"): "forward, nt", ("m_grouped_offsets", "nn"): "dgrad, nn", ("k_grouped", "nt"): "wgrad, groups of k"}
    rows = record("h200_skew")
    for row in rows:
        hot = re.search(r"--hot (\d+)", row["command"])
        assert hot, row["command"]
        groups, *sizes = row["shape"]
        words = f"{names[row['grouping'], row['layout']]}, {groups} x {shape(str(sizes))}"
        rates.setdefault((words, row["recipe"]), {}).setdefault(int(hot[1]), []).append(row["tflops"])
    hots = sorted({hot for cells in rates.values() for hot in cells} - {1})
    cells = {key: {hot: statistics.median(values) for hot, values in of.items()} for key, of in rates.items()}
    return f"{made_at(rows)}\n\n" + table(
        ["", "recipe", "even, TFLOP/s", *(f"{hot} : 1" for hot in hots)],
        [[*key, f"{of[1]:.0f}", *(f"{of[hot] / of[1]:.2f}" for hot in hots)] for key, of in cells.items()])


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
    return f"{made_at(rows)}\n\n" + table(
        ["", "same pointers", "target", "fresh pointers", "target"],
        [["C++", cell("C++", "same_pointers_us"), "3", cell("C++", "fresh_pointers_us"), ""],
         ["Python", cell("Python", "same_tensors_us"), "", cell("Python", "fresh_tensors_us"), "7"],
         ["`tilewright.deep_gemm`", cell("Python", "deep_gemm_us"), "", "", ""],
         ["the driver alone: `cuLaunchKernelEx` of a small kernel", cell("C++", "driver_launch_us"), "", "", ""],
         ["for comparison: torch zeroes an element", cell("Python", "torch_zero_us"), "", "", ""]],
    ) + f"\n\nFirst calls with their result, in milliseconds, a kernel of the pack and one that is compiled (targets 50 and 1,000): {'; '.join(first)}."


def continuous() -> str:
    rows = [row for row in record("h200") if "sustained_s" in row]
    theirs = {tuple(r["shape"]): r for r in filter(peers_table.is_deep_gemm, peers_table.rows("h200_sustained.jsonl"))}
    cells = []
    for own in filter(is_ours, rows):
        blas = next(r for r in rows if r["shape"] == own["shape"] and not is_ours(r))
        cells.append([shape(str(own["shape"])), f"{own['tflops']:.0f}", f"{own['watts']:.0f}", f"{own['pj_per_flop']:.3f}",
                      f"{theirs[tuple(own['shape'])]['pj_per_flop']:.3f}", f"{blas['pj_per_flop']:.3f}"])
    return table(["", "TFLOP/s", "W", "pJ per FLOP", "DeepGEMM's pJ", "cuBLASLt per tensor's, same run"], cells)


def few_rows() -> str:
    rows = [row for options in FEW_ROWS for row in run_of(record("h200"), options)]
    stream = {tuple(r["shape"]): r["us"] for r in rows if r["peer"].startswith("TMA")}
    ours = {tuple(r["shape"]): r["us"] for r in rows if is_ours(r)}
    weights = sorted({key[1:] for key in ours}, key=math.prod, reverse=True)
    return table(["weights", "m = 1", "m = 16", "m = 48"],
                 [[f"{n} x {k}, {n * k / 1e6:.0f} MB", *(f"{ours[m, n, k]:.1f}, {ours[m, n, k] / stream[m, n, k]:.2f}" for m in (1, 16, 48))]
                  for n, k in weights])


def quantisers() -> str:
    rows = newest(record("h200_quantisers")) if has_record("h200_quantisers") else []
    return layer_tables.quantisers(rows, made_at(rows)) if rows else ""


def training_peers() -> str:
    rows = newest(record("training_peers")) if has_record("training_peers") else []
    return training_peers_table.page(rows, made_at(rows)) if rows else ""


def on_an_h100() -> str:
    """What was measured on another card than the page's: gradients, quantisers, and pairs of FP4 and MXFP8 that have no other record."""
    if not has_record("h100_training"):
        return ""
    rows = newest(record("h100_training"))
    blocks = [f"## On an H100\n\n{made_at(rows)} {' and '.join(sorted({row['device'] for row in rows}))}, by `make gpu-gradients card=h100`: D of f32 += A B and "
              "groups of k\nas in the tables for an H200; aligned: segments as our quantisers write them.",
              layer_tables.gradients(rows), layer_tables.dgrad(rows)]  # fmt: skip
    if has_record("h100_quantisers"):
        of = newest(record("h100_quantisers"))
        blocks.append(layer_tables.quantisers(of, made_at(of), head="Quantisers. "))
    if has_record("h100_fp4"):
        of = newest(record("h100_fp4"))
        blocks.append(f"FP4 weights, as in the tables for an H200; last MXFP8 and NVFP4 next to each other and to fp8. {made_at(of)} Microseconds, and over "
                      "the time of the bytes:")  # fmt: skip
        blocks += [fp4_tables.packed(of), fp4_tables.short_blocks(of), fp4_tables.pairs(of)]
    return "\n\n".join(filter(None, blocks))


TABLES = {"source": source, "classes": classes, "dense": dense, "whole tensors": whole_tensors, "groups": groups,
          "skew": skew, "continuous load": continuous, "few rows": few_rows, "quantisers": quantisers, "host time": host_time,
          "gradients": lambda: layer_tables.gradients(record("h200_training")), "dgrad": lambda: layer_tables.dgrad(record("h200_training")),
          "training peers": training_peers, "on an H100": on_an_h100,
          "packed": lambda: fp4_tables.packed(record("h200_fp4")), "short blocks": lambda: fp4_tables.short_blocks(record("h200_fp4"))}
TORCH_TABLES = {"training": lambda: training_table.text(record("moe_train"), table)}
PAGES = {PAGE: TABLES, TORCH_PAGE: TORCH_TABLES}


def written(page: str, tables: dict[str, Callable[[], str]] = TABLES, name_of_page: str = PAGE.name) -> str:
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
