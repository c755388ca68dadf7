"""Writes the numbers of README.md, docs/performance.md, docs/moe_training.md, docs/transformers.md and the pages of
benchmarks/results: the text between `<!-- NAME -->` and `<!-- end -->` comes from the records of benchmarks/results.

python benchmarks/performance_page.py            # writes the pages
python benchmarks/performance_page.py --check    # exit code 1 if a page differs from the records

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

import contest_table
import expert_parallel_table
import fp4_tables
import generate_table
import layer_tables
import moe_table
import peers_table
import readme_tables
import training_peers_table
import training_table
from markdown_table import Row, shape, table

ROOT = pathlib.Path(__file__).parents[1]
SUMMARY_PAGE = ROOT / "docs/performance.md"
PAGE = ROOT / "benchmarks/results/h200.md"
H100_PAGE = ROOT / "benchmarks/results/h100.md"
README = ROOT / "README.md"
TRAINING_PAGE = ROOT / "docs/moe_training.md"
TRANSFORMERS_PAGE = ROOT / "docs/transformers.md"
PROGRAM = ROOT / "build/release/src/cli/tilewright"


# Options of `tilewright bench` by what a table calls their rows: those of `make gpu-bench`, which other records do without.
WHOLE_TENSORS = {"unpromoted": "--suite peers --recipe tensor,row --unpromoted", "promoted": "--suite peers --recipe tensor,row"}
FEW_ROWS = [f"--suite {suite} --m 1,16,48 --recipe 1d2d" for suite in ("qwen3-235b", "llama-70b")]
ROW_INDICES = "--suite peers --op m_grouped_indices --recipe 1d2d --sa-layout k"

MADE_BY = {"h200_host": "gpu-host", "h200_skew": "gpu-skew", "h200_training": "gpu-gradients", "h200_fp4": "gpu-packed",
           "h200_quantisers": "gpu-quantisers", "h100_training": "gpu-gradients", "h100_moe": "gpu-moe", "training_peers": "gpu-peers", "moe_train": "cpu-training", "h100_generate": "gpu-generate",
           "h100_expert_parallel": "gpu-expert-parallel",
           "h100_share": "gpu-share card=h100"}


def record(name: str) -> list[Row]:
    path = ROOT / f"benchmarks/results/{name}.jsonl"
    if not path.exists():
        made_by = MADE_BY.get(name, "gpu-bench")
        where = f", on an idle machine with an {'H100' if name.startswith('h100') else 'H200'}" if made_by.startswith("gpu") else ""
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
    return (f"One H200, commit {commit[:7]}, {date}, cold and clean L2. The reference is cuBLASLt with one\nscale per tensor on 4096 x 4096 x 7168. "
            f"It took {ends[0]:.1f} to {ends[-1]:.1f} us, in DeepGEMM's run {theirs:.1f}.{older()}")


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
    return f"\nMeasured at commit {', '.join(all_of_them)}, and not again: {'; '.join(words)}."


def class_lines() -> list[Row]:
    command = [PROGRAM, "classes", ROOT / "benchmarks/results/h200.jsonl", "--json", "-"]
    return [json.loads(line) for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()]


def class_name(line: Row) -> str:
    name: str = line["class"]
    return name.replace("scales along m", "M-major scales").replace("scales along k", "K-major scales")


def classes() -> str:
    rows = []
    for line in class_lines():
        against = [f"{line['deep_gemm']:.3f}", f"{line['deep_gemm_worst']:.3f} at {shape(line['deep_gemm_worst_shape'])}", str(line["deep_gemm_slower"])]
        target = f"{line['target']:.2f}" if "target" in line else ""
        blas = [f"{line['blas_lt']:.3f}", f"{line['blas_lt_worst']:.3f} at {shape(line['blas_lt_worst_shape'])}"] if "blas_lt" in line else ["", ""]
        rows.append([class_name(line), "on" if line["tuned_rows"] else "off", str(line["shapes"]), *against, target, *blas])
    return table(["class", "tuned rows", "shapes", "speed", "worst", "slower", "target", "against cuBLASLt", "worst"], rows)


# Classes of docs/performance.md, as `tilewright classes` names them: scales in the order that DeepGEMM takes, tuned rows on.
SUMMARY = ("dense ragged, scales along m", "dense m = 64, 128, scales along m", "dense m = 1024, scales along m", "dense m >= 4096, scales along m",
           "contiguous, exact ends, scales along k", "exact ends, below 400 rows, scales along k", "contiguous, drop-in", "masked, scales along m")


def summary() -> str:
    lines = {line["class"]: line for line in class_lines() if line["tuned_rows"]}
    rows = []
    for line in map(lines.__getitem__, SUMMARY):
        ratios = [f"{line[key]:.2f}" if key in line else "" for key in ("deep_gemm", "deep_gemm_worst", "blas_lt", "blas_lt_worst")]
        rows.append([class_name(line), str(line["shapes"]), *ratios])
    return table(["class", "shapes", "DeepGEMM", "worst shape", "cuBLASLt, one scale per tensor", "worst shape"], rows)


def training_summary() -> str:
    """A line for each pair of ours and a baseline that has a target, and for those of the sizes of `make gpu-gradients`."""
    rows = newest(record("training_peers"))
    cells = []
    for section in training_peers_table.sections(rows):
        for of in training_peers_table.verdicts(rows, section):
            if of.speeds:
                names = [training_peers_table.SECTIONS[section].words, of.target.ours, of.target.peer]
                cells.append([*names, str(len(of.speeds)), f"{of.geomean:.2f}", f"{min(of.speeds.values()):.2f}"])
    return f"{' and '.join(sorted({row['device'] for row in rows}))}. {made_at(rows)}\n\n" + table(
        ["product", "ours", "baseline", "shapes", "speed", "worst shape"], cells)


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
         ["only the driver: `cuLaunchKernelEx` of a small kernel", cell("C++", "driver_launch_us"), "", "", ""],
         ["for comparison: torch zeroes an element", cell("Python", "torch_zero_us"), "", "", ""]],
    ) + f"\n\nFirst calls with their result, in milliseconds, precompiled and compiled (targets 50 and 1,000):\n{'; '.join(first)}."


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
    blocks = [f"## Gradients, quantizers and FP4 weights\n\n{made_at(rows)} {' and '.join(sorted({row['device'] for row in rows}))}, by "
              "`make gpu-gradients card=h100`.\nD of f32 += A B and k-grouped calls, as in the [tables of an H200](h200.md). \"Aligned\" are segments\n"
              "as the quantizers write them.",
              layer_tables.gradients(rows), layer_tables.dgrad(rows)]  # fmt: skip
    if has_record("h100_quantisers"):
        of = newest(record("h100_quantisers"))
        blocks.append(layer_tables.quantisers(of, made_at(of), head="Quantizers. "))
    if has_record("h100_fp4"):
        of = newest(record("h100_fp4"))
        blocks.append(f"FP4 weights, as in the tables of an H200; then MXFP8 and NVFP4 with each other and with fp8.\n{made_at(of)} Microseconds, and over "
                      "the time of the bytes:")  # fmt: skip
        blocks += [fp4_tables.packed(of), fp4_tables.short_blocks(of), fp4_tables.pairs(of)]
    return "\n\n".join(filter(None, blocks))


def experts_over_gpus(contents: Callable[[list[Row], str], str]) -> str:
    rows = newest(record("h100_expert_parallel")) if has_record("h100_expert_parallel") else []
    return contents(rows, made_at(rows)) if rows else ""


def layers_of_experts(lines: Callable[[list[Row]], str]) -> str:
    rows = newest(record("h100_moe"))
    return f"{rows[0]['device']}. {made_at(rows)}\n\n{lines(rows)}"


TABLES = {"source": source, "classes": classes, "dense": dense, "whole tensors": whole_tensors, "groups": groups,
          "skew": skew, "continuous load": continuous, "few rows": few_rows, "quantisers": quantisers, "host time": host_time,
          "gradients": lambda: layer_tables.gradients(record("h200_training")), "dgrad": lambda: layer_tables.dgrad(record("h200_training")),
          "packed": lambda: fp4_tables.packed(record("h200_fp4")), "short blocks": lambda: fp4_tables.short_blocks(record("h200_fp4"))}
H100_TABLES = {"contest": lambda: contest_table.page(has_record, record, "h100_contest"),
               "contest unlisted": lambda: contest_table.page(has_record, record, "h100_contest_unlisted", "Random sizes and layers of models"),
               "layers": lambda: layers_of_experts(moe_table.layers),
               "experts over GPUs": lambda: experts_over_gpus(expert_parallel_table.page), "training peers": training_peers, "on an H100": on_an_h100}
SUMMARY_TABLES = {"source": source, "products": lambda: readme_tables.products(record), "summary": summary, "layers": lambda: layers_of_experts(moe_table.classes),
                  "experts over GPUs": lambda: experts_over_gpus(expert_parallel_table.summary), "training summary": training_summary, "fp4 summary": fp4_summary}

def training_steps() -> str:
    """Steps of single layers and the host's time, of the newest run of training_step.py."""
    rows = newest(record("h100_steps"))
    columns = ["layer", "torch bf16", *(f"`{recipe}`" for recipe in rows[0]["us"]), "speed", "target"]
    lines = []
    for row in rows:
        host = "target_us" in row
        speed = row["torch_bf16_us"] / min(row["us"].values())
        target = f"{row['target_us']:.0f} us" if host else f"{row['target']:.2f}"
        name = f"host only, {row['layer']}" if host else row["layer"] + (", no optimizer" if "experts" in row["figure"] else "")
        lines.append([name, f"{row['torch_bf16_us']:.0f}", *(f"{us:.0f}" for us in row["us"].values()), f"{speed:.2f}", target])
    origin = f"{rows[0]['device']}, commit {rows[0]['commit'][:7]}, {rows[0]['date']}, torch {rows[0]['torch']}."
    return f"{origin} Times are in us.\n\n{table(columns, lines)}"


def training_share() -> str:
    """A step's microseconds and the share of quantizers, of the newest run of training_share.py."""
    rows = [row for row in newest(record("h100_share")) if row["microbatches"] == 1]
    recipes = list(dict.fromkeys(row["recipe"] for row in rows))
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        cells.setdefault(row["layer"], {})[row["recipe"]] = f"{row['us']:.0f}, {row['share']:.0%}".replace("%", " %")
    copied = " The lines were copied from an older page, which had\nrounded them." if "copied_from" in rows[0] else ""
    return f"{rows[0]['device']}. {made_at(rows)}{copied}\n\n" + table(
        ["layer: tokens x K -> N, or groups x tokens x K -> N", *(f"`{recipe}`" for recipe in recipes)],
        [[layer, *(of.get(recipe, "") for recipe in recipes)] for layer, of in cells.items()])


TRAINING_TABLES = {"steps": training_steps, "share": training_share, "training": lambda: training_table.text(record("moe_train"), table)}


def generated(contents: Callable[[list[Row]], str]) -> str:
    """A table of the newest run of generate.py, below its origin."""
    rows = newest(record("h100_generate"))
    return f"{rows[0]['device']}. {made_at(rows)}\n\n{contents(rows)}"


TRANSFORMERS_TABLES = {"blocks": lambda: generated(generate_table.blocks), "models": lambda: generated(generate_table.models),
                       "hosts": lambda: generated(generate_table.hosts)}  # fmt: skip
README_TABLES = {"ratios": lambda: readme_tables.ratios(record, class_lines(), peers_table.rows())}
PAGES = {PAGE: TABLES, H100_PAGE: H100_TABLES, SUMMARY_PAGE: SUMMARY_TABLES, TRAINING_PAGE: TRAINING_TABLES,
         TRANSFORMERS_PAGE: TRANSFORMERS_TABLES, README: README_TABLES}


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
