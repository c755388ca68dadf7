"""Docstrings become what Sphinx reads (tools/docstring_blocks.py), without a warning of docutils for lists and indented text."""

import importlib.util
import pathlib

import pytest

TOOL = pathlib.Path(__file__).parents[2] / "tools/docstring_blocks.py"


@pytest.fixture(name="converted", scope="module")
def conversion():
    spec = importlib.util.spec_from_file_location("docstring_blocks", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda text: "\n".join(module.as_restructured_text(text.split("\n"))).strip()


def test_items_are_apart_from_text_and_aligned(converted):
    assert converted("Text:\n- one\n  more\n- two") == "Text:\n\n- one\n  more\n- two"
    assert converted("1. one\n  more\n2. two") == "1. one\n   more\n2. two"


def test_named_lines_become_items(converted):
    assert converted("a, b: the operands,\n    of any format\nlayout: nt") == "- a, b: the operands,\n  of any format\n- layout: nt"


def test_indented_code_is_code(converted):
    assert converted("Use it:\n\n    with tw.options():\n        run()\n\nEnd.") == "Use it:\n\n::\n\n        with tw.options():\n            run()\n\nEnd."


def test_sections_of_google_s_style_stay(converted):
    text = "First.\n\nArgs:\n    a: One\n        and more.\n    b: Two."
    assert converted(text) == text


def test_signs_of_markup_outside_of_code_are_escaped(converted):
    assert converted("a * b, |x|, out_ and `a * b`") == "a \\* b, \\|x\\|, out\\_ and `a * b`"
