"""Which files tools/tidy_groups.py lets clang-tidy check as one: none that share a name, have other flags or are no library code."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SPECIFICATION = importlib.util.spec_from_file_location("tidy_groups", ROOT / "tools/tidy_groups.py")
tidy_groups = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(tidy_groups)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Writes files whose anonymous namespaces hold these lines; returns their entries."""
    monkeypatch.chdir(tmp_path)

    def write(files, flags=lambda file: "-O2"):
        entries = {}
        for file, line in files.items():
            path = tmp_path / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"namespace {{\n{line}\n}}  // namespace\nvoid shared_name();\n")
            entries[file] = {"file": str(path), "command": f"c++ {flags(file)} -o {path.stem}.o -c {path}"}
        return entries

    return write


def test_files_without_a_common_name_are_one_group(tree):
    files = {f"src/plan/f{i}.cpp": f"int name_{i}() {{ return {i}; }}" for i in range(7)}
    assert tidy_groups.grouped(tree(files)) == [list(files)]


@pytest.mark.parametrize(
    "line",
    ["struct Work {", "class Work {", "enum class Work { a };", "int Work(int x) {", "constexpr int Work = 3;", "const Table Work{1};", "using Work = int;"],
)
def test_files_with_a_common_name_are_not(tree, line):
    groups = tidy_groups.grouped(tree({"src/plan/a.cpp": "template <class T>\nstruct Work {\n    int other = 0;\n};", "src/plan/b.cpp": line}))
    assert len(groups) == 2


def test_folders_flags_and_programs_stay_apart(tree):
    files = {"src/plan/a.cpp": "", "src/cpu/b.cpp": "", "src/cpu/c.cpp": "", "examples/d.cpp": "", "examples/e.cpp": ""}
    groups = tidy_groups.grouped(tree(files, flags=lambda file: "-mavx2" if file == "src/cpu/c.cpp" else "-O2"))
    assert sorted(groups) == sorted([file] for file in files)


def test_flags_that_no_check_sees_do_not_keep_files_apart(tree):
    flags = {"src/plan/a.cpp": "-O2 -fPIC -Wall", "src/plan/b.cpp": "-O1 -DNDEBUG -fPIE"}
    assert tidy_groups.grouped(tree(dict.fromkeys(flags, ""), flags=flags.get)) == [list(flags)]


def test_a_group_has_a_limit(tree):
    files = {f"src/plan/f{i:02}.cpp": "" for i in range(53)}
    assert sorted(map(len, tidy_groups.grouped(tree(files)))) == [5, 24, 24]


def test_a_file_is_read_with_the_headers_that_it_includes():
    command = "c++ -Winvalid-pch -include /b/x.dir/cmake_pch.hxx -include /s/glibc_compat.h -DFMT_HEADER_ONLY=1 -o a.o -c a.cpp"
    assert tidy_groups.own_headers(command).split() == ["c++", "-include", "/s/glibc_compat.h", "-o", "a.o", "-c", "a.cpp"]
