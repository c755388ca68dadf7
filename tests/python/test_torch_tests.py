"""The report on tests that need torch, if torch is not installed."""

from pathlib import Path
from types import SimpleNamespace

from torch_tests import left_out, functions_of


def report(path, when, reason):
    return SimpleNamespace(when=when, longrepr=(str(path), 1, f"Skipped: {reason}"))


def test_functions_are_counted_whatever_their_parameters():
    source = """
import pytest
@pytest.mark.parametrize("n", range(9))
def test_one(n): pass
def helper(): pass
class TestMore:
    def test_two(self): pass
    def helper(self): pass
"""
    assert functions_of(source) == ["test_one", "test_two"]


def test_the_line_counts_files_and_single_tests(tmp_path):
    file = tmp_path / "test_x.py"
    file.write_text("def test_a(): pass\ndef test_b(): pass\n")
    skipped = [
        report(file, "collect", "could not import 'torch'"),
        report(tmp_path / "test_y.py", "call", "could not import 'torch'"),
        report(tmp_path / "test_z.py", "setup", "needs a GPU"),
    ]
    assert left_out(skipped) == "torch is not installed. Left out: 2 test functions in files that need it (1), 1 tests in other files"


def test_the_source_s_functions_are_those_that_pytest_finds(request):
    found: dict[Path, set[str]] = {}
    for item in request.session.items:
        if item.path.suffix == ".py":
            found.setdefault(item.path, set()).add(item.originalname)
    for path, names in found.items():
        assert names <= set(functions_of(path.read_text())), path
