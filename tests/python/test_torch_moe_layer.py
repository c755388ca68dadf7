"""The layers of benchmarks/moe_layer.py on the CPU: peers are right, wrong and missing ones are named, and tables show it."""

import json
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tilewright.torch")
import moe_layer  # noqa: E402
import moe_peers  # noqa: E402
import moe_table  # noqa: E402
import tilewright as tw  # noqa: E402
import triton_kernels_stand_in as stand_in  # noqa: E402
from moe_cases import TINY, Weights, reals, routed  # noqa: E402
from training_contestant import MOST_ERROR  # noqa: E402

FP8, GPT_OSS = TINY
TOKENS = 40


def row_of(layer, peers):
    torch.manual_seed(5)
    return moe_layer.measure(layer, TOKENS, Weights(layer, peers, "cpu"), peers, False, moe_layer.HostClock(), 1.0)


@pytest.fixture
def compiled(monkeypatch):
    """torch.compile takes minutes, and changes no result."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)


def test_triton_kernels_is_right(monkeypatch):
    constraints = stand_in.install(monkeypatch)
    row = row_of(GPT_OSS, ["triton_kernels"])
    assert row["missing"] == {} and row["gpt_oss"]
    assert 0 < row["triton_kernels_error"] < MOST_ERROR / 4
    assert all(row[f"triton_kernels{part}_us"] > 0 for part in ("", "_logits", "_products"))
    assert constraints == {"split_k": 1}


@pytest.mark.parametrize("factor", [1.1, float("nan")])
def test_a_wrong_result_is_not_timed(monkeypatch, factor):
    stand_in.install(monkeypatch, lambda *operands, **options: stand_in.matmul_ogs(*operands, **options) * factor)
    row = row_of(GPT_OSS, ["triton_kernels"])
    assert row["missing"]["triton_kernels"].startswith("ArithmeticError: wrong result, off by ")
    assert "triton_kernels_us" not in row


@pytest.mark.parametrize("lost", ["up_bias", "limit", "beta"])
def test_each_part_of_the_unit_counts(monkeypatch, lost):
    """A peer that is right differs from a layer of ours that lacks a part."""
    stand_in.install(monkeypatch)
    made = Weights(GPT_OSS, [], "cpu")
    made.options = {key: value for key, value in made.options.items() if key != lost}
    made.biases = [3 * bias for bias in made.biases]  # so that many numbers are above the limit
    made.options |= {key: bias for key, bias in zip(("up_bias", "down_bias"), made.biases, strict=True) if key != lost}
    row = moe_layer.measure(GPT_OSS, TOKENS, made, ["triton_kernels"], False, moe_layer.HostClock(), 1.0)
    assert "wrong result" in row["missing"]["triton_kernels"]


@pytest.mark.parametrize("layer", TINY, ids=lambda layer: layer.name)
def test_torch_is_right(compiled, layer):
    row = row_of(layer, ["torch"])
    assert row["missing"] == {} and row["torch_us"] > 0
    assert row["torch_error"] < (MOST_ERROR / 4 if layer.is_gpt_oss else moe_peers.MOST_ERRORS_OF_FP8["torch"])


def test_layers_that_a_peer_does_not_have(monkeypatch):
    stand_in.install(monkeypatch)
    assert not [key for key in row_of(FP8, ["triton_kernels"]) if key.startswith("triton_kernels")]
    assert not [key for key in row_of(GPT_OSS, ["triton"]) if key.startswith("triton")]


def test_bf16_numbers_of_mxfp4():
    codes = tw.quantize(torch.randn(2, 6, 96).to(torch.bfloat16) * 100, "mxfp4")
    assert torch.equal(reals(codes).float(), torch.as_tensor(codes.dequantize()))


def test_choices_of_gpt_oss_weigh_one_in_all():
    assert torch.allclose(routed(GPT_OSS, 7, True, "cpu").weights.sum(1), torch.ones(7))
    assert (routed(FP8, 7, False, "cpu").weights.sum(1) < 1).all()


def test_the_program_names_a_missing_peer(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "triton_kernels", None)
    record = tmp_path / "moe.jsonl"
    words = ["--device", "cpu", "--only", "gpt-oss", "--tokens", "1,3", "--peers", "triton_kernels,mxfp4", "--json", str(record)]
    assert moe_layer.main(words) == 0
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    assert [(row["layer"], row["tokens"], row["device"]) for row in rows] == [(GPT_OSS.name, 1, "CPU"), (GPT_OSS.name, 3, "CPU")]
    assert all("mxfp4_us" in row and "triton_kernels_us" not in row for row in rows)
    printed = capsys.readouterr().out
    assert printed.count("left out: triton_kernels: triton_kernels cannot be imported: ") == 1
    table = moe_table.layers(rows)
    assert table.count("triton_kernels not measured: triton_kernels cannot be imported: ") == 1
    assert "| triton_kernels |" not in table and "tiny gpt-oss, bf16 x MXFP4" in table


def test_an_unknown_layer(capsys):
    with pytest.raises(SystemExit) as left:
        moe_layer.main(["--device", "cpu", "--only", "Qwen9"])
    assert left.value.code == 2
    assert capsys.readouterr().err == "moe_layer: --only: got Qwen9; expected a part of one of tiny fp8, tiny gpt-oss\n"


def test_tables_keep_gpt_oss_apart():
    """The classes have targets of fp8 layers."""
    fp8 = {"layer": "a", "tokens": 1, "skew": False, "us": 2.0, "products_us": 1.0, "target_us": 2.0, "triton_us": 4.0, "torch_us": 6.0}
    gpt_oss = {**fp8, "layer": "b", "gpt_oss": True, "triton_kernels_us": 5.0, "torch_us": 100.0}
    assert moe_table.classes([fp8, gpt_oss]) == moe_table.classes([fp8])
    head, _, first, second = moe_table.layers([fp8, gpt_oss]).splitlines()
    assert head.split(" | ")[-4:-1] == ["Triton, fp8", "triton_kernels", "torch, bf16"]
    assert first.endswith("| 2.00 |  | 3.00 |  |") and second.endswith("| 2.00 | 2.50 | 50.00 |  |")
