"""Counts what describes a kernel. `tools/count_description` prints the counts and the targets."""

import argparse
import fnmatch
import functools
import pathlib
import re
from typing import NamedTuple

import sources

# The folders of headers that describe a kernel, by the names that they have or had, so that older trees can be counted.
DESCRIPTION = ("src/hopper/description/", "src/hopper/tile/")
# Folders of src/hopper with other kernels than the products.
OTHER_KERNELS = ("src/hopper/quantize/", "src/hopper/prepare/", "src/hopper/pack/", "src/hopper/moe/")
# Types that say the same to the planner, in headers that also have other types.
TWINS = {"PlannedTile", "Multicast", "KernelVariant"}
TWIN_HEADERS = ("include/tilewright/plan.h", "src/plan/planned_tile.h")
# How a condition on the formats of both operands looks, in these folders. Two files say what a recipe is, for all backends.
BOTH_SIDES = [
    re.compile(rf"is_\w+\([^()]*\b{one}\b[^()]*\).*(&&|\|\|).*is_\w+\([^()]*\b{other}\b[^()]*\)") for one, other in (("a", "b"), ("b", "a"))
]
FOLDERS_WITH_PAIRS = ("src/problem/", "src/plan/", "src/launch/", "src/hopper/", "src/api/", "src/cuda/", "src/cli/")
DEFINE_RECIPES = ("src/problem/recipe.cpp", "src/problem/canonical_order.h")
# A test that counts what a first call computes states its expectation so.
FIRST_CALL = r"constexpr int {}_of_a_first_call = (\d+);"
# The page of the learning kernel, or a record, states its speed so.
LEARNING_SPEED = re.compile(r"(\d\.\d+) times the speed of the shipped kernel")
PACK = "build/release/src/cuda/kernels.pack"

TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|::|->|&&|<=>|==|[^\s\w]")
OPENING, CLOSING = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
NOT_FIELDS = {"using", "static_assert", "friend", "typedef", "template", "public", "private", "protected", "extern", "namespace"}


class Name(NamedTuple):
    file: str
    kind: str  # field, function, enumerator
    owner: str  # the class or enumeration; empty for a free function
    name: str
    type: str  # the words ahead of the name of a field or function
    parameters: str = ""

    def __str__(self):
        return f"{self.file}: {self.kind} {self.owner + '::' if self.owner else ''}{self.name}"


class Tree:
    """The files of a checkout, by their paths in the repository."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.text = functools.cache(lambda name: (self.root / name).read_text(errors="ignore"))
        self.code = functools.cache(lambda name: sources.code(name, self.text(name)))

    def files(self, *globs):
        """Files below src, include, tests, docs or benchmarks whose paths match; `*` matches folders too."""
        top = {glob.split("/")[0] for glob in globs}
        found = (p.relative_to(self.root).as_posix() for folder in sorted(top) for p in (self.root / folder).rglob("*") if p.is_file())
        return sorted(name for name in found if any(fnmatch.fnmatchcase(name, glob) for glob in globs))


# ---- Names of a header


def after(tokens, at):
    """The place after the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i] in OPENING) - (tokens[i] in CLOSING)
        if depth == 0:
            return i + 1
    return len(tokens)


def without_template(head):
    """The words of a declaration after `template <...>`."""
    while head[:1] == ["template"]:
        depth, i = 0, 1
        for i in range(1, len(head)):
            depth += (head[i] == "<") - (head[i] == ">")
            if depth == 0:
                break
        head = head[i + 1 :]
    return head


def top_level(head, word):
    """The place of a word outside of brackets and template arguments, or -1."""
    depth = 0
    for i, token in enumerate(head):
        if token == word and depth == 0:
            return i
        depth += (token in ("(", "[", "{", "<")) - (token in (")", "]", "}", ">"))
    return -1


def declarators(head):
    """(name, type) of each variable that a declaration without its semicolon declares."""
    parts, depth, start = [], 0, 0
    for i, token in enumerate(head):
        depth += (token in ("(", "[", "{", "<")) - (token in (")", "]", "}", ">"))
        if token == "," and depth == 0:
            parts, start = [*parts, head[start:i]], i + 1
    names, shared = [], None
    for part in [*parts, head[start:]]:
        ends = [place for place in (top_level(part, sign) for sign in ("=", "{", "[", ":")) if place >= 0]
        words = part[: min(ends)] if ends else part
        if words and re.match(r"[A-Za-z_]", words[-1]):
            shared = words[:-1] if shared is None else shared
            names.append((words[-1], " ".join(shared)))
    return names


def function(head):
    """(name, type, parameters), or nothing: a variable, an operator, a constructor or a deleted function."""
    open_at = next((i for i, token in enumerate(head) if token == "("), -1)
    if open_at < 1 or "operator" in head or not re.match(r"[A-Za-z_]", head[open_at - 1]):
        return None
    if "=" in head[:open_at] or head[0] == "static_assert" or open_at == 1:
        return None
    end = after(head, open_at)
    return head[open_at - 1], " ".join(head[: open_at - 1]), " ".join(head[open_at + 1 : end - 1])


def is_constructor(head, owner):
    open_at = next((i for i, token in enumerate(head) if token == "("), 0)
    return owner != "" and head[open_at - 1 : open_at] == [owner]


def names_of(file, tokens, owner=""):
    """The names that a scope declares, and those of its classes and enumerations."""
    found, head, i = [], [], 0
    while i < len(tokens):
        token = tokens[i]
        if token == "#":  # directives are gone; a stray one is not C++
            i += 1
        elif token in ("public", "private", "protected") and tokens[i + 1 : i + 2] == [":"]:
            i += 2
        elif token == "{":
            end = after(tokens, i)
            words = without_template(head)
            inside = tokens[i + 1 : end - 1]
            if words[:1] == ["namespace"] or words[:2] == ["inline", "namespace"]:
                found += names_of(file, inside, owner)
                head = []
            elif words[:1] == ["enum"]:
                name = next(w for w in words[1:] if w not in ("class", "struct"))
                found += [Name(file, "enumerator", name, enumerator, "") for enumerator, _ in declarators(inside)]
                head = []
            elif words[:1] and words[0] in ("struct", "class", "union"):
                found += names_of(file, inside, words[1] if len(words) > 1 else owner)
                head = []
            elif is_constructor(words, owner) and tokens[i - 1] in (")", "}"):  # its body, and not a base's initialiser
                head = []
            elif function(words) and not is_constructor(words, owner):
                found.append(Name(file, "function", owner, *function(words)))
                head = []
            else:  # an initialiser
                head = [*head, "{", "}"]
            i = end
        elif token == ";":
            words = without_template(head)
            if owner and words and words[0] not in NOT_FIELDS and "static" not in words:
                if is_constructor(words, owner):
                    pass
                elif function(words):
                    found.append(Name(file, "function", owner, *function(words)))
                elif "operator" not in words and words[0] not in ("struct", "class", "enum"):
                    found += [Name(file, "field", owner, name, kind) for name, kind in declarators(words)]
            head, i = [], i + 1
        elif token in ("(", "["):
            end = after(tokens, i)
            head, i = [*head, *tokens[i:end]], end
        else:
            head, i = [*head, token], i + 1
    return found


def names_in(tree, file):
    code = re.sub(r"^\s*#.*$", "", tree.code(file), flags=re.MULTILINE)
    return names_of(file, TOKEN.findall(code))


def description(tree):
    """Each name once: the overloads of a function are one."""
    headers = tree.files(*(folder + "*.h" for folder in DESCRIPTION))
    if not headers:
        raise SystemExit(f"{tree.root}: got no header in {', '.join(DESCRIPTION)}; expected those that describe a kernel. Change DESCRIPTION.")
    found = [name for file in headers for name in names_in(tree, file)]
    types = {name.owner for name in found if name.owner}
    for file in TWIN_HEADERS:
        if (tree.root / file).is_file():
            found += [name for name in names_in(tree, file) if name.owner in TWINS]
    for file in tree.files("src/hopper/*.h"):
        if file not in headers and not file.startswith(OTHER_KERNELS):
            found += [n for n in names_in(tree, file) if n.kind == "function" and "constexpr" in n.type and types & set(n.parameters.split())]
    # A field that is a struct of the description has no meaning beyond the fields of that struct.
    found = [name for name in found if name.kind != "field" or not types & set(name.type.split()) or is_enumeration(found, name.type)]
    return list({(name.kind, name.owner, name.name): name for name in found}.values())


def is_enumeration(names, type_words):
    return any(n.kind == "enumerator" and n.owner in type_words.split() for n in names)


def is_boolean(name):
    return name.kind == "function" and "bool" in name.type.split()


# ---- Places


def rows(figure):
    return [row for row in sources.table("description.tsv") if row["figure"] == figure]


def with_pattern(tree, row):
    return [name for name in tree.files(row["files"]) if name.endswith(sources.C_LIKE) and re.search(row["pattern"], tree.code(name))]


def pairs(tree):
    """{file: why} of the places that know which operands go together."""
    found = {}
    for row in rows("pair"):
        files = with_pattern(tree, row)
        # One place may be a header and a source file, or several headers of one folder.
        if files:
            found[", ".join(files)] = row["what"]
    known = {file for files in found for file in files.split(", ")}
    for folder in FOLDERS_WITH_PAIRS:
        for file in tree.files(folder + "*.h", folder + "*.cpp"):
            if file not in known and file not in DEFINE_RECIPES and any(p.search(tree.code(file)) for p in BOTH_SIDES):
                found[file] = "a condition on both operands; not in description.tsv"
    return found


def pretences(tree):
    return [f"{', '.join(files)}: {row['what']}" for row in rows("pretence") if (files := with_pattern(tree, row))]


def k_block(tree):
    """({file: functions}, [functions that are defined nowhere or twice])"""
    found, lost = {}, []
    for row in rows("k_block"):
        files = [file for file in with_pattern(tree, row) if not file.startswith(OTHER_KERNELS)]
        if len(files) != 1:
            lost.append(f"{row['pattern']} ({row['what']}): {', '.join(files) or 'nowhere'}")
        for file in files[:1]:
            found.setdefault(file, []).append(row["what"])
    return found, lost


# ---- Numbers


def lines(tree, *globs, without=()):
    files = [name for name in tree.files(*globs) if not name.startswith(without) and not name.endswith(".md")]
    return sum(tree.text(name).count("\n") for name in files)


def first_call(tree, what):
    """The number that a test expects, or how many places call the function."""
    for file in tree.files("tests/*.cpp", "tests/*.h"):
        if match := re.search(FIRST_CALL.format(what), tree.text(file)):
            return match[1], f"expected by {file}"
    call = re.compile({"geometries": r"(?<![\w.>])geometry\((?!const)", "preparations": r"(?<![\w.>])(prepared|preparation)\((?!const)"}[what])
    # Definitions of the functions are not calls, and begin a line.
    count = sum(
        not re.match(r"\w", line) for file in tree.files("src/*.cpp", "src/*.h") for line in tree.code(file).split("\n") if call.search(line)
    )
    return "", f"{count} lines of src call it; no test counts them"


def pack(path):
    """(kernels, bytes); None without a file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        if file.readline() != b"tilewright pack 1\n":
            raise SystemExit(f"{path}: got another file; expected a kernel pack. Name the file that the build writes.")
        return int(file.readline()), path.stat().st_size


def learning_speed(tree):
    for file in tree.files("docs/one_kernel.md", "docs/learn/*.md"):
        if match := LEARNING_SPEED.search(tree.text(file)):
            return match[1], file
    return "", 'no page says "0.97 times the speed of the shipped kernel"'


class Figure(NamedTuple):
    name: str
    now: str
    target: str
    how: str
    found: tuple = ()


def figures(tree, pack_file):
    names = description(tree)
    kinds = {kind: sum(n.kind == kind for n in names) for kind in ("field", "function", "enumerator")}
    booleans = [n for n in names if is_boolean(n)]
    places, faked, (passed, lost) = pairs(tree), pretences(tree), k_block(tree)
    hopper = lines(tree, "src/hopper/*", without=OTHER_KERNELS)
    plan, launch, layer = lines(tree, "src/plan/*"), lines(tree, "src/launch/*"), lines(tree, "src/launch/moe*")
    shipped = pack(pack_file)
    speed, page = learning_speed(tree)
    result = [
        Figure(
            "names that describe a kernel",
            str(len(names)),
            "90",
            f"{kinds['field']} fields, {kinds['function']} functions, {kinds['enumerator']} enumerators",
            tuple(map(str, names)),
        ),
        Figure("boolean functions of the description", str(len(booleans)), "12", "functions that return bool", tuple(map(str, booleans))),
        Figure("places that know which operands go together", str(len(places)), "1", "files, or headers of one folder", tuple(map(": ".join, places.items()))),
    ]
    for what in ("geometries", "preparations"):
        now, how = first_call(tree, what)
        result.append(Figure(f"{what} in a first call", now or "-", "1", how))
    result += [
        Figure("pretences", str(len(faked)), "2", f"of {len(rows('pretence'))} that are known", tuple(faked)),
        Figure(
            "files of one k-block, plainest kernel",
            str(len(passed)),
            "8",
            f"{len(rows('k_block')) - len(lost)} functions" + (f"; update description.tsv: {len(lost)} not found" if lost else ""),
            (*(f"{file}: {'; '.join(what)}" for file, what in passed.items()), *(f"not found once: {row}" for row in lost)),
        ),
        Figure(
            "lines: src/hopper's products, src/plan, src/launch",
            f"{hopper + plan + launch:,}",
            "11,500",
            f"{hopper:,} + {plan:,} + {launch:,}" + (f", {layer:,} of them launch/moe*" if layer else ""),
        ),
        Figure("lines: tests/emulator", f"{lines(tree, 'tests/emulator/*'):,}", "6,500", "all files but pages"),
        Figure("kernels in the pack", f"{shipped[0]}" if shipped else "-", "384", str(pack_file) if shipped else f"left out: there is no {pack_file}"),
        Figure("bytes of the pack, MB", f"{shipped[1] / 1e6:.1f}" if shipped else "-", "30.5", "the same file" if shipped else "left out too"),
        Figure("speed of the learning kernel", speed or "-", "0.9", page),
    ]
    return result


def table(found):
    cells = [("figure", "now", "target", "counted"), *(figure[:4] for figure in found)]
    widths = [max(len(row[i]) for row in cells) for i in range(4)]
    align = [str.ljust, str.rjust, str.rjust, str.ljust]
    printed = ["  ".join(align[i](row[i], widths[i]) for i in range(4)).rstrip() for row in cells]
    return "\n".join([printed[0], "-" * len(max(printed, key=len)), *printed[1:]])


def main():
    parser = argparse.ArgumentParser(
        prog="tools/count_description",
        description="Counts what describes a kernel, and what a reader must know to change one, and the targets that were set.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"""how it counts:
  names           fields, functions and enumerators of the headers in {', '.join(DESCRIPTION)} and of the planner's twins, and
                  constexpr functions of such types elsewhere in src/hopper; an overloaded name counts once
  places, pretences, functions of a k-block: the patterns of tests/lint/description.tsv
  first call      a test that counts states "constexpr int geometries_of_a_first_call = 1;" (and preparations); nothing is run
  lines           of all files but pages; src/hopper without quantize/, prepare/, pack/ and moe/
  learning kernel a page of docs/learn or benchmarks/results says "0.95 times the speed of the shipped kernel"

examples:
  tools/count_description --list
  git archive 14b2976 | tar x -C /tmp/before && tools/count_description --tree /tmp/before""",
    )
    parser.add_argument("--list", action="store_true", help="also print every name, place and file that was counted")
    parser.add_argument("--tree", type=pathlib.Path, default=sources.ROOT, help="another checkout to count (default: this one)")
    parser.add_argument("--pack", type=pathlib.Path, help=f"a pack file (default: {PACK} of the tree)")
    options = parser.parse_args()
    if not (options.tree / "src/hopper").is_dir():
        parser.error(f"--tree: got {options.tree}; expected a checkout with src/hopper.")
    found = figures(Tree(options.tree), options.pack or options.tree / PACK)
    print(table(found))
    if options.list:
        for figure in found:
            if figure.found:
                print(f"\n{figure.name}:", *figure.found, sep="\n  ")


if __name__ == "__main__":
    main()
