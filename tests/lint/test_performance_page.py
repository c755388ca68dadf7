"""docs/performance.md, docs/moe_training.md and the README have the numbers of benchmarks/results: all their tables, and the plot."""

import functools
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
from collections import Counter

import bench_tables
import pytest
import records

ROOT = pathlib.Path(__file__).parents[2]
TOOL = ROOT / "benchmarks/performance_page.py"


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_what_the_records_say():
    done = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_another_number_on_the_page_is_found():
    tool = loaded(TOOL)
    # Each table is made once, not once for each digit that is tried.
    pages = {path: {name: functools.cache(contents) for name, contents in tables.items()} for path, tables in tool.PAGES.items()}
    for path, name in [(path, name) for path, tables in pages.items() for name in tables]:
        page = path.read_text()
        if not pages[path][name]():
            continue  # there is no record yet
        first = page.index(f"<!-- {name} -->\n")
        digit = re.compile(r"\d").search(page, first + len(name) + 10)
        assert digit.start() < page.index("<!-- end -->", first)
        other = page[: digit.start()] + str((int(digit[0]) + 1) % 10) + page[digit.end() :]
        assert tool.written(other, pages[path], path.name) == page != other, name


def test_a_table_that_the_page_lacks_is_named():
    tool = loaded(TOOL)
    with pytest.raises(SystemExit, match="h200.md: `<!-- dense -->` to `<!-- end -->` is there 0 times, not once"):
        tool.written(tool.H200_PAGE.read_text().replace("<!-- dense -->", ""), tool.H200_TABLES, "h200.md")


ORIGIN = {"commit": "0123456789", "date": "2026-01-02"}


@pytest.fixture(name="results")
def records_elsewhere(tmp_path, monkeypatch):
    """A folder of records that is empty."""
    monkeypatch.setattr(records, "ROOT", tmp_path)
    folder = tmp_path / "benchmarks/results"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize(("name", "target"), [("host time", "gpu-host"), ("skew", "gpu-skew"), ("gradients", "gpu-gradients"),
                                              ("groups", "gpu-bench"), ("dense", "gpu-contest")])  # fmt: skip
@pytest.mark.usefixtures("results")
def test_a_record_that_is_missing_is_named_with_the_command_that_writes_it(name, target):
    found = rf"benchmarks/results/h200\w*\.jsonl is not there; `make {target} card=h200` writes it, on an idle machine with an H200$"
    with pytest.raises(SystemExit, match=found):
        loaded(TOOL).H200_TABLES[name]()


@pytest.mark.usefixtures("results")
def test_a_record_of_no_card_is_named_with_the_command_that_writes_it():
    with pytest.raises(SystemExit, match=r"benchmarks/results/moe_train\.jsonl is not there; `make cpu-training` writes it$"):
        loaded(TOOL).TRAINING_TABLES["training"]()


OURS = {"peer": "Tilewright 0.1.0", **ORIGIN}


@pytest.mark.usefixtures("results")
def test_tables_without_a_record_are_left_out():
    tool = loaded(TOOL)
    assert tool.layer_tables.dgrad([]) == tool.fp4_tables.short_blocks([]) == ""
    assert tool.quantisers() == tool.training_peers() == tool.on_an_h100() == tool.H100_TABLES["layers"]() == ""
    assert tool.H100_TABLES["experts over GPUs"]() == tool.SUMMARY_TABLES["experts over GPUs"]() == tool.SUMMARY_TABLES["summary"]() == ""


def test_dgrad_is_next_to_forward_of_the_same_weights():
    tool = loaded(TOOL)
    rows = [
        {"op": "m_grouped_contiguous", "layout": layout, "recipe": f"{recipe}:{recipe}", "shape": [8, 2048, n, k], "us": us, **OURS}
        for recipe in ("tensor", "row") for layout, n, k, us in (("nt", 7168, 2048, 100.0), ("nn", 2048, 7168, 125.0), ("nn", 4096, 7168, 7.0))]
    assert tool.layer_tables.dgrad(rows).splitlines()[3:] == [
        "| weights, n x k of forward | tensor:tensor | row:row |", "|---|---|---|",
        "| DeepSeek-V3, down, 7168 x 2048 | 100, 125, 1.25 | 100, 125, 1.25 |"]


def test_fp4_weights_have_a_table_for_each_kind_of_activations():
    tool = loaded(TOOL)
    row = {"op": "m_grouped_masked", "shape": [32, 256, 20, 4096, 7168], "floor_us": 100.0, **OURS}
    rows = [row | {"recipe": recipe, "us": us, "command": f"tilewright bench {options}"}
            for recipe, us, options in (("1x128:mxfp4", 120.0, ""), ("1x128:mxfp4", 180.0, "--unpacked"),
                                        ("mxfp8:mxfp4", 150.0, ""), ("nvfp4:nvfp4", 200.0, ""))]
    assert tool.fp4_tables.packed(rows).splitlines()[2:] == [
        "| masked 32 x 20 x 4096 x 7168 | 120.0, 1.20 |  |  |  |", "| masked 32 x 20 x 4096 x 7168, not packed | 180.0, 1.80 |  |  |  |"]
    assert tool.fp4_tables.short_blocks(rows).splitlines()[4:] == ["| masked 32 x 20 x 4096 x 7168 |  | 150.0, 1.50 |  | 200.0, 2.00 |"]


def test_quantisers_are_those_of_the_newest_run(results):
    tool = loaded(TOOL)
    rows = [{"form": "rows 1x128", "tokens": 32768, "features": 7168, "groups": 8, "us": us, "mb": 704.64, "tbs": 4.0, "commit": commit,
             "date": "2026-01-02", "started": started} for us, commit, started in ((200.0, "a" * 10, "1"), (176.2, "b" * 10, "2"))]
    (results / "h200_quantisers.jsonl").write_text("\n".join(map(json.dumps, rows)))
    text = tool.quantisers()
    assert text.startswith("## Quantizers\n\nCommit bbbbbbb, 2026-01-02. 32768 tokens of 7168 features in 8 groups")
    assert text.endswith("| rows 1x128 | 176.2 | 705 | 4.00 |") and "200.0" not in text


def test_peers_in_training_are_those_of_the_newest_run(results):
    tool = loaded(TOOL)
    rows = [{"key": key, "section": "forward", "peer": key, "shape": [1, 2, 3, 4], "us": us, "commit": commit, "date": "2026-01-02",
             "device": "NVIDIA H200", "started": commit} for commit, times in (("a" * 10, (9, 9)), ("b" * 10, (10, 12)))
            for key, us in zip(("tensor", "torch row"), times, strict=True)]
    (results / "training_peers.jsonl").write_text("\n".join(map(json.dumps, rows)))
    text = tool.training_peers()
    assert "Commit bbbbbbb, 2026-01-02. NVIDIA H200." in text
    assert "| 1 x 2 x 3 x 4 | 10.0 | 12.0 | 1.200 |" in text and "Target 1.15: reached, 0 below it." in text and "9.0" not in text


def test_rates_of_hot_groups_are_over_the_even_split(results):
    rows = [
        {"grouping": "m_grouped_offsets", "layout": "nn", "recipe": "tensor:tensor", "shape": [8, 2048, 2048, 7168],
         "tflops": rate, "command": f"tilewright bench --hot {hot} --recipe tensor", **ORIGIN}
        for hot, rate in ((1, 1000), (30, 950), (100, 1025), (1, 1100))]
    (results / "h200_skew.jsonl").write_text("\n".join(map(json.dumps, rows)))
    text = bench_tables.skew()
    assert text.startswith("Commit 0123456, 2026-01-02.\n\n|  | recipe | even, TFLOP/s | 30 : 1 | 100 : 1 |")
    assert "| dgrad, nn, 8 x 2048 x 2048 x 7168 | tensor:tensor | 1050 | 0.90 | 0.98 |" in text


def test_times_of_the_host_are_medians_and_extremes(results):
    runs = [{"from": "C++", "same_pointers_us": us, "fresh_pointers_us": 4.7, "driver_launch_us": 2.5,
             "first_call_us": 2e3, "compiled_call_us": 9e5, **ORIGIN} for us in (3.44, 3.5, 3.81)]
    runs.append({"from": "Python", "same_tensors_us": 5.8, "fresh_tensors_us": 6.9, "deep_gemm_us": 7.3, "torch_zero_us": 2.4,
                 "first_call_us": 3e3, "compiled_call_us": 8e5, **ORIGIN})
    (results / "h200_host.jsonl").write_text("\n".join(map(json.dumps, runs)))
    text = bench_tables.host_time()
    assert "| C++ | 3.5 (3.4 to 3.8) | 3 | 4.7 |  |" in text
    assert "| Python | 5.8 |  | 6.9 | 7 |" in text
    assert text.endswith("(targets 50 and 1,000):\n2 and 900 from C++; 3 and 800 from Python.")


def training_run(recipe, held_out, noise=30.0, **other):
    return {"recipe": recipe, "seed": 0, "fault": "none", "held_out": held_out, "sqnr": {"0": noise + 1, "20": noise}, "device": "CPU",
            "large": False, "steps": 400, "started": "2026-01-02T03:04:05Z", **ORIGIN, **other}


def test_losses_of_training_are_in_deviations_of_the_seeds_of_bf16():
    tool = loaded(TOOL)
    rows = [training_run("bf16", loss, seed=seed) for seed, loss in enumerate((1.62, 1.64, 1.66, 1.64))]
    rows += [training_run("row", 1.7, 12.0, fault="flushed"), training_run("row/e5m2", 1.65, 24.0), training_run("row", 1.62, 28.04),
             training_run("fold", 1.68), training_run("row", 1.64, fault="neighbouring-scales"), training_run("tensor", 1.64, 24.0)]
    text = tool.training_table.text(rows, tool.table)
    assert text.startswith("CPU, 400 steps of the small model, commit 0123456, 2026-01-02:\n\n| ")
    assert text.splitlines()[4:] == [
        "| bf16, 4 seeds | mean 1.6400, standard deviation 0.0163 |  |  |  |  |",
        "| bf16, seed 0 | 1.6200 | -1.2 |  |  |  |",
        "| `row` | 1.6200 | -1.2 | 28.0 | 25 | no worse |",
        "| `tensor` | 1.6400 | +0.0 | 24.0 | 25 | worse: dW |",
        "| `fold` | 1.6800 | +2.4 | 30.0 | 25 | worse: loss |",
        "| `row/e5m2` | 1.6500 | +0.6 | 24.0 | 22 | no worse |",
        "| `row`, fault `flushed` | 1.7000 | +3.7 | 12.0 | 25 | seen: dW and loss |",
        "| `row`, fault `neighbouring-scales` | 1.6400 | +0.0 | 30.0 | 25 | not seen |"]


def test_training_has_a_table_for_each_device_of_its_newest_run():
    tool = loaded(TOOL)
    seeds = [training_run("bf16", 1.0 + seed, seed=seed) for seed in range(2)]
    on_gpu = [row | {"device": "NVIDIA H200", "large": True, "steps": 100} for row in seeds]
    later = [row | {"commit": "9876543210", "started": "2026-01-03T00:00:00Z"} for row in [*seeds, training_run("bf16", 5.0, seed=1)]]
    text = tool.training_table.text([*on_gpu, *seeds, *later], tool.table)
    assert [line for line in text.splitlines() if not line.startswith("|") and line] == [
        "CPU, 400 steps of the small model, commit 9876543, 2026-01-02:", "NVIDIA H200, 100 steps of the large model, commit 0123456, 2026-01-02:"]
    assert "bf16, 2 seeds | mean 3.0000" in text and "bf16, 2 seeds | mean 1.5000" in text
    assert "H200" not in tool.training_table.text(seeds, tool.table)


def test_shares_of_quantizers_are_those_of_the_newest_run():
    """training_share.py makes the lines from a profile, which names kernels as compiled."""
    tool, share = loaded(TOOL), loaded(ROOT / "benchmarks/training_share.py")
    profile = Counter({"tilewright::hopper::quantize<1>": 30.0, "N10tilewright6hopper15transpose_codesE": 10.0,
                       "void tilewright::hopper::gemm(x)": 150.04, "at::native::sgd": 10.0})  # fmt: skip
    line = share.line_of("1 x 2 -> 3", "row", profile, Counter({"tilewright::hopper::quantize<1>": 12.0}))
    assert line["us"] == 200.0 and line["share"] == 0.15 and line["reached"]
    assert [line[f"{name}_us"] for name in ("products", "quantizers", "of_weight", "copies", "torch")] == [150.0, 30.0, 12.0, 10.0, 10.0]
    run = {"microbatches": 1, "device": "NVIDIA H100", "started": "2026-01-02T03:04:05Z", **ORIGIN}
    older = line | run | {"us": 9.0, "started": "2026-01-01", "commit": "a" * 10, "copied_from": "a page"}
    lines = records.newest([older, line | run, line | run | {"recipe": "fold"}, line | run | {"us": 7.0, "microbatches": 4}])
    assert tool.steps_table.share(lines).splitlines() == [
        "NVIDIA H100. Commit 0123456, 2026-01-02.", "", "| layer: tokens x K -> N, or groups x tokens x K -> N | `row` | `fold` |", "|---|---|---|",
        "| 1 x 2 -> 3 | 200, 15 % | 200, 15 % |"]
    assert "copied from an older page" in tool.steps_table.share([older])


def test_the_readme_says_where_we_are_behind():
    tables = loaded(ROOT / "benchmarks/readme_tables.py")
    assert [tables.mean_and_worst(mean, 0.9) for mean in (1.06, 1.0, 0.996)] == ["1.06x (0.90x)", "1.00x (0.90x)", "1.00x (0.90x)"]
    assert tables.cell([1.0, 0.97]) == "**0.98x** (0.97x)"
    layers = {"8192 x 8 -> 8": True, "2048 x 8 -> 8": False, "8 x 2048 x 8 -> 8": True, "128 x 256 x 8 -> 8": False}
    assert {layer: tables.has_many_tokens(layer) for layer in layers} == layers


def test_tokens_of_the_readme_are_those_of_the_records():
    """A record has the rate and the time, from which its tokens follow."""
    tables = loaded(ROOT / "benchmarks/readme_tables.py")
    for product in tables.PRODUCTS:
        n, k = product.shape[-2:]
        for card in ("h200", "h100"):
            lines = (ROOT / f"benchmarks/results/{card}_{product.record}.jsonl").read_text().splitlines()
            row = tables.line_of(product, list(map(json.loads, lines)))
            assert row["tflops"] * row["us"] * 1e6 / (2 * n * k) == pytest.approx(tables.tokens(product), rel=1e-3), (product, card)
    assert tables.words_of(tables.PRODUCTS[0]) == "DeepSeek-V3, gate and up: 8 experts, 16,854 tokens, n 4096, k 7168"


def test_ratios_of_the_readme_are_those_of_each_card(results):
    """A card without a record has empty cells, and a row counts the shapes of those that have one."""
    tables = loaded(ROOT / "benchmarks/readme_tables.py")
    head = {"kind": "contest", "commit": "0123456789", "device": "NVIDIA H200", "clock": "events", "started": "1", "missing": {},
            "versions": {"deep_gemm": "2.6", "cuBLAS package": "13.1", "torch": "2.11"}}  # fmt: skip
    case = {"kind": "case", "started": "1", "op": "dense", "class": "ragged", "run": 1}
    lines = [head, *(case | {"shape": [m, 8, 16], "us": {"drop-in": 10.0, "native": 8.0, "DeepGEMM": us, "cuBLASLt tensor": 4.0}}
                     for m, us in ((72, 12.0), (73, 12.0)))]  # fmt: skip
    (results / "h200_contest.jsonl").write_text("\n".join(map(json.dumps, lines)))
    text = tables.ratios(records.record, records.has_record)
    assert "| dense, `peers-ragged`, m from 72 to 1,500: 2 shapes | DeepGEMM | 1.20x (1.20x) |  |" in text
    assert "| dense, both suites: 2 shapes | cuBLASLt, one scale per tensor: less work | **0.50x** (0.50x) |  |" in text
    assert text.endswith("Commits: H200: 0123456. Versions: DeepGEMM 2.6, cuBLAS 13.1, torch 2.11.") and "masked" not in text
