"""README.md and docs/support.md have the tables that `tilewright support` prints. To write them: python tests/lint/test_support_page.py"""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = ROOT / "build/release/src/cli/tilewright"
PAGES = {"README.md": ["--short"], "docs/support.md": []}
PLACE = re.compile(r"(<!-- support -->\n).*?(<!-- end -->)", re.S)


def printed(options):
    return subprocess.run([PROGRAM, "support", "--markdown", *options], capture_output=True, text=True, check=True).stdout


def written(page, tables):
    assert len(PLACE.findall(page)) == 1
    return PLACE.sub(lambda match: match[1] + tables + match[2], page)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_the_tables_of_the_program(name):
    page = (ROOT / name).read_text()
    tables = printed(PAGES[name])
    assert written(page, tables) == page, f"{name}: run python tests/lint/test_support_page.py"
    # Another symbol is found.
    assert written(page.replace("| ● |", "| ○ |", 1), tables) == page


if __name__ == "__main__":
    for name, options in PAGES.items():
        (ROOT / name).write_text(written((ROOT / name).read_text(), printed(options)))
