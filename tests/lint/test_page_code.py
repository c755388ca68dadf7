"""The C++ blocks of the README and of the quick start compile. tests/python/test_examples.py runs the Python blocks."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).parents[2]
PAGES = ("README.md", "docs/quickstart.md")
# The names that the blocks use, as the text around them describes them.
NAMES = ("const void* x, const void* w, void* a_values, void* a_scales, void* b_values, void* b_scales, void* d, "
         "int m, int n, int k, void* stream")  # fmt: skip


def blocks_of(page):
    return re.findall(r"```cpp\n(.*?)```", (ROOT / page).read_text(), re.S)


def program(blocks):
    """A function for each block."""
    functions = [f"void block_{i}([[maybe_unused]] {NAMES.replace(', ', ', [[maybe_unused]] ')}) {{\n{block}}}\n" for i, block in enumerate(blocks)]
    return "#include <tilewright/tilewright.h>\nusing namespace tilewright;\n" + "".join(functions)


def compiled(text):
    command = ["c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "include", "-x", "c++", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True)


def test_the_blocks_compile():
    blocks = [block for page in PAGES for block in blocks_of(page)]
    assert len(blocks) == 3
    done = compiled(program(blocks))
    assert done.returncode == 0, done.stderr


def test_a_mistake_is_found():
    done = compiled("int size = missing;\n")
    assert done.returncode != 0 and "missing" in done.stderr
