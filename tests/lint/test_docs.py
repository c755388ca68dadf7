"""Every path and command that README, CONTRIBUTING, docs and the pages of src name exists, and nothing names a machine."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(page for folder in ("docs", "src", "benchmarks") for page in (ROOT / folder).rglob("*.md"))])
# Folders that make and the program create.
MADE = ("build/", "dist/")


def tracked():
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")[:-1]


def code_spans(text):
    """Inline code and the lines of code blocks."""
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    for block in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL):
        spans += block.splitlines()
    spans += [line[4:] for line in text.splitlines() if line.startswith("    ")]
    return spans


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_named_paths_exist(page):
    folders = {name for name in (p.name for p in ROOT.iterdir() if p.is_dir()) if name != "build"}
    for span in code_spans(page.read_text()):
        for word in re.findall(r"(?<![\w/.<-])((?:[\w.-]+/)+[\w.-]*)", span):
            if word.startswith(MADE) or word.split("/")[0] not in folders:
                continue
            assert (ROOT / word.rstrip("/.")).exists(), f"{page.name} names {word}, which does not exist"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)  # a lambda of C++ looks like a link
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which does not exist"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_named_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for span in code_spans(page.read_text()):
        for target in re.findall(r"(?:^|[;&] *)make ([a-z-]+)", span):
            assert target in targets, f"{page.name} names `make {target}`, which is no target"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_named_subcommands_and_options_exist(page):
    program = ROOT / "build/release/src/cli/tilewright"
    for span in code_spans(page.read_text()):
        match = re.match(r"(?:build/release/src/cli/)?tilewright ([a-z]+(?: moe)?)(.*)", span)
        if not match or match.group(1) in ("runs", "does"):  # lines of an engine's log
            continue
        help_text = subprocess.run([program, *match.group(1).split(), "--help"], capture_output=True, text=True, check=False)
        assert help_text.returncode == 0, f"{page.name} names `tilewright {match.group(1)}`: {help_text.stderr}"
        for option in re.findall(r"(?<=\s)(--[a-z-]+)", match.group(2)):
            assert option in help_text.stdout, f"{page.name} names `{span}`, but {option} is no option"


def test_nothing_names_a_machine():
    machine = re.compile(r"(?<![\w.])/(?:work|root|farm|home/\w+)/|/tmp/bash_jobs")
    for name in tracked():
        path = ROOT / name
        if not path.is_file() or path == pathlib.Path(__file__) or path.suffix in {".bin", ".png"}:
            continue
        found = machine.search(path.read_text(errors="ignore"))
        assert not found, f"{name} names a path of one machine: {found.group(0)}"


def test_binaries_run_on_older_systems():
    """A program built here must start on Debian 12 and Ubuntu 24.04: glibc at most 2.36, no libstdc++ to find."""
    program = ROOT / "build/release/src/cli/tilewright"
    symbols = subprocess.run(["objdump", "-T", program], capture_output=True, text=True, check=True).stdout
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+(?:\.\d+)+)", symbols)}
    assert max(versions) <= (2, 36), f"needs glibc {max(versions)}"
    needed = subprocess.run(["objdump", "-p", program], capture_output=True, text=True, check=True).stdout
    assert "libstdc++" not in needed, "the program needs a libstdc++ at run time; link it statically"
