"""What `tools/count_description` finds in a tree that is written here, and that its patterns know the tree as it is."""

import subprocess

import description
import pytest

HEADER = """
#pragma once
namespace tilewright::hopper {
/// constexpr bool in_a_comment(const Tile& tile);
enum class Kind : unsigned char { dense, by_k = 3 };
struct Shape {
    int m = 128, n = 64;
    constexpr bool operator==(const Shape&) const = default;
};
struct Tile {
    Shape shape{};
    Kind kind = Kind::dense;
    bool swapped = false;
    Barrier full[4];
    static constexpr int most = 4;
    Tile() = default;
    constexpr explicit Tile(const Shape& of) : shape{of}, swapped(of.m < of.n) { kind = Kind::by_k; }
    constexpr int rows() const { return shape.m; }
    template <class T>
    constexpr bool has() const {
        return true;
    }
};
inline constexpr int constant = 3;
constexpr bool is_dense(const Tile& tile) { return tile.kind == Kind::dense; }
constexpr bool is_dense(Kind kind) { return kind == Kind::dense; }
template <class Visitor, int count = (2 > 1)>
constexpr void visit(const Tile& tile, Visitor& visitor) {
    const auto inner = [&](int x) { return x; };
}
constexpr Shape shapes[] = {{.m = 1}, {.m = 2}};
static_assert(is_dense(Tile{}));
}  // namespace tilewright::hopper
"""


@pytest.fixture
def tree(tmp_path):
    """Writes files; returns the tree of them."""

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return description.Tree(tmp_path)

    return write


def planted(**more):
    return {description.DESCRIPTION[0] + "tile.h": HEADER, **more}


def test_the_names_of_a_header(tree):
    names = description.description(tree(planted()))
    assert {(n.kind, n.owner, n.name) for n in names} == {
        ("enumerator", "Kind", "dense"),
        ("enumerator", "Kind", "by_k"),
        ("field", "Shape", "m"),
        ("field", "Shape", "n"),
        ("field", "Tile", "kind"),
        ("field", "Tile", "swapped"),
        ("field", "Tile", "full"),
        ("function", "Tile", "rows"),
        ("function", "Tile", "has"),
        ("function", "", "is_dense"),
        ("function", "", "visit"),
    }
    assert [n.name for n in names if description.is_boolean(n)] == ["has", "is_dense"]


def test_functions_of_a_tile_count_wherever_they_are(tree):
    other = "constexpr bool fits(const Tile& tile) { return true; }\nconstexpr int half(int x) { return x / 2; }\n"
    twins = "struct PlannedTile { int m = 1; };\nstruct Plan { int grid = 0; };\n"
    files = {"src/hopper/store/fits.h": other, "src/hopper/quantize/fits.h": other.replace("fits", "skipped"), "src/plan/planned_tile.h": twins}
    names = {n.name for n in description.description(tree(planted(**files)))}
    assert "fits" in names and not names & {"half", "skipped", "grid"}
    assert ("PlannedTile", "m") in {(n.owner, n.name) for n in description.description(tree({}))}


def test_a_tree_without_a_description_is_no_success(tree):
    with pytest.raises(SystemExit, match="expected those that describe a kernel"):
        description.description(tree({"src/hopper/gemm.h": ""}))


def test_places_that_know_pairs(tree):
    files = {
        "src/problem/gpu_routes.h": "struct Route;\n",
        "src/problem/gpu_routes.cpp": "// a table\nint x;\n",
        "src/launch/other.cpp": "const bool served = is_fp8(g.a.recipe) && is_mxfp4(g.b.recipe);\n",
        "src/launch/comment.cpp": "// is_fp8(g.a.recipe) && is_mxfp4(g.b.recipe)\n",
        "src/problem/recipe.cpp": "return is_accepted(a) && is_accepted(b);\n",
    }
    assert list(description.pairs(tree(files))) == ["src/problem/gpu_routes.cpp, src/problem/gpu_routes.h", "src/launch/other.cpp"]


def test_pretences(tree):
    assert not description.pretences(tree({"src/plan/choose.cpp": "// as_a_rule\nint x;\n"}))
    assert description.pretences(tree({"src/plan/new_name.cpp": "cost(as_a_rule(tile), work);\n"})) == [
        "src/plan/new_name.cpp: a tile is priced with another output"
    ]


def test_every_pretence_that_is_gone_is_named_once():
    rows = description.rows("pretence")
    assert len({(row["files"], row["pattern"]) for row in rows}) == len(rows) == 15


def test_a_k_block_is_followed_through_functions_that_exist():
    files, lost = description.k_block(description.Tree(description.sources.ROOT))
    assert not lost, "\n".join(["change the rows k_block of description.tsv:", *lost])
    assert sum(map(len, files.values())) == len(description.rows("k_block"))


def test_a_function_that_is_gone_or_doubled_is_lost(tree):
    text = "TILEWRIGHT_DEVICE int produce(Shared<tile>& shared);\n"
    files, lost = description.k_block(tree({"src/hopper/load/a.h": text, "src/hopper/moe/c.h": text}))
    assert list(files) == ["src/hopper/load/a.h"]
    assert len(lost) == len(description.rows("k_block")) - 1
    assert any("load/a.h, src/hopper/load/b.h" in row for row in description.k_block(tree({"src/hopper/load/b.h": text}))[1])


def test_lines_are_those_of_all_files_but_pages(tree):
    found = tree({"src/hopper/a.h": "1\n2\n", "src/hopper/README.md": "1\n", "src/hopper/moe/a.h": "1\n", "src/hopper/sub/a.tsv": "1\n"})
    assert description.lines(found, "src/hopper/*", without=description.OTHER_KERNELS) == 3


def test_a_first_call(tree):
    call = {"src/plan/a.cpp": "Geometry geometry(const Problem& p) {\n    return {};\n}\nint f() {\n    return geometry(p).m;\n}\n"}
    assert description.first_call(tree(call), "geometries") == ("", "1 lines of src call it; no test counts them")
    test = {"tests/plan/kernel_plan_test.cpp": "constexpr int geometries_of_a_first_call = 1;\n"}
    assert description.first_call(tree(test), "geometries") == ("1", "expected by tests/plan/kernel_plan_test.cpp")


def test_a_pack(tmp_path):
    path = tmp_path / "kernels.pack"
    assert description.pack(path) is None
    path.write_bytes(b"tilewright pack 1\n2\n1 a x\n1 b y\n12")
    assert description.pack(path) == (2, 34)
    path.write_bytes(b"ELF")
    with pytest.raises(SystemExit, match="expected a kernel pack"):
        description.pack(path)


def test_the_speed_of_the_learning_kernel(tree):
    assert description.learning_speed(tree({"docs/learn/README.md": "It runs.\n"}))[0] == ""
    page = {"docs/learn/gemm.md": "On an H100 it has 0.93 times the speed of the shipped kernel.\n"}
    assert description.learning_speed(tree(page)) == ("0.93", "docs/learn/gemm.md")


def test_the_command_prints_every_figure():
    done = subprocess.run([description.sources.ROOT / "tools/count_description", "--list"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    table = done.stdout.split("\n\n")[0].split("\n")
    assert len(table) == 2 + 12 and len({line.find(" 90 ") for line in table if " 90 " in line}) == 1
    assert "function role_of" in done.stdout and "field Kernel::" in done.stdout


def test_the_command_refuses_a_folder_without_kernels(tmp_path):
    done = subprocess.run([description.sources.ROOT / "tools/count_description", "--tree", tmp_path], capture_output=True, text=True)
    assert done.returncode == 2 and "expected a checkout" in done.stderr
