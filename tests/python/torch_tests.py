"""How many tests are left out where torch is not installed. A file that imports torch cannot say how many tests it has then,
because its parameters may come from torch: its test functions are counted in its source."""

import ast
import pathlib
from collections.abc import Iterable
from typing import Any


def functions_of(source: str) -> list[str]:
    """Names of the tests of a file, those of classes too, each once whatever its parameters."""
    names = []
    for node in ast.parse(source).body:
        members = node.body if isinstance(node, ast.ClassDef) and node.name.startswith("Test") else [node]
        names += [member.name for member in members if isinstance(member, ast.FunctionDef) and member.name.startswith("test")]
    return names


def left_out(skipped: Iterable[Any]) -> str:
    """A line from pytest's reports of what was skipped: whole files, and single tests of other files."""
    of_torch = [report for report in skipped if "torch" in str(report.longrepr)]
    files = {pathlib.Path(report.longrepr[0]) for report in of_torch if report.when == "collect"}
    functions = sum(len(functions_of(file.read_text())) for file in files)
    tests = sum(report.when != "collect" for report in of_torch)
    return f"torch is not installed. Left out: {functions} test functions in files that need it ({len(files)}), {tests} tests in other files"
