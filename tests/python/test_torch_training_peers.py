"""The contests of benchmarks/training_peers.py on the CPU: what is called is right, wrong results and missing peers are named, and
torch's and DeepGEMM's functions get what they ask for."""

import json
import pathlib
import subprocess
import sys
import types

import device_clock
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tilewright.torch")
import tilewright  # noqa: E402
import training_contest as contest  # noqa: E402
import training_contestant as contestant  # noqa: E402
import training_gradients as gradients  # noqa: E402
from training_sizes import Case  # noqa: E402

ROOT = pathlib.Path(__file__).parents[2]
SIZES = (40, 1, 129)
OURS = {"forward": ["tensor", "row"], "dgrad": ["tensor", "row"], "wgrad": ["row", "row, any tokens", "1d1d"],
        "from-bf16": ["fold", "fold, layer", "1x128:128x128", "1x128:128x128, layer"]}  # fmt: skip
needs_fp8 = pytest.mark.skipif(not hasattr(torch, "float8_e4m3fn"), reason="torch has no fp8")


class Clock:
    repeats = 2

    def medians(self, calls):
        return [float(i + 1) for i, call in enumerate(calls) for _ in [call()]]


def case(section, sizes=SIZES):
    return Case(section, "weights", 32, 144, sizes, sum(sizes) // len(sizes))


def measured(a_case, without=()):
    events = []
    contest.measure(a_case, "cpu", Clock(), events.append, list(without))
    return {event["line"]["key"]: event["line"] for event in events if event["event"] == "line"}, events


@pytest.mark.parametrize("section", OURS)
def test_our_calls_are_right(section):
    lines, events = measured(case(section))
    assert [key for key, line in lines.items() if "us" in line and not key.startswith("torch")] == OURS[section]
    limit = 0.05 if section == "from-bf16" else 3e-3
    assert all(0 <= lines[key]["relative_error"] < limit for key in OURS[section])
    first = lines[OURS[section][0]]
    rounded = {"wgrad": 48 + 16 + 144, "from-bf16": 128 + 128 + 256}.get(section, sum(SIZES))
    assert first["us"] == 1.0 and first["calls"] == 2 and first["weights"] == "weights"
    assert first["tflops"] == round(2 * rounded * 32 * 144 / 1e6, 1)
    assert first["shape"] == {"forward": [3, 56, 32, 144], "dgrad": [3, 56, 144, 32]}.get(section, [3, 32, 144, 56])
    assert [event["key"] for event in events if event["event"] == "begins"][-1] == contest.IN_TURN


@pytest.mark.parametrize("section", OURS)
def test_wrong_results_are_seen(section):
    """A column of D that is half as large again, and a number that is none."""
    of = contest.contest_of(case(section), "cpu")
    for key, _, make in of.contestants():
        if key not in OURS[section]:
            continue
        made = make()
        made.call()
        d, right = made.result(), made.error()
        assert right <= made.limit, key
        if key == "1d1d":
            continue  # its error calls again
        kept = d[..., 7].clone()
        d[..., 7] *= 2
        assert made.error() > max(made.limit, right), key
        d[..., 7] = kept
        assert made.error() == right
        d[..., 0, 3] = float("nan")
        assert made.error() == float("inf"), key


def test_scales_of_another_row_are_seen(monkeypatch):
    quantize = tilewright.quantize_tokens

    def shifted(*arguments, **options):
        rows, columns = quantize(*arguments, **options)
        if columns is not None and columns.recipe == "row":
            columns = _Shifted(columns)
        return rows, columns

    class _Shifted:
        def __init__(self, of):
            self.values, self.recipe, self.scales = of.values, of.recipe, of.scales * torch.linspace(1, 2, of.scales.shape[-1])

    monkeypatch.setattr(gradients.tw, "quantize_tokens", shifted)
    product = gradients.tw.k_grouped_gemm
    monkeypatch.setattr(gradients.tw, "k_grouped_gemm", lambda a, b, **o: product(*(
        tilewright.Quantized(q.values, q.recipe, q.scales.flip(-1).contiguous()) if isinstance(q, _Shifted) else q for q in (a, b)), **o))  # fmt: skip
    lines, _ = measured(case("wgrad"))
    assert lines["row"]["failed"].startswith("ArithmeticError: wrong result, off by ") and "us" in lines["1d1d"]


def scaled_grouped_mm(a, b, scale_a, scale_b, offs=None, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False):
    """The result and the requirements of torch's function on a GPU, as its GroupedBlas and GroupMMCommon check them."""
    assert a.dtype == b.dtype == torch.float8_e4m3fn and offs.dtype == torch.int32 and out_dtype == torch.bfloat16 and use_fast_accum
    assert a.stride(-1) == 1 and a.stride(-2) % 16 == 0 and b.stride(-2) == 1 and b.stride(-1) % 16 == 0
    assert a.shape[-1] % 16 == 0 and b.shape[-2] % 16 == 0 and b.shape[-1] % 16 == 0
    assert scale_a.is_contiguous() and scale_a.dim() == 1 and scale_b.stride(-1) == 1
    ends = offs.tolist()
    begins = [0, *ends[:-1]]
    if b.dim() == 3:
        assert scale_a.shape == (a.shape[0],) and scale_b.shape == (b.shape[0], b.shape[2]) and a.shape[1] == b.shape[1]
        d = torch.zeros(a.shape[0], b.shape[2])
        for g, (begin, end) in enumerate(zip(begins, ends)):
            d[begin:end] = a[begin:end].float() * scale_a[begin:end, None] @ (b[g].float() * scale_b[g])
        return d.bfloat16()
    groups = len(ends)
    assert ends[-1] == a.shape[1] == b.shape[0] and all(e > s and (e - s) % 16 == 0 for s, e in zip(begins, ends))
    assert scale_a.shape == (groups * a.shape[0],) and scale_b.shape == (groups * b.shape[1],)
    of_a, of_b = scale_a.view(groups, -1), scale_b.view(groups, -1)
    return torch.stack([(a[:, s:e].float() * of_a[g][:, None]) @ (b[s:e].float() * of_b[g]) for g, (s, e) in enumerate(zip(begins, ends))]).bfloat16()


@needs_fp8
@pytest.mark.parametrize("section", ["forward", "dgrad", "wgrad"])
def test_torch_gets_what_it_asks_for(section, monkeypatch):
    monkeypatch.setattr(torch, "_scaled_grouped_mm", scaled_grouped_mm, raising=False)
    lines, _ = measured(case(section))
    assert lines["torch row"].get("failed") is None
    assert lines["torch row"]["relative_error"] < 3e-3 and lines["torch row"]["accumulation"] == "unpromoted"
    assert lines["torch row"]["peer"] == f"torch {torch.__version__.split('+')[0]} _scaled_grouped_mm per-row scale"
    assert lines["torch row"]["tflops"] * lines["torch row"]["us"] == pytest.approx(lines["row"]["tflops"] * lines["row"]["us"], rel=0.5)
    wrong = lambda *a, **o: scaled_grouped_mm(*a, **o) * 1.05  # noqa: E731
    monkeypatch.setattr(torch, "_scaled_grouped_mm", wrong)
    assert "wrong result" in measured(case(section))[0]["torch row"]["failed"]


def test_the_bf16_product_of_torch_is_taken_where_it_is(monkeypatch):
    def grouped_mm(a, b, offs=None):
        assert a.dtype == b.dtype == torch.bfloat16 and offs.dtype == torch.int32
        begins = [0, *offs.tolist()[:-1]]
        return torch.stack([a[:, s:e].float() @ b[s:e].float() for s, e in zip(begins, offs.tolist())]).bfloat16()

    monkeypatch.setattr(torch.nn.functional, "grouped_mm", grouped_mm, raising=False)
    lines, _ = measured(case("from-bf16"))
    assert lines["torch bf16"]["relative_error"] < 3e-3 and lines["torch bf16"]["us"] == 5.0
    monkeypatch.delattr(torch.nn.functional, "grouped_mm")
    monkeypatch.delattr(torch, "_grouped_mm", raising=False)
    assert "has no _grouped_mm" in measured(case("from-bf16"))[0]["torch bf16"]["failed"]


@needs_fp8
def test_deep_gemm_gets_what_it_asks_for(monkeypatch):
    """Its own API, spoken by tilewright.deep_gemm; its groups' tokens are multiples of 128."""
    deep_gemm = pytest.importorskip("tilewright.deep_gemm")
    seen = []

    def product(a, b, d, ks, ks_tensor, c=None):
        assert all(k % 128 == 0 for k in ks) and ks_tensor.tolist() == ks and ks_tensor.dtype == torch.int32 and d.dtype == torch.float32 and c is d
        for values, factors in (a, b):
            assert values.dim() == 1 and values.dtype == torch.float8_e4m3fn and factors.stride(0) == 1 and factors.shape[1] == sum(ks) // 128
        seen.append(ks)
        deep_gemm.k_grouped_fp8_gemm_nt_contiguous(a, b, d, ks, ks_tensor, c=c)

    monkeypatch.setitem(sys.modules, "deep_gemm", types.SimpleNamespace(__name__="deep_gemm", __version__="9.9", k_grouped_fp8_gemm_nt_contiguous=product))
    lines, _ = measured(case("wgrad"))
    assert lines["DeepGEMM 1d1d"]["peer"] == "DeepGEMM 9.9 (1d1d, fp32 accumulate)" and lines["DeepGEMM 1d1d"]["relative_error"] < 1e-6
    assert seen[0] == [128, 128, 256] and lines["DeepGEMM 1d1d"]["accumulates"]


def test_missing_and_failing_peers_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "deep_gemm", None)
    monkeypatch.delattr(torch, "_scaled_grouped_mm", raising=False)
    lines, _ = measured(case("wgrad"))
    assert "DeepGEMM cannot be imported" in lines["DeepGEMM 1d1d"]["failed"]
    assert f"torch {torch.__version__} has no _scaled_grouped_mm" in lines["torch row"]["failed"]
    assert "us" in lines["row"] and "us" in lines["1d1d"]
    lines, events = measured(case("wgrad"), without=["torch row", "row"])
    assert not {"torch row", "row"} & lines.keys() and not any(event.get("key") == "row" for event in events)


class Failing(Clock):
    """Loses kernels as often as it is told, and always of calls that it is to lose."""

    def __init__(self, times, lost=()):
        self.times, self.lost, self.seen = times, lost, []

    def medians(self, calls):
        self.times -= 1
        self.seen.append(len(calls))
        if self.times >= 0 or (len(calls) == 1 and self.seen.count(1) in self.lost):
            raise device_clock.ClockError("lost kernels")
        return super().medians(calls)


def test_a_clock_that_loses_kernels_is_asked_again_and_then_for_each_call_alone():
    def ours(clock):
        events = []
        contest.measure(case("forward"), "cpu", clock, events.append, [])
        return [event["line"] for event in events if event["event"] == "line" and event["line"]["key"] in OURS["forward"]]

    assert [("us" in line, "alone" in line) for line in ours(Failing(1))] == [(True, False)] * 2
    assert [("us" in line, line.get("alone")) for line in ours(Failing(2))] == [(True, True)] * 2
    one_fails = ours(Failing(2, lost=(1, 2)))
    assert one_fails[0]["failed"] == "ClockError: lost kernels" and one_fails[1]["alone"] and one_fails[1]["us"] == 1.0


def test_a_call_that_fails_while_it_is_timed_is_named():
    class Broken(Clock):
        def medians(self, calls):
            raise ValueError("no more")

    events = []
    contest.measure(case("forward"), "cpu", Broken(), events.append, [])
    failed = {event["line"]["key"]: event["line"]["failed"] for event in events if event["event"] == "line"}
    assert failed["tensor"] == failed["row"] == "ValueError: no more"


def test_samples_have_the_ends_and_no_row_twice():
    assert contestant.some_rows(5, "cpu").tolist() == [0, 1, 2, 3, 4]
    rows = contestant.some_rows(1000, "cpu").tolist()
    assert len(set(rows)) == 64 and rows[:2] == [0, 1] and rows[-1] == 999 and max(rows) == 999
    assert contestant.sampled((3, 9, 1, 2)) == [0, 1, 3]


def test_the_program(tmp_path):
    record = tmp_path / "lines.jsonl"
    command = [sys.executable, ROOT / "benchmarks/training_peers.py", "--device", "cpu", "--quick", "--random", "1", "--only",
               "wgrad,forward-random", "--json", record]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr  # missing peers are not an error
    lines = [json.loads(text) for text in record.read_text().splitlines()]
    assert {line["section"] for line in lines} == {"wgrad", "forward-random"}
    assert all(line["command"].startswith("benchmarks/training_peers.py --device cpu") and line["device"] == "CPU" for line in lines)
    ours = [line for line in lines if line["peer"].startswith("Tilewright")]
    assert len(ours) == 5 and all(line["us"] > 0 for line in ours)
    assert "DeepGEMM (1d1d, fp32 accumulate) not measured: DeepGEMM cannot be imported" in done.stdout
    assert "wgrad  " in done.stdout and "row against torch row: nothing to compare" in done.stdout
