"""docs/performance.md and the README say what benchmarks/results says: all tables of the page, the README's classes and plot."""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

ROOT = pathlib.Path(__file__).parents[2]
TOOL = ROOT / "benchmarks/performance_page.py"


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_records_say():
    done = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_another_number_on_the_page_is_found():
    tool = loaded(TOOL)
    page = tool.PAGE.read_text()
    for name in tool.TABLES:
        first = page.index(f"<!-- {name} -->\n")
        digit = re.compile(r"\d").search(page, first + len(name) + 10)
        assert digit.start() < page.index("<!-- end -->", first)
        other = page[: digit.start()] + str((int(digit[0]) + 1) % 10) + page[digit.end() :]
        assert tool.written(other) == page != other, name


def test_a_table_that_the_page_lacks_is_named():
    tool = loaded(TOOL)
    with pytest.raises(SystemExit, match="`<!-- dense -->` to `<!-- end -->` is there 0 times, not once"):
        tool.written(tool.PAGE.read_text().replace("<!-- dense -->", ""))


@pytest.fixture(name="classes", scope="module")
def classes_of_the_program():
    """(class, tuned rows) -> a line of `tilewright classes`."""
    program = ROOT / "build/release/src/cli/tilewright"
    command = [program, "classes", ROOT / "benchmarks/results/h200.jsonl", "--json", "-"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {(line["class"], line["tuned_rows"]): line for line in map(json.loads, lines)}


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
        "masked groups": ["masked, scales along m"],
    }
    expected = {row: "; ".join(f"{classes[name, True]['deep_gemm']:.2f}x" for name in of) for row, of in names.items()}
    assert table == expected


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_readme_s_plot_is_the_record(theme):
    """To renew it: python benchmarks/plot_classes.py"""
    plot = loaded(ROOT / "benchmarks/plot_classes.py")
    drawn = ElementTree.parse(ROOT / f"docs/speed_{theme}.svg").find(".//{http://purl.org/dc/elements/1.1/}description")
    assert json.loads(drawn.text) == plot.read(ROOT / "benchmarks/results/h200.jsonl")
    assert f"docs/speed_{theme}.svg" in (ROOT / "README.md").read_text()
