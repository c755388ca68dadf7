"""validate, explain and workspace_bytes take the arguments of the call; signatures and help() show all of them."""

import importlib.util
import inspect
import pathlib
import pydoc

import numpy as np
import pytest
import tilewright as tw

ROOT = pathlib.Path(__file__).parents[2]
A, B = np.ones((10, 128), np.float32), np.ones((8, 128), np.float32)
EXPERTS = np.ones((3, 8, 128), np.float32)
CALLS = (tw.gemm, tw.batched_gemm, tw.grouped_gemm, tw.k_grouped_gemm)
QUESTIONS = (tw.validate, tw.explain, tw.workspace_bytes)

# What a call is, beyond its arguments.
EXTRA = {tw.batched_gemm: {"batched": True}, tw.k_grouped_gemm: {"k_grouped": True}}
RIGHT = [
    (tw.gemm, A, B, {}),
    (tw.gemm, A, B, {"out_dtype": "f32", "alpha": 2.0, "bias": np.ones(8, np.float32)}),
    (tw.batched_gemm, EXPERTS, EXPERTS, {}),
    (tw.grouped_gemm, A, EXPERTS, {"offsets": [3, 8, 10]}),
    (tw.grouped_gemm, A, EXPERTS, {"aligned_offsets": [2, 8, 10], "alignment": 4}),
    (tw.grouped_gemm, A, EXPERTS, {"indices": [0] * 10}),
    (tw.grouped_gemm, EXPERTS, EXPERTS, {"counts": [1, 2, 3], "expected_m": 2}),
    (tw.k_grouped_gemm, A, B, {"offsets": [64, 128]}),
    (tw.k_grouped_gemm, A, B, {"aligned_offsets": [50, 128], "alignment": 64}),
    (tw.k_grouped_gemm, A, B, {"counts": [64, 64]}),
]


@pytest.mark.parametrize("call, a, b, arguments", RIGHT)
def test_a_call_is_checked_by_changing_its_name(call, a, b, arguments):
    call(a, b, **arguments)
    extra = EXTRA.get(call, {})
    assert tw.validate(a, b, **arguments, **extra) == []
    assert tw.workspace_bytes(a, b, **arguments, **extra) == 0
    assert tw.explain(a, b, **arguments, **extra).unavailable  # f32 has no Hopper kernel


@pytest.mark.parametrize("call, a, b, arguments", RIGHT)
def test_the_findings_are_those_of_the_call(call, a, b, arguments):
    wrong = {**arguments, "c": np.ones((1, 1), np.float32), "threads": -1}
    for changed in (wrong, {**wrong, "threads": 0}):
        with pytest.raises(tw.InvalidCall) as caught:
            call(a, b, **changed)
        found = tw.validate(a, b, **changed, **EXTRA.get(call, {}))
        assert [finding.message() for finding in found] == [finding.message() for finding in caught.value.findings]


@pytest.mark.parametrize(
    "arguments, operand",
    [
        ({"offsets": [1], "counts": [1]}, "groups"),
        ({"k_grouped": True}, "groups"),
        ({"k_grouped": True, "indices": [0]}, "indices"),
        ({"batched": True, "offsets": [1]}, "batched"),
        ({"batched": True, "k_grouped": True}, "batched"),
        ({"batched": 1}, "batched"),
        ({"k_grouped": "yes"}, "k_grouped"),
        ({"offsets": [0.5]}, "offsets[0]"),
    ],
)
def test_groups_that_contradict_each_other(arguments, operand):
    assert [finding.operand for finding in tw.validate(A, EXPERTS, **arguments)] == [operand]
    assert tw.workspace_bytes(A, EXPERTS, **arguments) == 0
    with pytest.raises(tw.InvalidCall) as caught:
        tw.explain(A, EXPERTS, **arguments)
    assert caught.value.findings[0].operand == operand


def test_a_question_sees_groups():
    """A plan for groups of k is another than a dense one, and one that is copied along k needs a workspace."""
    a, b = (tw.quantize(np.ones((256, 512), np.float32), "1x128") for _ in range(2))
    dense, grouped = tw.explain(a, b), tw.explain(a, b, k_grouped=True, offsets=[256, 512])
    assert grouped.chosen.tiles == 2 * tw.explain(a, b, k_grouped=True, offsets=[512]).chosen.tiles
    assert dense.chosen.grid > 0
    x = tw.quantize(np.ones((256, 64), np.float32), "tensor")
    assert tw.workspace_bytes(x, x, layout="tn") == 16384


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_take_the_keywords_of_all_calls(question):
    of_question = inspect.signature(question).parameters
    for call in CALLS:
        for name, parameter in inspect.signature(call).parameters.items():
            assert of_question[name] == parameter, (question, call, name)
    assert set(of_question) - {name for call in CALLS for name in inspect.signature(call).parameters} == {"batched", "k_grouped"}


@pytest.mark.parametrize("function", [*CALLS, *QUESTIONS])
def test_help_describes_every_argument(function):
    """The signature is that of the code that runs, and each argument has a line of its own."""
    code = inspect.unwrap(function).__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    assert list(names) == list(inspect.signature(function).parameters)
    assert not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    assert "__signature__" not in vars(function)
    shown = pydoc.render_doc(function, renderer=pydoc.plaintext)
    lines = [line.strip().split(": ")[0] for line in shown.splitlines()]
    for name, parameter in inspect.signature(function).parameters.items():
        assert lines.count(name) == 1, name
        assert parameter.annotation is not inspect.Parameter.empty
        if parameter.default is not inspect.Parameter.empty:
            quoted = str(parameter.default).replace("'", '"')
            assert f"Default: {quoted}." in " ".join(shown.split()) or f'Default: "{quoted}".' in " ".join(shown.split())


def test_the_files_are_what_the_tool_writes():
    """To renew them: tools/generate_calls.py"""
    path = ROOT / "tools/generate_calls.py"
    spec = importlib.util.spec_from_file_location("generate_calls", path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    for path, text in tool.generated().items():
        assert text == path.read_text(), path.name


def test_an_explanation_says_how_the_call_travels():
    x = tw.quantize(np.ones((256, 64), np.float32), "tensor")
    explanation = tw.explain(x, x, layout="tn")
    assert [(step.operand, step.what, step.bytes) for step in explanation.first] == [("a.values", "copied along k", 16384)]
    assert set(explanation.chosen.path) == {"feed", "loop", "scales", "output"}
    text = str(explanation)
    assert "\nfirst: a.values copied along k, 16 KiB: only one operand may pass" in text
    assert "\nscales: of rows or tensors at the end\n" in text


def test_an_explanation_is_a_table_in_a_notebook():
    a, b = (tw.quantize(np.ones((rows, 512), np.float32), "row") for rows in (64, 1024))
    table = tw.explain(a, b)._repr_html_()
    assert table.startswith("<table><caption>") and table.count("<tr>") == table.count("</tr>") >= 5
    refused = tw.explain(A, B)._repr_html_()
    assert "no Hopper kernel" in refused and "<tr>" not in refused
    assert "<" not in refused.replace("<table>", "").replace("<caption>", "").replace("</caption>", "").replace("</table>", "")
