"""Commands of the pages that need neither files nor a GPU run as they are written."""

import pathlib
import re
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Complete without a file: explain needs sizes. test_support_page.py runs `tilewright support`.
RUNS = re.compile(r"^tilewright (explain .*--m \d.*|doctor.*|--help|--version)$")


def commands():
    spans = [span for page in PAGES for span in re.findall(r"`([^`\n]+)`", page.read_text())]
    lines = [line for page in PAGES for line in re.findall(r"^(?: {4})?(tilewright [^`\n]+)$", page.read_text(), re.M)]
    return sorted({text.split("#")[0].strip() for text in spans + lines if RUNS.match(text.split("#")[0].strip())})


def test_there_are_commands():
    assert "tilewright doctor" in commands()
    assert any(command.startswith("tilewright explain dense") for command in commands())


@pytest.mark.parametrize("command", commands())
def test_a_command_runs(command):
    words = [ROOT / "build/release/src/cli/tilewright", *shlex.split(command)[1:]]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout, done.stderr
