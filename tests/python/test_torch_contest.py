"""The contestants of benchmarks/contest.py on the CPU: results are right, wrong ones are seen, and DeepGEMM's functions get the
drop-in's operands."""

import functools
import json
import pathlib
import types

import pytest

torch = pytest.importorskip("torch")
our_deep_gemm = pytest.importorskip("tilewright.deep_gemm")
import contest_calls as calls  # noqa: E402
import contest_worker as worker  # noqa: E402
from contest_cases import PEERS, Case  # noqa: E402
from training_contestant import MissingError  # noqa: E402

ROOT = pathlib.Path(__file__).parents[2]
CASES = {
    "dense": Case("few", "", "dense", [5, 16, 144], [5]),
    "contiguous": Case("contiguous", "", "contiguous", [3, 20, 16, 256], [17, 1, 30]),
    "masked": Case("masked", "", "masked", [3, 32, 20, 16, 256], [17, 0, 30]),
}
FUNCTIONS = {"dense": "fp8_gemm_nt", "contiguous": "m_grouped_fp8_gemm_nt_contiguous", "masked": "fp8_m_grouped_gemm_nt_masked"}


def forget():
    calls.found_deep_gemm.cache_clear()
    calls.deep_gemm_version.cache_clear()


@pytest.fixture
def deep_gemm(monkeypatch):
    """A DeepGEMM of the drop-in's functions. Returns the names of its calls."""
    called = []

    def noted(name):
        def function(*operands, compiled_dims):
            assert compiled_dims == "nk"
            called.append(name)
            getattr(our_deep_gemm, name)(*operands)

        return function

    module = types.SimpleNamespace(__version__="9.9", **{name: noted(name) for name in FUNCTIONS.values()})
    monkeypatch.setattr(calls, "deep_gemm", lambda: module)
    forget()
    yield called
    forget()


@pytest.mark.parametrize("operation", CASES)
def test_results_are_checked(operation, deep_gemm):
    contest = calls.Contest(CASES[operation], "cpu")
    made = {key: (peer, make) for key, peer, make in contest.contestants()}
    assert [*made] == [calls.DROP_IN, calls.NATIVE, *PEERS[operation]]
    assert made[calls.DEEP_GEMM][0] == "DeepGEMM 9.9"
    for key in (calls.DROP_IN, calls.NATIVE, calls.DEEP_GEMM):
        contestant = made[key][1]()
        assert not contestant.error() < calls.MOST_DIFFERENCE  # before the call, D is not a number
        contestant.call()
        assert contestant.error() < 1e-4, key
        contestant.result()[..., 3] *= 2
        assert contestant.error() > calls.MOST_DIFFERENCE, key
    assert deep_gemm == [FUNCTIONS[operation]]


def test_operands_are_those_of_deep_gemms_callers():
    for operation, case in CASES.items():
        call = calls.Contest(case, "cpu").call
        assert call.a_scales.stride(-2) == 1
        if operation == "contiguous":
            assert call.output(*call.lead).shape == (3 * 128, case.n)
            assert int((call.sizes == -1).sum()) == 3 * 128 - sum(case.rows)
    _, d = calls.Contest(CASES["contiguous"], "cpu").call.by_exact_ends()
    assert d.shape == (sum(CASES["contiguous"].rows), CASES["contiguous"].n)


def of_torch(monkeypatch, operation, name, function):
    """The contestant that calls torch's `name`, which computes the product by `function` here."""
    monkeypatch.setattr(torch, name, function, raising=False)
    return {key: make for key, _, make in calls.Contest(CASES[operation], "cpu").contestants()}


def scaled_mm(a, b, *, scale_a, scale_b, out_dtype, use_fast_accum):
    """torch._scaled_mm with scales per tensor, row, or block of 128."""

    def wide(scales, like):
        for dim in (0, 1) if scales.dim() else ():
            if scales.shape[dim] not in (1, like.shape[dim]):
                scales = scales.repeat_interleave(128, dim=dim).narrow(dim, 0, like.shape[dim])
        return like.float() * scales

    assert out_dtype == torch.bfloat16 and a.is_contiguous() and b.T.is_contiguous()
    return (wide(scale_a, a) @ wide(scale_b, b)).to(out_dtype)


@pytest.mark.parametrize("key", ["cuBLASLt tensor", "cuBLASLt blocks", "torch rows"])
def test_torch_gets_scales_of_each_kind(key, monkeypatch):
    contestant = of_torch(monkeypatch, "dense", "_scaled_mm", scaled_mm)[key]()
    contestant.call()
    assert contestant.error() < 1e-4


def test_torchs_grouped_product_gets_groups_without_padding(monkeypatch):
    def grouped(a, b, a_scales, b_scales, *, offs, out_dtype, use_fast_accum):
        assert offs.tolist() == [17, 18, 48] and a.shape == (48, 256) and b.shape == (3, 256, 16)
        ends = offs[:-1].long()
        parts = zip(a.float().tensor_split(ends), a_scales.tensor_split(ends), b.float(), b_scales, strict=True)
        return torch.cat([(x * s[:, None]) @ (w * t) for x, s, w, t in parts]).to(out_dtype)

    contestant = of_torch(monkeypatch, "contiguous", "_scaled_grouped_mm", grouped)["torch rows"]()
    contestant.call()
    assert contestant.error() < 1e-4


def test_deep_gemm_that_is_the_drop_in_is_missing(monkeypatch):
    monkeypatch.setattr(calls, "deep_gemm", lambda: our_deep_gemm)
    forget()
    with pytest.raises(MissingError, match="the module deep_gemm is tilewright.deep_gemm"):
        calls.live_deep_gemm()
    assert calls.deep_gemm_version() is None
    forget()


class Clock:
    def medians(self, of_calls):
        for call in of_calls:
            call()
        return [1.00049] * len(of_calls)


def events_of(task, without=()):
    events = []
    contest = calls.Contest(CASES["masked"], "cpu")
    worker.measure(contest, list(without), task, "cpu", Clock(), events.append)
    return events


def test_the_worker_names_who_is_missing_and_times_the_others():
    checked = [event["line"] for event in events_of("check") if event["event"] == "line"]
    assert [line["key"] for line in checked] == ["drop-in", "native", "DeepGEMM"]
    assert checked[0]["difference"] < 1e-4 and checked[2]["failed"].startswith("DeepGEMM cannot be imported")
    timed = [event["line"] for event in events_of("time", ["DeepGEMM"]) if event["event"] == "line"]
    assert [(line["key"], line["us"]) for line in timed] == [("drop-in", 1.0), ("native", 1.0)]


def test_a_fault_that_leaves_the_gpu_unusable_is_nobodys(monkeypatch):
    def unusable(device):
        raise SystemExit(3)

    class Broken:
        def medians(self, of_calls):
            monkeypatch.setattr(worker, "require_usable", unusable)
            raise RuntimeError("an illegal memory access was encountered")

    events = []
    with pytest.raises(SystemExit):
        worker.measure(calls.Contest(CASES["masked"], "cpu"), ["DeepGEMM"], "time", "cpu", Broken(), events.append)
    assert events[-1]["event"] == "begins" and events[-1]["key"] == "all in turn"


def test_the_machine_has_versions_and_no_paths():
    machine = json.loads(json.dumps(worker.machine("cpu")))
    assert machine["device"] == "CPU" and machine["versions"]["torch"] == torch.__version__
    assert machine["versions"]["deep_gemm"] is None and str(ROOT) not in json.dumps(machine)


def test_all_phases_on_the_cpu(monkeypatch, tmp_path, capsys):
    """In this process, which saves the import of torch in others."""
    import contest

    def events(order):
        said = []
        monkeypatch.setattr(worker.sys, "stdin", types.SimpleNamespace(read=lambda: json.dumps(order)))
        monkeypatch.setattr(worker, "print", lambda text, **_: said.append(json.loads(text)), raising=False)
        out = worker.sys.stdout
        try:
            worker.main()
        finally:
            worker.sys.stdout = out
        return iter([*said, {"event": "process ended", "why": "its process ended with code 0"}])

    record = tmp_path / "record.jsonl"
    words = ["--device", "cpu", "--only", "few,contiguous,masked", "--limit", "1", "--random", "0", "--processes", "1", "--runs", "1", "--repeats", "1",
             "--json", str(record)]  # fmt: skip
    assert contest.main(words, functools.partial(events)) == 1  # nothing is judged without DeepGEMM
    head, *rows = [json.loads(line) for line in record.read_text().splitlines()]
    assert head["device"] == "CPU" and head["missing"]["DeepGEMM"].startswith("DeepGEMM cannot be imported") and "dirty" not in head["clock"]
    assert len(rows) == 3 and all({"drop-in", "native"} <= set(row["us"]) for row in rows)
    assert "DeepGEMM is missing" in capsys.readouterr().out
