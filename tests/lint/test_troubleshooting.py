"""The messages of docs/troubleshooting.md are those of the code."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs/troubleshooting.md").read_text()
MESSAGES = re.findall(r"^\| `([^`]+)` \|", PAGE, re.M)


def literals():
    """The text of all string literals, neighbouring ones joined, as the compiler does."""
    files = [*ROOT.glob("src/**/*.cpp"), *ROOT.glob("src/**/*.h"), *ROOT.glob("python/**/*.cpp"), *ROOT.glob("python/**/*.h"), *ROOT.glob("python/**/*.py")]
    return "\n".join(re.sub(r'"\s*\n\s*f?"', "", f.read_text()) for f in sorted(files))


@pytest.fixture(scope="module")
def code():
    return literals()


def test_there_are_messages():
    assert len(MESSAGES) > 10


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_the_code_s(message, code):
    assert message in code
