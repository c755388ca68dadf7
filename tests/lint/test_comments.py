"""What a comment names exists: files by their path or end of path, folders of the tree, sections of a page."""

import re

import pytest
import sources

ROOT = sources.ROOT
FILES = sources.files()
CODE = (".h", ".cpp", ".cuh", ".S", ".in", ".py", ".cmake", "CMakeLists.txt", "Makefile")
NAMED_FILE = re.compile(r"(?<![\w/.<*{}-])((?:[\w-]+/)*[\w-]+\.(?:h|cpp|py|md|tsv|cmake|jsonl|bin))\b(?![\w*])")
NAMED_FOLDER = re.compile(r"(?<![\w/.<-])((?:src|tests|docs|python|tools|benchmarks|examples|include|cmake)(?:/[\w-]+)+)(?![\w/.*-])")
SECTION = re.compile(r'(\w+\.md),? (?:section )?"([^"\n]+)"')

# Files of others, and files that are made when the program or the build runs.
ELSEWHERE = re.compile(r"(?:features|cblas|cublas_api|cublasLt|library_types|cupti_\w+|dlpack)\.h|.*/?commit\.h|x\.cpp|\w*generated.*")


def missing(text):
    """The names in the text that the tree does not have."""
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


def test_comments_name_what_exists():
    gone = {}
    for name in FILES:
        if name.endswith(CODE):
            found = missing("\n".join(c.text for c in sources.comments(name, sources.text_of(name))))
            gone |= {name: found} if found else {}
    assert not gone, f"comments name what the tree does not have: {gone}"


@pytest.mark.parametrize("text", ["// see src/plan/gone.h", "# tests/nowhere has it", '// docs/numerics.md, "The stables"', "// gone.cpp"])
def test_a_planted_name_is_found(text):
    assert missing(text)


CITES_OUTSIDE = re.compile(r"\b[Aa]cceptance plan\b|\b[Tt]he issue's\b|\bissue (?:#?\d+|[A-Z]\d)\b")


def test_no_page_outside_the_tree_is_cited():
    """Readers of the code have the repository and nothing else."""
    texts = [n for n in FILES if sources.room_of(n) != "lint" and not n.endswith((".bin", ".png", ".jsonl"))]
    cited = [f"{n}: {m.group(0)}" for n in texts for m in CITES_OUTSIDE.finditer(sources.text_of(n))]
    assert not cited, "\n".join(cited)
    assert CITES_OUTSIDE.search("see the issue's table") and CITES_OUTSIDE.search("issue 37")
