"""The pages for those who change the code name functions that exist, and the picture of a call matches the code."""

import functools
import re

import pytest
import sources
import test_comments

ROOT = sources.ROOT
PAGES = sorted([*(ROOT / "docs/contributing").glob("*.md"), *(ROOT / "src").rglob("*.md")])
ARCHITECTURE = (ROOT / "docs/contributing/architecture.md").read_text()
# Code whose words pages use.
CODE = re.compile(r"(?:(?:src|include|tests/(?!lint/)|tools|python|cmake|benchmarks|docs/learn)\b(?!.*\.(?:md|jsonl)$)|CMake|Makefile)")
PICTURE = re.search(r"^## One call\n\n((?: {4}.*\n|\n)+)", ARCHITECTURE, re.MULTILINE)[1]
# Such as "`pack` in" a file, or "`decodes_activations` and `decodes_weights` in" a file.
NAMED = re.compile(r"((?:`\w+`(?:,| and) )*`\w+`) in `(src/[\w/]+\.(?:h|cpp))`")


def code(file):
    return sources.code(file, (ROOT / file).read_text())


def defines(file, name):
    """Whether a function, a class or a constant of this name is defined there, and not only used."""
    function = rf"^(?!.*\b(?:return|throw|else)\b)[\w:<>&*,\[\] ]*[\w>&*\]][ &*]+(?:\w+::)?{name}\("
    other = rf"(?:struct|class) {name}\b|constexpr [\w:<> ]+ {name}(?:\[\])? ="
    return any(name in line and re.search(f"{function}|{other}", line) for line in code(file).split("\n"))


def named_functions(page):
    text = re.sub(r"\s*\n\s*", " ", page.read_text())
    return [(name, file) for names, file in NAMED.findall(text) for name in re.findall(r"`(\w+)`", names)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_functions_are_where_the_page_says(page):
    wrong = [f"`{name}` in `{file}`" for name, file in named_functions(page) if not (ROOT / file).is_file() or not defines(file, name)]
    assert not wrong, wrong


def test_functions_are_found():
    assert ("promote_row", "src/hopper/multiply/scales_promote.h") in named_functions(ROOT / "docs/contributing/architecture.md")
    assert defines("src/plan/shipped_kernels.cpp", "shipped_kernels") and not defines("src/plan/shipped_kernels.cpp", "kernels_of_wolves")
    assert not defines("src/cuda/runtime.cpp", "lower"), "it is called there, and defined elsewhere"


@functools.cache
def words_of_code(with_cpu):
    """All words of code. Names of the CPU's kernels, such as `pack_columns`, are left out if they are not meant."""
    files = [file for file in sources.files() if CODE.match(file) and (with_cpu or not file.startswith("src/cpu/"))]
    return {word for file in files for word in re.findall(r"\w+", sources.text_of(file))}


def unknown_names(text):
    """Names that no code has. Those of the CPU's kernels count where the text names their folder."""
    paragraphs = re.split(r"\n(?=[|#\n-])", text)
    named = [(paragraph, name) for paragraph in paragraphs for name in re.findall(r"`([A-Za-z_][\w:]*)`", paragraph)]
    return [name for paragraph, name in named if not {*re.findall(r"\w+", name)} <= words_of_code("src/cpu/" in paragraph)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_are_in_the_code(page):
    assert not unknown_names(page.read_text())


def test_names_that_are_gone_are_found():
    assert unknown_names("| `pack_lines`, `pack_columns_of_old` | fp8 |\n| `shipped_kernels` | all |") == ["pack_columns_of_old"]
    assert unknown_names("`add_panel` adds.") == ["add_panel"] and not unknown_names("`add_panel` in `src/cpu/fast/micro_kernels.cpp`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_exist(page):
    """Also names without a folder, which test_docs.py does not judge."""
    spans = re.findall(r"`([^`\n]+)`", page.read_text())
    assert not test_comments.missing("\n".join(span for span in spans if "*" not in span))


def test_each_folder_of_device_code_has_a_page():
    folders = {path.parent for path in (ROOT / "src/hopper").rglob("*.h")}
    assert not [str(folder.relative_to(ROOT)) for folder in folders if not (folder / "README.md").is_file()]
    listed = (ROOT / "src/hopper/README.md").read_text()
    assert not [folder.name for folder in folders if folder.name != "hopper" and f"]({folder.name}/README.md)" not in listed]


@pytest.mark.parametrize("page", sorted((ROOT / "src/hopper").glob("*/README.md")), ids=lambda page: page.parent.name)
def test_a_page_names_the_files_that_open_its_folder(page):
    """A new reader of a folder starts with a table that has most of its files."""
    files = {path.name for path in page.parent.glob("*.h")}
    named = {name for name in files if f"`{name}`" in page.read_text()}
    assert len(named) * 2 >= len(files), f"{page.parent.name} has files that its page does not name: {sorted(files - named)}"


def steps():
    """(the line's depth, function, file) of the picture, in its order."""
    return [(line.index(name), name, file) for line in PICTURE.split("\n") for name, file in re.findall(r"(\w+) \((src/[\w/.]+)\)", line)]


def test_the_picture_has_functions_that_exist():
    assert len(steps()) >= 12
    wrong = [f"{name} ({file})" for _, name, file in steps() if not re.search(rf"\b{name}\(", code(file))]
    assert not wrong, wrong


def test_each_caller_of_the_picture_calls_its_steps():
    first, *rest = steps()
    on_gpu = next(i for i, (_, _, file) in enumerate(rest) if file == "src/cuda/runtime.cpp" and rest[i][1] == "run")
    for caller, called in ((first[2], rest[: on_gpu + 1]), (rest[on_gpu][2], [s for s in rest[on_gpu + 1 :] if "hopper" not in s[2]])):
        missing = [name for _, name, _ in called if not re.search(rf"\b{name}\(", code(caller))]
        assert not missing, f"{caller} does not call {missing}"


def test_numbers_of_the_picture_ascend():
    numbers = [int(n) for n in re.findall(r"\| +(\d+)  \S", PICTURE)]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) >= 8


def test_barriers_and_roles_of_the_picture_are_those_of_gemm_h():
    tables = (ROOT / "src/hopper/gemm.h").read_text()
    for word in ("full", "empty", "staged", "stored"):
        assert re.search(rf"\b{word}\b", PICTURE) and re.search(rf"^// {word} +\|", tables, re.MULTILINE), word
    for warps, role in (("0", "load"), ("4-11", "multiply"), ("3", "store")):
        assert re.search(rf"^// {warps} +\| {role}\b", tables, re.MULTILINE), role
        assert re.search(rf"warps? {warps}\b", PICTURE) and re.search(rf"\b{role}\b", PICTURE), role
