"""Names that vLLM, SGLang, torchao and Megatron-LM look up in deep_gemm, each as the engine does it (deep_gemm_engines.tsv), and
what they get: a function, or a name that is missing with its reason."""

import csv
import importlib
import pathlib
import re

import pytest

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from tilewright import deep_gemm
from tilewright.deep_gemm import _missing

LINES = (pathlib.Path(__file__).parent / "deep_gemm_engines.tsv").read_text().splitlines()
ROWS = list(csv.DictReader((line for line in LINES if not line.startswith("#")), delimiter="\t"))
ENGINES = {"vLLM", "SGLang", "torchao", "Megatron-LM"}


def module_of(row):
    """The engine's module: deep_gemm there, tilewright.deep_gemm here."""
    return importlib.import_module(row["module"].replace("deep_gemm", "tilewright.deep_gemm", 1))


def look_up(row):
    """The result of the look-up, or the error of an engine that does not check first."""
    module, name = module_of(row), row["name"]
    if row["how"] == "getattr":
        return getattr(module, name, None)
    if row["how"] == "hasattr":
        return getattr(module, name) if hasattr(module, name) else None
    try:
        if row["how"] == "call":
            return getattr(module, name)
        names = {}
        exec(f"from {module.__name__} import {name}", names)  # noqa: S102
        return names[name]
    except (AttributeError, ImportError) as error:
        return error


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['engine']}-{row['how']}-{row['name']}")
def test_a_name_that_is_looked_up(row):
    found = look_up(row)
    if row["state"] == "here":
        assert callable(found) and found.__module__.startswith("tilewright.deep_gemm")
        return
    assert row["name"] in _missing.REASONS
    if row["how"] in ("getattr", "hasattr"):
        assert found is None
    else:
        assert isinstance(found, ImportError if row["how"] == "import" else AttributeError)
        if not hasattr(module_of(row), "__path__"):  # then Python writes its own text: the module is not a package
            found = look_up({**row, "how": "call"})
        assert _missing.REASONS[row["name"]] in str(found) and "fall_back_to" in str(found)


@pytest.mark.parametrize("row", [row for row in ROWS if row["state"] == "cublas"], ids=lambda row: f"{row['engine']}-{row['name']}")
def test_cublas_s_names_are_there_when_they_are_allowed(row, cublas_allowed):
    assert callable(look_up(row))


def test_megatron_finds_no_batch_invariant_kernels():
    """It has all three or none."""
    names = [row["name"] for row in ROWS if row["engine"] == "Megatron-LM" and row["how"] == "hasattr"]
    assert sorted(names) == list(_missing.CUBLAS_NAMES)
    assert not any(hasattr(deep_gemm, name) for name in names)


def test_the_list_has_its_sources():
    assert {row["engine"] for row in ROWS} == ENGINES
    assert {row["how"] for row in ROWS} <= {"getattr", "hasattr", "import", "call"}
    assert {row["state"] for row in ROWS} == {"here", "missing", "cublas"}
    assert all(re.fullmatch(r"[0-9a-f]{40}|\d+\.\d+\.\d+|-", row["commit"]) for row in ROWS)
    assert len({(row["engine"], row["how"], row["module"], row["name"]) for row in ROWS}) == len(ROWS)


def test_vllm_s_alignment_of_a_call():
    """It passes all rows and the groups, and older versions of it the rows of a group."""
    alignment = deep_gemm.get_theoretical_mk_alignment_for_contiguous_layout
    assert [alignment(), alignment(64), alignment(4096, 32), alignment(expected_m=0, num_groups=1)] == [128] * 4
    for wrong in ((-1,), (1.5,), (4096, 0), (None, -1), (4096, "32")):
        with pytest.raises(ValueError, match=r"^(expected_m|num_groups): got .*; expected an integer of at least"):
            alignment(*wrong)
