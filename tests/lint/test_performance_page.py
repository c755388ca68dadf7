"""docs/performance.md and the README say what benchmarks/results/h200.jsonl says: the classes, and the dense table. Speeds
are scaled by one factor a run: cuBLASLt per tensor on one product, in that run and in the peers' table."""

import importlib.util
import json
import pathlib
import re
import statistics
import subprocess
from xml.etree import ElementTree

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs/performance.md").read_text()
REFERENCE = [4096, 4096, 7168]


def rows_of(path):
    return [json.loads(line) for line in (ROOT / "benchmarks" / path).read_text().splitlines()]


def tables(section):
    """The cells of the first table of a section."""
    lines = PAGE[PAGE.index(f"## {section}") :].split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    last = next(i for i in range(first, len(lines)) if not lines[i].startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[first:last]]


def is_reference(row):
    return row["shape"] == REFERENCE and row["peer"].startswith("cuBLASLt") and row["peer"].endswith("per-tensor scale")


def dense_table():
    """(m, n, k) -> microseconds and speed against DeepGEMM, scales along m, tuned rows."""
    peers = rows_of("peers/h200.jsonl")
    deep_gemm = {tuple(r["shape"]): r["us"] for r in peers if r["op"] == "dense" and r["peer"].startswith("DeepGEMM")}
    record = rows_of("results/h200.jsonl")
    run = next(r["command"] for r in record if "--suite peers --recipe 1d2d --sa-layout m --json" in r["command"])
    record = [row for row in record if row["command"] == run]
    reference = statistics.median(row["us"] for row in record if is_reference(row))
    factor = reference / next(row["us"] for row in peers if is_reference(row))
    ours = {tuple(r["shape"]): r["us"] for r in record if r["peer"].startswith("Tilewright")}
    return {shape: (us, deep_gemm[shape] * factor / us) for shape, us in ours.items() if shape in deep_gemm}


def test_the_dense_table_is_the_record():
    table = tables("Dense")
    columns = [tuple(map(int, title.split(" x "))) for title in table[0][1:]]
    shown = {}
    for row in table[2:]:
        shown |= {(int(row[0]), *nk): cell for nk, cell in zip(columns, row[1:], strict=True) if cell}
    assert shown == {shape: f"{us:.1f} {speed:.2f}" for shape, (us, speed) in dense_table().items()}
    assert len(shown) == 25


@pytest.fixture(name="classes", scope="module")
def classes_of_the_program():
    """(class, tuned rows) -> a line of `tilewright classes`."""
    program = ROOT / "build/release/src/cli/tilewright"
    command = [program, "classes", ROOT / "benchmarks/results/h200.jsonl", "--json", "-"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {(line["class"], line["tuned_rows"]): line for line in map(json.loads, lines)}


def test_the_classes_are_those_of_the_program(classes):
    shown = {(name, tuned == "on"): (float(mean), float(worst.split(" at ")[0]))
             for name, tuned, _, mean, worst, *_ in tables("Classes")[2:]}
    assert shown == {key: (pytest.approx(line["deep_gemm"], abs=0.00051), pytest.approx(line["deep_gemm_worst"], abs=0.00051))
                     for key, line in classes.items() if "deep_gemm" in line}
    assert len(shown) >= 25


def test_the_readme_rounds_the_classes(classes):
    readme = (ROOT / "README.md").read_text()
    table = dict(re.findall(r"^\| (dense.*|groups.*|masked.*) \| (.*x) \|$", readme, re.MULTILINE))
    names = {
        "dense, 72 to 1,500 rows, any number of them": ["dense ragged, scales along m"],
        "dense, m = 64 and 128": ["dense m = 64, 128, scales along m"],
        "dense, m = 1024": ["dense m = 1024, scales along m"],
        "dense, m from 4096": ["dense m >= 4096, scales along m"],
        "groups by end offsets; of fewer than 400 rows": [
            "contiguous, exact ends, scales along k", "exact ends, below 400 rows, scales along k"],
        "groups through the drop-in, by row index": ["contiguous, drop-in"],
        "masked groups": ["masked, scales along k"],
    }
    expected = {row: "; ".join(f"{classes[name, True]['deep_gemm']:.2f}x" for name in of) for row, of in names.items()}
    assert table == expected


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_readme_s_plot_is_the_record(theme):
    """To renew it: python benchmarks/plot_classes.py"""
    spec = importlib.util.spec_from_file_location("plot_classes", ROOT / "benchmarks/plot_classes.py")
    plot = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plot)
    drawn = ElementTree.parse(ROOT / f"docs/speed_{theme}.svg").find(".//{http://purl.org/dc/elements/1.1/}description")
    assert json.loads(drawn.text) == plot.read(ROOT / "benchmarks/results/h200.jsonl")
    assert f"docs/speed_{theme}.svg" in (ROOT / "README.md").read_text()
