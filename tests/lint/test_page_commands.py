"""Commands of the pages that need neither files nor a GPU run as they are written, and links to sections of pages lead there."""

import pathlib
import re
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/contributing").glob("*.md"), *(ROOT / "src").rglob("*.md")]),
]
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


def sections(page):
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_sections_lead_somewhere(page):
    for target, section in re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", page.read_text()):
        other = (page.parent / target).resolve() if target else page
        assert section in sections(other), f"{page.name}: {target}#{section}"


def test_a_section_has_the_name_of_its_heading(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A: `b` x c\n```\n# no heading\n```\n## FP4 weights, packed\n")
    assert sections(page) == {"a-b-x-c", "fp4-weights-packed"}
