"""benchmarks/training_peers.py without torch and without a GPU: its sizes, clock, processes and tables."""

import json
import pathlib
import sys

import case_processes as processes
import device_clock
import pytest
import training_peers
import training_peers_table as tables
import training_sizes as sizes

ROOT = pathlib.Path(__file__).parents[2]


def test_the_products_are_three_models_experts_and_the_gradients_of_the_record():
    cases = sizes.fixed()
    of = {section: [case.shape for case in cases if case.section == section] for section in sizes.SECTIONS}
    assert of["forward"][:2] == [[8, 2048, 4096, 7168], [8, 2048, 7168, 2048]]
    assert of["dgrad"][:2] == [[8, 2048, 7168, 4096], [8, 2048, 2048, 7168]]
    assert len(of["forward"]) == len(of["dgrad"]) == 6
    recorded = [json.loads(line) for line in (ROOT / "benchmarks/results/h200_training.jsonl").read_text().splitlines()]
    assert of["wgrad"] == list(map(list, dict.fromkeys(tuple(row["shape"]) for row in recorded if row["op"] == "k_grouped_flat")))
    assert of["from-bf16"] == of["wgrad"][:4]
    assert max(shape[0] for shape in of["wgrad-other"]) == 128 and [128, 2048, 768, 512] in of["wgrad-other"]
    assert not of["wgrad-random"]


def test_tokens_are_drawn_as_the_program_draws_them():
    assert sum(sizes.drawn(300, 8, 1)) == 2465  # as tests/bench/peer_shapes_test.cpp has it
    case = next(case for case in sizes.fixed() if case.section == "wgrad")
    assert case.rounded(sizes.STEP) != case
    assert all(size % 16 == 0 for size in case.rounded(sizes.STEP).sizes)
    assert all(0 <= up - size < 128 for size, up in zip(case.sizes, case.rounded(128).sizes, strict=True))


def test_random_sizes_follow_from_the_seed_and_torch_takes_them():
    cases = sizes.random_cases(40, 5)
    assert cases == sizes.random_cases(40, 5) != sizes.random_cases(40, 6)
    assert cases[:3] == sizes.random_cases(3, 5)[:3]
    for case in cases:
        assert case.n % 16 == case.k % 16 == 0 and min(case.sizes) >= 1 and case.groups <= 128
        assert max(case.groups * case.n * case.k, case.tokens * max(case.n, case.k)) <= sizes.MOST_ELEMENTS
        assert sizes.from_json(json.loads(json.dumps([*case]))) == case
        assert sizes.words_of_case(case) == {"group_sizes": list(case.sizes)}


def test_options():
    assert training_peers.parsed(["--only", "wgrad,dgrad", "--quick"]).repeats == 3
    with pytest.raises(SystemExit):
        training_peers.parsed(["--only", "wgrads"])
    with pytest.raises(SystemExit):
        training_peers.parsed(["--only", "wgrad-random"])
    quick = training_peers.chosen(training_peers.parsed(["--quick", "--random", "3"]))
    assert [case.section for case in quick] == list(sizes.SECTIONS)
    assert quick[0] == sizes.fixed()[0]


class FakeGpu(device_clock.DeviceClock):
    """Each call runs as many kernels as its list says, as long as it says; a flush runs two, of a second each."""

    def __init__(self, repeats):
        self.repeats, self.flush_kernels, self.ran, self.lost = repeats, 2, [], 0

    def flush(self):
        self.ran += [10**9, 10**9]

    def kernels(self, function):
        self.ran = []
        function()
        return self.ran[: len(self.ran) - self.lost * (len(self.ran) > 10)]


def test_calls_take_turns_and_their_medians_count():
    clock = FakeGpu(3)
    order = []
    times = {"ours": iter([[1, 1]] * 2 + [[1000, 500], [3000, 500], [2000, 500]]), "theirs": iter([[7]] * 2 + [[5000], [7000], [1000]])}

    def call(name):
        order.append(name)
        clock.ran += next(times[name])

    assert clock.medians([lambda: call("ours"), lambda: call("theirs")]) == [2.5, 5.0]
    assert order == ["ours", "theirs"] * 2 + ["ours", "theirs"] * 3  # once to warm up, once to count kernels


def test_a_profiler_that_loses_kernels_is_seen():
    clock = FakeGpu(3)
    clock.lost = 1
    with pytest.raises(device_clock.ClockError, match="saw 14 kernels in 3 rounds and not 15"):
        clock.medians([lambda: clock.ran.extend([4, 4, 4])])
    with pytest.raises(device_clock.ClockError, match="of the calls alone"):
        FakeGpu(3).medians([lambda: None])


CASES = [case for case in sizes.fixed() if case.section in ("forward", "wgrad")][:3]


def line(key, us=1.0, section="forward", shape=(1, 2, 3, 4), **other):
    return {"key": key, "peer": f"the {key}", "section": section, "shape": list(shape), "us": us, **other}


def said(number, *keys, ends=True):
    """The output of a process for a case whose contestants succeed."""
    yield from ({"event": "begins", "case": number, "key": key, "peer": f"the {key}"} for key in keys)
    yield {"event": "begins", "case": number, "key": processes.IN_TURN, "peer": ""}
    yield from ({"event": "line", "case": number, "line": line(key)} for key in keys)
    if ends:
        yield {"event": "ended", "case": number}


def run(answers):
    """The lines that are recorded, and what each process was told."""
    recorded, orders = [], []

    def events(order):
        orders.append(json.loads(json.dumps(order)))
        yield from answers(orders[-1])

    processes.run(dict(enumerate(CASES)), {"device": "none"}, lambda number, line: recorded.append({"case": number, **line}), events)
    return recorded, orders


def test_a_contestant_that_ends_the_process_is_left_out_and_costs_nothing_else():
    def answers(order):
        for number, _ in order["cases"]:
            if number == 1 and "theirs" not in order["without"].get("1", []):
                yield {"event": "begins", "case": 1, "key": "ours", "peer": "the ours"}
                yield {"event": "line", "case": 1, "line": {"key": "absent", "peer": "x", "failed": "not there"}}
                yield {"event": "begins", "case": 1, "key": "theirs", "peer": "the theirs"}
                yield {"event": "process ended", "why": "its process ended with code -11"}
                return
            yield from said(number, "ours", *(["theirs"] if number != 1 else []))

    recorded, orders = run(answers)
    assert [(entry["key"], entry.get("failed")) for entry in recorded] == [
        ("ours", None), ("theirs", None), ("absent", "not there"), ("theirs", "its process ended with code -11"), ("ours", None),
        ("ours", None), ("theirs", None)]  # fmt: skip
    assert recorded[3]["peer"] == "the theirs" and recorded[3]["case"] == 1
    assert [[number for number, _ in order["cases"]] for order in orders] == [[0, 1, 2], [1, 2]]
    assert orders[1]["without"] == {"1": ["theirs"]} and orders[1]["device"] == "none"


def test_a_case_that_ends_the_process_while_all_take_turns_is_left_out():
    def answers(order):
        for number, _ in order["cases"]:
            yield from said(number, "ours", ends=number != 0)
            if number == 0:
                yield {"event": "process ended", "why": "nothing for 120 s, ended"}
                return

    recorded, orders = run(answers)
    assert [entry["key"] for entry in recorded] == ["ours", processes.IN_TURN, "ours", "ours"]
    assert len(orders) == 2 and orders[1]["without"] == {}


def test_where_nothing_can_be_measured_the_reason_is_told():
    with pytest.raises(processes.ProcessError, match="ended with code 1"):
        run(lambda order: [{"event": "process ended", "why": "its process ended with code 1"}])


@pytest.mark.parametrize(
    ("program", "why"),
    [("import os; os.abort()", "its process ended with code -6"), ("import time; time.sleep(60)", "nothing for 1 s, ended")],
)
def test_a_real_process_that_dies_or_is_silent(program, why, tmp_path):
    path = tmp_path / "contest"
    path.write_text(f"import json, sys; order = json.load(sys.stdin); print(json.dumps({{'event': order['say']}}), flush=True); {program}")
    words = [sys.executable, str(path)]
    assert list(processes.events_of({"say": "x"}, words, silence=1.0)) == [{"event": "x"}, {"event": "process ended", "why": why}]


ROWS = [
    line("tensor", 100.0, weights="A, down"), line("torch row", 120.0, weights="A, down"),
    line("tensor", 100.0, shape=(5, 6, 7, 8)), line("torch row", 110.0, shape=(5, 6, 7, 8)),
    line("tensor", 50.0, shape=(9, 9, 9, 9)), {"key": "torch row", "peer": "torch 0", "section": "forward", "shape": [9, 9, 9, 9], "failed": "no such"},
    line("row", 10.0, "wgrad"), line("torch row", 9.0, "wgrad"),
    *({"key": key, "peer": "DeepGEMM", "section": "wgrad", "shape": [1, 2, 3, 4], "failed": "not there"} for key in ("1d1d x",)),
]  # fmt: skip


def test_speeds_and_targets():
    (verdict,) = tables.verdicts(ROWS, "forward")
    assert verdict.speeds == {"A, down 1 x 2 x 3 x 4": 1.2, "5 x 6 x 7 x 8": 1.1}
    assert round(verdict.geomean, 4) == 1.1489 and verdict.is_missed
    assert verdict.words() == ("tensor against torch row: 1.149 in the geometric mean of 2, worst 1.100 at 5 x 6 x 7 x 8; "
                               "target 1.15: missed, 1 below it")
    again = tables.verdicts([*ROWS, line("torch row", 121.0, weights="A, down")], "forward")[0]
    assert not again.is_missed and "target 1.15: reached, 1 below it" in again.words()
    row, blocks = tables.verdicts(ROWS, "wgrad")
    assert not row.is_missed and row.words().endswith("worst 0.900 at 1 x 2 x 3 x 4")
    assert blocks.words() == "1d1d against DeepGEMM 1d1d: nothing to compare" and not blocks.is_missed


def test_tables_name_who_is_missing():
    text = tables.text(ROWS)
    assert text.splitlines()[:4] == [
        "forward, 8 groups of about 2,048 tokens  tensor, us  torch row, us  tensor / torch row",
        "A, down 1 x 2 x 3 x 4                         100.0          120.0               1.200",
        "5 x 6 x 7 x 8                                 100.0          110.0               1.100",
        "9 x 9 x 9 x 9                                  50.0"]
    assert "  torch 0 not measured: no such (9 x 9 x 9 x 9)" in text
    assert "  DeepGEMM not measured: not there\n" not in text and text.endswith("  DeepGEMM not measured: not there")


def test_the_page_has_a_table_for_each_section():
    assert tables.page([], "") == ""
    text = tables.page([row | {"device": "NVIDIA H200"} for row in ROWS], "Commit 0123456, 2026-01-02.")
    assert text.startswith("## Training products against live peers\n\nCommit 0123456, 2026-01-02. NVIDIA H200.")
    assert "| 5 x 6 x 7 x 8 | 100.0 | 110.0 | 1.100 |" in text and "- DeepGEMM not measured: not there." in text
    only_failures = tables.page([ROWS[-1] | {"device": "x"}], "")
    assert "|---" not in only_failures and "- DeepGEMM not measured" in only_failures
