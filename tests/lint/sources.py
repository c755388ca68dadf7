"""The files of the tree, and what is code, comment and string in them."""

import ast
import csv
import functools
import pathlib
import re
import subprocess
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[2]
C_LIKE = (".h", ".cpp", ".cuh", ".S", ".in")
# The order of the alternatives matters: a string may contain `//`, and a comment may contain quotes.
C_TOKEN = re.compile(
    r'(?P<raw>R"(?P<tag>[^\s()\\]{0,16})\((?:.*?)\)(?P=tag)")'
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<letter>(?<![0-9A-Za-z_])'(?:\\[^'\n]+|[^'\\\n])')"
    r"|(?P<comment>//[^\n]*|/\*.*?\*/)",
    re.DOTALL,
)
PYTHON_TOKEN = re.compile(
    r'(?P<string>"""(?:\\.|[^\\])*?"""' + r"|'''(?:\\.|[^\\])*?'''" + r'|"(?:\\.|[^"\\\n])*"' + r"|'(?:\\.|[^'\\\n])*')|(?P<comment>#[^\n]*)",
    re.DOTALL,
)
COMMENT_SIGN = re.compile(r"^(?://+!?<?|#+!?)")
HASH_TOKEN = re.compile(r"(?P<comment>(?<!\S)#[^\n]*)")


@functools.cache
def files():
    """All files of the tree, also those that git does not know yet."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return [name for name in sorted({*names} - {""}) if (ROOT / name).is_file()]


def table(name):
    """The rows of a .tsv of this folder, without its comments."""
    with open(pathlib.Path(__file__).parent / name) as file:
        return list(csv.DictReader((line for line in file if not line.startswith("#")), delimiter="\t", quoting=csv.QUOTE_NONE))


@functools.cache
def text_of(name):
    return (ROOT / name).read_text(errors="ignore")


def tokens(name, text):
    """Comments and literals, as matches: `lastgroup` is the kind."""
    if name.endswith(C_LIKE):
        return C_TOKEN.finditer(text)
    return (PYTHON_TOKEN if name.endswith(".py") else HASH_TOKEN).finditer(text)


def code(name, text):
    """The text with blanks for comments and literals; lines keep their numbers."""
    parts, last = [], 0
    for token in tokens(name, text):
        parts += [text[last : token.start()], " ", "\n" * token.group().count("\n")]
        last = token.end()
    return "".join(parts) + text[last:]


def line_numbers(text, places):
    """The line of each of the ascending places."""
    line, last = 1, 0
    for place in places:
        line += text.count("\n", last, place)
        last = place
        yield line


class Comment(NamedTuple):
    line: int
    text: str  # without its sign, with its indentation
    column: int
    begins: bool  # no comment of the line before goes on here


def comments(name, text):
    """The lines of comments and docstrings."""
    found = []
    matches = [t for t in tokens(name, text) if t.lastgroup == "comment"]
    before = Comment(-1, "", 0, True)
    for token, line in zip(matches, line_numbers(text, (t.start() for t in matches)), strict=True):
        start = text.rfind("\n", 0, token.start()) + 1
        column = token.start() - start
        follows = not text[start : token.start()].strip() and before.line == line - 1 and before.column == column
        if token.group().startswith("/*"):
            body = [part.strip().removeprefix("*") for part in token.group()[2:-2].split("\n")]
        else:
            body = [COMMENT_SIGN.sub("", token.group())]
        for i, part in enumerate(body):
            before = Comment(line + i, part.rstrip().removeprefix(" "), column, i == 0 and not follows)
            found.append(before)
    if name.endswith(".py"):
        found += docstrings(text)
    return sorted(found)


def docstrings(text):
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and (body := ast.get_docstring(node)):
            for i, line in enumerate(body.split("\n")):
                yield Comment(node.body[0].lineno + i, line.rstrip(), 0, i == 0)


def literals(name, text):
    """(line, text) of each string; strings with only white space between them are one, as the compiler sees them."""
    found, last, parts = [], None, []
    matches = [t for t in tokens(name, text) if t.lastgroup in ("string", "raw", "tag")]
    for token, line in zip(matches, line_numbers(text, (t.start() for t in matches)), strict=True):
        body = token.group().removeprefix("R").strip("\"'")
        if parts and not text[last : token.start()].strip(" \n\tfrb"):
            parts[1] += body
        else:
            found.append(parts := [line, body])
        last = token.end()
    return found


def room_of(name):
    """A folder of src or tests; else the top folder, or `root`."""
    parts = pathlib.PurePosixPath(name).parts
    if parts[0] in {"src", "tests"} and len(parts) > 2:
        return parts[1]
    if parts[0] == "include":
        return "api"
    return parts[0] if len(parts) > 1 else "root"
