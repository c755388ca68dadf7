"""benchmarks/plot.py draws what the files say, and names a line that it cannot read."""

import importlib.util
import json
import pathlib

import pytest

pytest.importorskip("matplotlib")
ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def plot():
    spec = importlib.util.spec_from_file_location("plot", ROOT / "benchmarks/plot.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def results(tmp_path):
    """As `tilewright bench` writes them: ours twice (the later counts), with another flush, without tuned rows, and a live peer."""
    lines = []
    for shape in ([64, 2112, 7168], [1024, 7168, 2048], [4096, 7168, 2048]):
        ours = {"peer": "Tilewright 0.1 (1x128:128x128)", "op": "dense", "shape": shape, "flush": "clean"}
        lines += [ours | {"us": 99.0}, ours | {"us": 10.0}, ours | {"us": 50.0, "flush": "dirty"}, ours | {"us": 60.0, "tuned_rows": False}]
        lines.append({"peer": "cuBLASLt 13.1 per-tensor scale", "op": "dense", "shape": shape, "us": 9.0})
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_png_and_svg(plot, results, tmp_path):
    plot.main(["--results", str(results), "--to", str(tmp_path / "plots")])
    names = sorted(path.name for path in (tmp_path / "plots").iterdir())
    assert names == ["peers.png", "peers.svg", "roofline.png", "roofline.svg"]
    assert all(path.stat().st_size > 10_000 for path in (tmp_path / "plots").iterdir())


def test_the_last_clean_line_counts(plot, results):
    times = plot.read_lines(results)
    assert times["Tilewright 0.1 (1x128:128x128)", (64, 2112, 7168)] == 10.0


def test_mistakes_are_named(plot, results, tmp_path):
    with pytest.raises(SystemExit, match="make gpu-bench"):
        plot.main(["--results", str(tmp_path / "none.jsonl")])
    with pytest.raises(SystemExit, match="no line of Tilewright with 'row:row'"):
        plot.main(["--results", str(results), "--ours", "row:row"])
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"peer": "x", "op": "dense", "shape": [1, 2, 3], "us": 1}\n{"peer": "x"}\n')
    with pytest.raises(SystemExit, match="line 2"):
        plot.read_lines(broken)
