"""docs/performance.md and the README say what benchmarks/results/h200.jsonl says: the dense table and the means of it."""

import json
import math
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs/performance.md").read_text()


def dense(scales_along):
    """(m, n, k) -> (microseconds, speed against DeepGEMM) of 1x128 : 128x128, for the shapes of the page's tables."""
    found = {}
    peers = map(json.loads, (ROOT / "benchmarks/peers/h200.jsonl").read_text().splitlines())
    shapes = {tuple(row["shape"]) for row in peers if row["op"] == "dense"}
    with open(ROOT / "benchmarks/results/h200.jsonl") as file:
        for line in map(json.loads, file):
            speed = [value for key, value in line.items() if key.startswith("speed_against")]
            wanted = {"op": "dense", "recipe": "1x128:128x128", "scales_along": scales_along, "flush": "clean"}
            if not speed or tuple(line["shape"]) not in shapes or not line.get("tuned_rows", True):
                continue
            if all(line.get(key) == value for key, value in wanted.items()):
                found[tuple(line["shape"])] = (line["us"], speed[0])
    return found


def means(speeds):
    """From 4096 rows, at 1024, below."""
    parts = [lambda m: m >= 4096, lambda m: m == 1024, lambda m: m < 1024]
    chosen = [[math.log(s) for (m, _, _), (_, s) in speeds.items() if part(m)] for part in parts]
    return [math.exp(sum(logs) / len(logs)) for logs in chosen]


def test_the_dense_table_is_the_record():
    lines = PAGE[PAGE.index("## Dense") :].split("\n")
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    columns = [tuple(map(int, title.split(" x "))) for title in table[0][1:]]
    shown = {}
    for row in table[2:]:
        if not row[0].isdigit():
            break
        shown |= {(int(row[0]), *nk): cell for nk, cell in zip(columns, row[1:], strict=True) if cell}
    record = dense("m")
    assert shown == {shape: f"{us:.1f} {speed:.2f}" for shape, (us, speed) in record.items()}
    assert len(shown) == 25


@pytest.mark.parametrize("along", ["m", "k"])
def test_the_means_are_the_records(along):
    row = re.search(rf"^\| scales adjacent along {along} \|(.*)\|$", PAGE, re.MULTILINE).group(1)
    shown = [float(re.match(r" ([\d.]+)", cell).group(1)) for cell in row.split("|")]
    assert shown == [pytest.approx(mean, abs=0.00051) for mean in means(dense(along))]


@pytest.mark.parametrize("along", ["m", "k"])
def test_the_means_by_one_factor_are_those_of_the_program(along):
    program = ROOT / "build/release/src/cli/tilewright"
    command = [program, "classes", ROOT / "benchmarks/results/h200.jsonl", "--json", "-"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    means = {line["class"]: line["deep_gemm"] for line in map(json.loads, lines) if line["tuned_rows"]}
    row = re.search(rf"^\| by one factor a run, along {along} \|(.*)\|$", PAGE, re.MULTILINE).group(1)
    classes = ["dense m >= 4096", "dense m = 1024", "dense m = 64, 128"]
    shown = [float(cell) for cell in row.split("|")]
    assert shown == [pytest.approx(means[f"{name}, scales along {along}"], abs=0.00051) for name in classes]


def test_the_readme_rounds_the_means():
    readme = (ROOT / "README.md").read_text()
    shown = [float(x) for x in re.findall(r"^\| dense, m.*\| ([\d.]+)x \|$", readme, re.MULTILINE)]
    assert shown == [round(mean, 2) for mean in means(dense("m"))]
