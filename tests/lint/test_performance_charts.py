"""The charts of docs/performance.md show the records' numbers. To draw them again: python benchmarks/plot_classes.py"""

import importlib.util
import json
import pathlib
import sys
from xml.etree import ElementTree

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs/performance.md"


@pytest.fixture(name="plot", scope="module")
def tool():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("plot_classes", ROOT / "benchmarks/plot_classes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("name", "read", "record"), [("speed", "read", "h200_contest"), ("training", "read_training", "training_peers")])
def test_a_chart_is_its_record(plot, name, read, record, theme):
    file = f"{name}_{theme}.svg"
    drawn = ElementTree.parse(ROOT / "docs" / file).find(".//{http://purl.org/dc/elements/1.1/}description")
    assert json.loads(drawn.text) == getattr(plot, read)(ROOT / f"benchmarks/results/{record}.jsonl")
    assert file in PAGE.read_text()


def test_a_record_of_other_numbers_is_another_chart(plot, tmp_path):
    rows = [{"key": key, "section": "forward", "peer": key, "shape": [1, 2, 3, 4], "us": us, "commit": "a", "started": "1"}
            for key, us in (("tensor", 10.0), ("torch row", 12.0))]  # fmt: skip
    (tmp_path / "record.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert plot.read_training(tmp_path / "record.jsonl") == [{"class": "forward: tensor", "torch": [pytest.approx(1.2), pytest.approx(1.2)]}]
