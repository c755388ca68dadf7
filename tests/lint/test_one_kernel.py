"""docs/one_kernel.md says what the record of benchmarks/kernel_timeline says, shows pictures that exist, and its generator works."""

import importlib.util
import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs/one_kernel.md"


@pytest.fixture(scope="module")
def plot():
    spec = importlib.util.spec_from_file_location("plot_timeline", ROOT / "benchmarks/plot_timeline.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_section_is_of_the_record(plot):
    """To renew it: python benchmarks/plot_timeline.py"""
    assert plot.SECTION.search(PAGE.read_text())[0] == plot.section(plot.RECORD)


def test_pictures_are_there():
    names = re.findall(r'src(?:set)?="([^"]+)"', PAGE.read_text())
    assert names
    assert [name for name in names if not (PAGE.parent / name).is_file()] == []


@pytest.fixture
def record(tmp_path):
    """Two blocks of two tiles of two k-blocks; clocks of these tests, not of a GPU."""
    consumer = [("waits_full", 100), ("multiplies", 150), ("released", 450), ("waits_full", 600), ("multiplies", 610), ("released", 900),
                ("epilogue", 1050), ("staged", 1250)]  # fmt: skip
    consumer += [(event, clock + 1200) for event, clock in consumer]
    loads = [("loads", 0), ("waits_empty", 20), ("loads", 500), ("waits_empty", 520)]
    lines = [{"shape": [128, 256, 256], "device": "test", "commit": "0", "shipped_us": 10.0, "stamped_us": 11.0}]
    for block in (0, 1):
        for role, events in (("load", loads), ("multiply 0", consumer), ("multiply 1", consumer)):
            lines.append({"block": block, "role": role, "events": [e for e, _ in events], "clocks": [c for _, c in events]})
    path = tmp_path / "timeline.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_what_a_record_says(plot, record):
    _, blocks = plot.read(record)
    assert plot.median_clocks(blocks) == {"wait": 30, "multiply": 295, "promote": 150, "epilogue": 200, "tile": 1200}
    assert "| promotion of 64 sums a thread | 150 |" in plot.section(record)
    assert "(+10.0 %)" in plot.section(record)


def test_without_a_record_nothing_is_said(plot, tmp_path):
    assert plot.section(tmp_path / "none.jsonl") == ""


def test_pictures_are_drawn(plot, record, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "one_kernel.md").write_text(PAGE.read_text())
    plot.main([str(record), str(tmp_path)])
    names = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert names == ["kernel_ring_dark.svg", "kernel_ring_light.svg", "kernel_timeline_dark.svg", "kernel_timeline_light.svg"]
    assert "| promotion of 64 sums a thread | 150 |" in (tmp_path / "one_kernel.md").read_text()
