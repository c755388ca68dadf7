"""What a comment names exists: files by their path or end of path, folders of the tree, sections of a page."""

import ast
import io
import pathlib
import re
import tokenize

import pytest
import words

ROOT = pathlib.Path(__file__).parents[2]
FILES = words.files()
# Rooms that still have comments to mend.
NOT_YET = set()
CODE = (".h", ".cpp", ".cuh", ".S", ".in", ".py", ".cmake", "CMakeLists.txt", "Makefile")
NAMED_FILE = re.compile(r"(?<![\w/.<*{}-])((?:[\w-]+/)*[\w-]+\.(?:h|cpp|py|md|tsv|cmake|jsonl|bin))\b(?![\w*])")
NAMED_FOLDER = re.compile(r"(?<![\w/.<-])((?:src|tests|docs|python|tools|benchmarks|examples|include|cmake)(?:/[\w-]+)+)(?![\w/.*-])")
SECTION = re.compile(r'(\w+\.md),? (?:section )?"([^"\n]+)"')

# Files of others, and files that are made when the program or the build runs.
ELSEWHERE = re.compile(r"(?:features|cblas|cublas_api|cublasLt|library_types|cupti_\w+|dlpack)\.h|.*/?commit\.h|x\.cpp|\w*generated.*")


def comments(name, text):
    if name.endswith(".py"):
        found = [t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT]
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        found += [ast.get_docstring(n) or "" for n in ast.walk(ast.parse(text)) if isinstance(n, documented)]
        return "\n".join(found)
    if name.endswith((".h", ".cpp", ".cuh", ".S", ".in")):
        text = re.sub(r'R"\((.*?)\)"', "", text, flags=re.DOTALL)
        return "\n".join(re.findall(r"//[^\n]*|/\*.*?\*/", text, re.DOTALL))
    return "\n".join(re.findall(r"#[^\n]*", text))


def missing(text):
    """What the text names and the tree does not have."""
    found = []
    for name in NAMED_FILE.findall(text):
        if not ELSEWHERE.fullmatch(name) and not any(f == name or f.endswith("/" + name) for f in FILES):
            found.append(name)
    for name in NAMED_FOLDER.findall(text):
        if not (ROOT / name).exists() and not any(f.rsplit(".", 1)[0] == name for f in FILES):
            found.append(name)
    for page, title in SECTION.findall(text):
        path = ROOT / "docs" / page
        if path.exists() and not re.search(rf"^#+ .*{re.escape(title)}", path.read_text(), re.MULTILINE):
            found.append(f'{page}, "{title}"')
    return found


@pytest.mark.parametrize("name", [n for n in FILES if n.endswith(CODE) and words.room_of(n) not in NOT_YET])
def test_comments_name_what_exists(name):
    gone = missing(comments(name, (ROOT / name).read_text()))
    assert not gone, f"comments of {name} name {gone}, which the tree does not have"


@pytest.mark.parametrize("text", ["// see src/plan/gone.h", "# tests/nowhere has it", '// docs/design.md, "The stables"', "// gone.cpp"])
def test_a_planted_name_is_found(text):
    assert missing(text)


def test_no_page_outside_the_tree_is_cited():
    """Whoever reads the code has the repository and nothing else."""
    pages = re.compile(r"\b[Aa]cceptance plan\b|\b[Tt]he issue's\b|\bissue (?:#?\d+|[A-Z]\d)\b")
    cited = [f"{n}: {m.group(0)}" for n in FILES if words.room_of(n) not in NOT_YET | {"lint"} for m in pages.finditer((ROOT / n).read_text(errors="ignore"))]
    assert not cited, "\n".join(cited)
