"""benchmarks/contest.py without torch and without a GPU: its cases, clock, record, tables, and processes that end."""

import functools
import json
import pathlib
import sys

import case_processes
import contest
import contest_cases as cases
import contest_table as tables
import device_clock
import model_layers
import pytest
import user_sizes

ROOT = pathlib.Path(__file__).parents[2]
SEED = 20261127


def test_the_lists_are_those_of_the_peers_in_the_classes_of_the_targets():
    counts = {name: sum(case.shape_class == name for case in cases.listed()) for name in cases.CLASSES}
    assert counts == {"few": 12, "1024": 6, "4096": 7, "ragged": 40, "contiguous": 13, "masked": 17, "random": 0, "models": 0}
    targets = [of.target for of in cases.CLASSES.values()]
    assert targets == [1.06, 1.06, 1.00, 1.23, 1.06, 1.05, None, None] and cases.WORST == 0.95


def test_groups_of_the_lists_have_the_sizes_of_the_program():
    # tests/bench/peer_shapes_test.cpp has the same sums.
    assert sum(cases.group_rows("contiguous", (8, 300, 4096, 7168))) == 2465
    assert sum(cases.group_rows("masked", (64, 128, 12, 4096, 1536))) == 763
    assert cases.group_rows("dense", (72, 8, 16)) == [72]


@pytest.mark.parametrize("operation", cases.OPERATIONS)
def test_random_sizes_are_those_of_the_program(operation):
    recorded = {}
    for line in (ROOT / "benchmarks/results/h200_random.jsonl").read_text().splitlines():  # `tilewright tune --random 60 --seed 8`
        row = json.loads(line)
        if row["op"] == cases.OPERATIONS[operation]:
            recorded[tuple(row["shape"])] = row.get("group_sizes")
    mine = [cases.random_case(operation, sizes) for sizes in user_sizes.random_sizes(operation, 20, 8)]
    for case, (shape, rows) in zip(mine, recorded.items(), strict=False):
        assert tuple(case.shape) == shape
        assert rows is None or case.rows == rows


def test_random_cases_follow_from_the_seed():
    drawn = [*cases.random_cases(7, SEED)]
    assert drawn == [*cases.random_cases(7, SEED)] != [*cases.random_cases(7, SEED + 1)]
    assert [case.operation for case in drawn] == ["dense"] * 3 + ["contiguous"] * 2 + ["masked"] * 2
    assert "group_sizes" not in drawn[0].fields and drawn[-1].fields["group_sizes"] == drawn[-1].rows


def test_models_have_the_layers_of_their_configurations():
    assert len(model_layers.MODELS) == 12
    of = {model.name: {(layer.n, layer.k) for layer in model_layers.layers(model)} for model in model_layers.MODELS}
    # As src/bench/shapes.cpp has them.
    assert of["DeepSeek-V3"] > {(2112, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048)}
    assert of["Qwen3-235B-A22B"] == {(9216, 4096), (4096, 8192), (3072, 4096), (4096, 1536)}
    assert of["gpt-oss-120b"] == {(5120, 2880), (2880, 4096), (5760, 2880), (2880, 2880)}
    assert of["Llama-3.1-70B"] == {(10240, 8192), (8192, 8192), (57344, 8192), (8192, 28672)}
    made = [*cases.model_cases()]
    keys = [(case.operation, *case.shape) for case in made]
    assert len(keys) == len(set(keys)) and {case.operation for case in made} == set(cases.OPERATIONS)
    experts = next(case for case in made if case.name == "DeepSeek-V3, gate and up" and case.operation == "contiguous")
    assert experts.shape == [32, 256, 4096, 7168] and len(experts.rows) == 32  # 8,192 tokens x 8 / 256 experts
    for case in made:
        assert min(case.rows) >= 1 and case.n * case.k * len(case.rows) < 2 << 30
        assert case.operation != "masked" or max(case.rows) <= case.shape[1]


def test_cases_are_chosen_and_travel():
    arguments = contest.parsed(["--only", "masked,random", "--limit", "2", "--random", "6", "--seed", str(SEED)])
    chosen = contest.chosen(arguments)
    assert [case.shape_class for case in chosen] == ["masked"] * 2 + ["random"] * 2
    assert [cases.from_json(json.loads(json.dumps([*case]))) for case in chosen] == chosen
    with pytest.raises(SystemExit):
        contest.parsed(["--only", "mask"])
    assert 20260101 < contest.parsed([]).seed < 21000101
    small = [cases.smaller(case) for case in cases.all_cases(6, SEED)]
    assert all(case.n * case.k * len(case.rows) <= 1 << 22 and sum(case.rows) <= 300 for case in small)


def test_a_dry_run_lists_all_cases(capsys):
    assert contest.main(["--dry-run", "--seed", str(SEED)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["class", "operation", "shape", "rows", "weights"]
    assert lines[-1].startswith(f"263 cases, seed {SEED}: 12 dense m = 64, 128; 6 dense m = 1024;") and len(lines) == 266
    with pytest.raises(SystemExit):
        contest.main(["--help"])
    assert "contest.py --only few,1024 --json FILE" in capsys.readouterr().out


class FakeEvent:
    def __init__(self, clock):
        self.clock = clock

    def record(self):
        self.at = self.clock.now

    def elapsed_time(self, other):
        return other.at - self.at


class FakeEvents(device_clock.EventClock):
    """A GPU on which a flush takes a second."""

    def __init__(self, repeats):
        self.repeats, self.now, self.order = repeats, 0.0, []

    def event(self):
        return FakeEvent(self)

    def flush(self):
        self.order.append("flush")
        self.now += 1000.0

    def synchronize(self):
        self.order.append("synchronize")


def test_events_time_calls_in_turns_without_the_flush():
    clock = FakeEvents(3)
    milliseconds = {"ours": iter([9, 1, 3, 2]), "theirs": iter([9, 5, 7, 8])}

    def call(name):
        clock.order.append(name)
        clock.now += next(milliseconds[name])

    assert clock.medians([lambda: call("ours"), lambda: call("theirs")]) == pytest.approx([2000.0, 7000.0])  # microseconds
    assert clock.order == ["flush", "ours", "flush", "theirs"] * 4 + ["synchronize"]


class FakeProfiler(device_clock.KernelClock):
    """A GPU on which a flush has two kernels, of which some are lost."""

    def __init__(self, repeats, lost=0):
        self.repeats, self.lost, self.flush_kernels, self.last_of_flush, self.ran = repeats, lost, 2, "max", []

    def flush(self):
        self.ran += [("fill", 10**9), ("max", 10**9)]

    def recorded(self, function):
        self.ran = []
        function()
        return self.ran[self.lost :]


def test_a_profile_is_split_at_the_flushes():
    clock = FakeProfiler(3)
    kernels = {"ours": iter([[9], [1000, 500], [3000], [2000, 500]]), "theirs": iter([[9], [5000], [7000], [1000]])}

    def call(name):
        clock.ran += [("fill", ns) for ns in next(kernels[name])]  # also what the flush has

    assert clock.medians([lambda: call("ours"), lambda: call("theirs")]) == [2.5, 5.0]
    with pytest.raises(device_clock.ClockError, match="saw 2 flushes and not 3"):
        FakeProfiler(3, lost=2).medians([lambda: None])
    with pytest.raises(device_clock.ClockError, match="3 of them without a call"):
        FakeProfiler(3).medians([lambda: None])


# One class of two shapes, and one of a masked shape, each in three runs.
FEW = [{"class": "few", "op": "dense", "shape": [64, n, 512]} for n in (128, 256)]
MASKED = {"class": "masked", "op": "m_grouped_masked", "shape": [2, 64, 8, 128, 512]}


def case_lines(started="1"):
    def line(run, fields, drop_in, **others):
        return {"kind": "case", "started": started, "run": run, **fields, "us": {"drop-in": drop_in, **others}}

    for run, (first, second, third) in enumerate([(1.10, 0.90, 1.0), (1.30, 0.96, 1.1), (1.20, 0.97, 1.2)], 1):
        yield line(run, FEW[0], 10.0, DeepGEMM=10 * first, native=8.0, **{"cuBLASLt tensor": 9.0})
        yield line(run, FEW[1], 10.0, DeepGEMM=10 * second, native=10.0)
        yield line(run, MASKED, 20.0, DeepGEMM=20 * third)


def head(started="1", commit="0123456789", **other):
    return {"kind": "contest", "started": started, "commit": commit, "date": "2026-01-02", "device": "NVIDIA H100", "versions": {"torch": "2.11", "deep_gemm": None},
            "clock": "CUDA events", "peers": {}, "missing": {}, **other}  # fmt: skip


def test_the_median_of_three_runs_counts_for_each_shape():
    record = tables.newest([head(), *case_lines()])
    few, masked = tables.results(record.shapes)
    assert few.speeds == pytest.approx({"dense 64 x 128 x 512": 1.20, "dense 64 x 256 x 512": 0.96})
    assert few.runs == masked.runs == 3 and few.below(0.98) == 1 and few.below(0.95) == 0
    assert tables.geomean([*few.speeds.values()]) == pytest.approx(1.0733, abs=1e-4)
    assert few.result == "reached" and masked.result == "reached"  # 1.06 and 1.05
    assert not tables.is_missed(record.shapes) and tables.is_judged(record.shapes)
    slower = [line | {"us": line["us"] | {"DeepGEMM": line["us"]["DeepGEMM"] * 0.98}} for line in case_lines()]
    few, masked = tables.results(tables.newest([head(), *slower]).shapes)
    assert few.result == "missed" and few.below(0.95) == 1 and masked.result == "reached"
    assert tables.slow_shapes(few.shapes) == ["dense 64 x 256 x 512: 0.941 (runs 0.882, 0.941, 0.951)"]


def test_a_mean_below_its_target_is_missed_although_no_shape_is_slow():
    lines = [line | {"us": {"drop-in": 10.0, "DeepGEMM": 10.4}} for line in case_lines()]
    few, masked = tables.results(tables.newest([head(), *lines]).shapes)
    assert few.is_missed and masked.is_missed and few.below(0.98) == 0


def test_tables_are_aligned_and_say_who_was_there():
    record = tables.newest([head(missing={"torch rows": "torch 2.11 has no _scaled_mm"}), *case_lines()])
    text = tables.text(record)
    assert text.splitlines() == [
        "NVIDIA H100, commit 0123456, 2026-01-02. torch 2.11, deep_gemm not installed.",
        "Clock: CUDA events.",
        "",
        "Speed of the drop-in, in times of DeepGEMM's",
        "class              with DeepGEMM  runs   mean  target  worst                             at  < 0.98  < 0.95  targets",
        "dense m = 64, 128            2/2     3  1.073    1.06  0.960           dense 64 x 256 x 512       1       0  reached",
        "masked                       1/1     3  1.100    1.05  1.100  masked 2 x 64 x 8 x 128 x 512       0       0  reached",
        "",
        "Speeds against every peer: geometric mean, and in how many shapes both were",
        "class              native / DeepGEMM  drop-in / DeepGEMM  drop-in / cuBLASLt tensor  drop-in / cuBLASLt blocks  drop-in / torch rows",
        "dense m = 64, 128        1.200 (2/2)         1.073 (2/2)                0.900 (1/2)              missing (0/2)         missing (0/2)",
        "masked                 missing (0/1)         1.100 (1/1)               no such call               no such call          no such call",
        "",
        "torch rows is missing: torch 2.11 has no _scaled_mm",
    ]


def test_without_deep_gemm_nothing_is_judged():
    lines = [line | {"us": {"drop-in": 10.0}} for line in case_lines()]
    record = tables.newest([head(missing={"DeepGEMM": "DeepGEMM cannot be imported: none"}), *lines])
    assert [each.result for each in tables.results(record.shapes)] == ["not judged"] * 2
    assert contest.verdict(record) == 1
    text = tables.text(record)
    assert "DeepGEMM is missing: DeepGEMM cannot be imported: none" in text and "0/2" in text


def test_a_record_is_the_newest_commit_with_all_its_parts():
    other = [line | {"us": {"drop-in": 1.0, "DeepGEMM": 9.0}} for line in case_lines("0")]
    parts = [head("0", commit="x"), *other, head("1"), *[line for line in case_lines("1") if line["run"] < 3], head("2"), *case_lines("2")]
    record = tables.newest(parts)
    assert len(record.heads) == 2 and [len(each.runs) for each in record.shapes] == [5, 5, 5]
    assert record.shapes[0].speeds("drop-in", "DeepGEMM") == pytest.approx([1.1, 1.3, 1.1, 1.3, 1.2])
    one = tables.newest([head(), *[line for line in case_lines() if line["run"] == 1]])
    assert tables.few_runs(one.shapes) == ["Some classes have 1 of the 3 runs whose median the targets are for"]


def test_a_page_has_nothing_without_a_record():
    assert tables.page(lambda name: False, lambda name: [], "h100_contest") == ""
    text = tables.page(lambda name: True, lambda name: [head(), *case_lines()], "h100_contest")
    assert text.startswith("## All contestants in one run\n\nNVIDIA H100, commit 0123456, 2026-01-02, by `make gpu-contest`.")
    assert "| dense m = 64, 128 | 2/2 | 3 | 1.073 | 1.06 | 0.960 | dense 64 x 256 x 512 | 1 | 0 | reached |" in text


# A process that measures without torch. Its contestants: DeepGEMM is missing in `missing`; it ends the process in the second case
# in `abort`, while results are checked, and in `abort while timed`.
WORKER = """
import json, os, sys

order, kind = json.load(sys.stdin), sys.argv[1]

def say(**event):
    print(json.dumps(event), flush=True)

if kind == "no GPU":
    sys.exit("no GPU")
say(event="machine", device="fake", versions={"torch": None})
for number, (of_class, name, operation, shape, rows) in order["cases"]:
    say(event="begins", case=number, key="all in turn", peer="all in turn")
    ready = []
    for key in ("drop-in", "native", "DeepGEMM"):
        if key in order["without"].get(str(number), []):
            continue
        say(event="begins", case=number, key=key, peer="the " + key)
        if key == "DeepGEMM" and number == 1 and kind == ("abort" if order["task"] == "check" else "abort while timed"):
            os.abort()
        if key == "DeepGEMM" and kind == "missing" or key == "native" and kind == "wrong":
            say(event="line", case=number, line={"key": key, "peer": "the " + key, "failed": "it is " + kind})
        else:
            ready.append(key)
            if order["task"] == "check":
                say(event="line", case=number, line={"key": key, "peer": "the " + key, "difference": 0.0})
    if order["task"] == "time":
        say(event="begins", case=number, key="all in turn", peer="all in turn")
        for key in ready:
            say(event="line", case=number, line={"key": key, "peer": "the " + key, "us": {"drop-in": 10.0, "native": 9.0, "DeepGEMM": 13.0}[key]})
    say(event="ended", case=number)
"""


@pytest.fixture
def live(tmp_path, monkeypatch):
    """Runs the contest over four cases of two classes. Returns its exit code and its record."""
    program, record = tmp_path / "worker", tmp_path / "record.jsonl"
    program.write_text(WORKER)
    monkeypatch.setattr(contest, "origin", lambda: {"commit": "0123456789", "date": "2026-01-02", "started": "1", "command": "benchmarks/contest.py"})
    monkeypatch.setattr(contest, "card_state", dict)

    def run(kind, *words):
        events = functools.partial(case_processes.events_of, program=[sys.executable, str(program), kind])
        given = ["--only", "few,masked", "--limit", "2", "--processes", "2", "--random", "0", "--json", str(record), *words]
        code = contest.main(given, events)
        return code, [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []

    return run


def test_a_record_names_the_card_the_commit_the_versions_and_the_clock(live, capsys):
    code, (first, *rows) = live("all there")
    assert code == 0
    assert first["kind"] == "contest" and first["device"] == "fake" and first["versions"] == {"torch": None}
    assert first["clock"].startswith("CUDA events around each call; the median of 12 calls in turns, each after a flush of L2")
    assert {"commit", "date", "started", "command", "runs", "seed", "cases"} <= set(first)
    assert first["missing"] == {} and first["peers"] == {key: f"the {key}" for key in ("drop-in", "native", "DeepGEMM")}
    assert [row["run"] for row in rows] == [1] * 4 + [2] * 4 + [3] * 4
    assert rows[0] == {"kind": "case", "started": first["started"], "run": 1, "class": "few", "op": "dense", "shape": [64, 2112, 7168],
                       "us": {"drop-in": 10.0, "native": 9.0, "DeepGEMM": 13.0}}  # fmt: skip
    out = capsys.readouterr().out
    assert out.count("all right") == 4 and out.count("x1.300") == 12 and "run 2 of 3   1/4  few" in out
    record = tables.newest([first, *rows])
    assert tables.text(record) in out and tables.few_runs(record.shapes) == []


def test_a_missing_peer_is_named_in_the_output_and_in_the_record(live, capsys):
    code, (first, *rows) = live("missing")
    assert code == 1  # nothing is judged
    assert first["missing"] == {"DeepGEMM": "it is missing"} and len(rows) == 12
    assert all(set(row["us"]) == {"drop-in", "native"} and "failed" not in row for row in rows)
    assert "DeepGEMM is missing: it is missing" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["abort", "abort while timed"])
def test_a_process_that_ends_costs_one_contestant_of_one_case(live, capsys, kind):
    code, (first, *rows) = live(kind)
    assert code == 0 and first["missing"] == {} and len(rows) == 12
    without = [row for row in rows if "DeepGEMM" not in row["us"]]
    assert [row["shape"] for row in without] == [[64, 24576, 1536]] * 3
    assert all(row["failed"] == {"DeepGEMM": "its process ended with code -6"} for row in without)
    assert "DeepGEMM not measured: its process ended with code -6. 1 in all: dense 64 x 24576 x 1536" in capsys.readouterr().out


def test_a_wrong_result_of_ours_fails_the_contest(live):
    code, (first, *rows) = live("wrong", "--runs", "1")
    assert code == 1 and len(rows) == 4 and first["missing"] == {"native": "it is wrong"}


def test_where_there_is_no_checkout_the_commit_is_told(live, monkeypatch):
    monkeypatch.setattr(contest, "origin", lambda: {"commit": "", "date": "2026-01-02", "started": "1", "command": "benchmarks/contest.py"})
    _, (first, *_) = live("all there", "--runs", "1", "--commit", "abcdef0123")
    assert first["commit"] == "abcdef0123"


def test_without_a_gpu_nothing_is_recorded(live, capsys):
    assert live("no GPU") == (2, [])
    assert "contest: nothing can be measured: its process ended with code 1" in capsys.readouterr().err


def test_parts_of_a_record_have_one_table(live, tmp_path, capsys):
    live("all there", "--only", "few", "--runs", "1")
    capsys.readouterr()
    assert contest.main(["--table", str(tmp_path / "record.jsonl")]) == 0
    text = capsys.readouterr().out
    assert "dense m = 64, 128" in text and "Some classes have 1 of the 3 runs" in text
