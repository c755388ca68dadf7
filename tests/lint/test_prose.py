"""Pages, comments, messages and commits have no more faults than prose.tsv records; each rule finds a planted one.

After a merge or a repair, `tools/prose --lower` writes the smaller numbers. A rule whose number is 0 has no exceptions except
those of prose_exempt.tsv.
"""

import prose
import pytest

LONG = " ".join(["word"] * 41) + "."


def rules(name, text):
    return {hit.rule for hit in prose.file_hits(name, text)}


def test_no_rule_has_more_hits_than_recorded():
    worse = prose.worse(prose.counts(), prose.recorded())
    lines = [f"{rule} in {scope}: {now} hits, {limit} recorded: tools/prose --list {rule}" for (rule, scope), (now, limit) in worse.items()]
    assert not lines, "\n" + "\n".join(lines)


def test_every_rule_is_recorded():
    assert list(prose.recorded()) == list(prose.counts()), "tools/prose --lower writes the new rules"


def test_every_exemption_is_needed():
    needed = {(files, rule) for files, names in prose.exempt() for rule in names for hit in prose.all_hits() if prose.is_exempt(hit) and hit.rule == rule}
    unused = {(files, rule) for files, names in prose.exempt() for rule in names} - needed
    assert not unused, f"prose_exempt.tsv leaves out what no page has: {unused}"


def test_numbers_only_fall():
    limits = {("alone", "pages"): 3}
    assert prose.worse({("alone", "pages"): 4}, limits) == {("alone", "pages"): (4, 3)}
    assert prose.worse({("behind", "pages"): 1}, limits) == {("behind", "pages"): (1, 0)}
    assert not prose.worse({("alone", "pages"): 3}, limits)


@pytest.mark.parametrize("pattern", prose.patterns(), ids=lambda pattern: pattern.rule)
def test_a_planted_pattern_is_found(pattern):
    for name, text in (
        ("docs/planted.md", f"# Title\n\nFirst line.\n- {pattern.planted}\n"),
        ("docs/planted.md", f"| Case | Text |\n|---|---|\n| one | {pattern.planted} |\n"),
        ("src/cpu/planted.cpp", f"int x;  // first\n/// {pattern.planted}\nint y;\n"),
        ("python/planted.py", f'def f():\n    """{pattern.planted}"""\n'),
    ):
        assert pattern.rule in rules(name, text), text
        assert pattern.rule not in rules(name, text.replace(pattern.planted, pattern.fine)), pattern.fine


@pytest.mark.parametrize("pattern", prose.patterns(), ids=lambda pattern: pattern.rule)
def test_code_is_not_prose(pattern):
    assert pattern.rule not in rules("docs/planted.md", f"Call `{pattern.planted}`:\n\n```\n{pattern.planted}\n```\n\n    {pattern.planted}\n")
    assert pattern.rule not in rules("src/cpu/planted.cpp", f'f("// {pattern.planted}");\n')


@pytest.mark.parametrize(
    ("rule", "name", "text"),
    [
        ("long-line", "docs/planted.md", "word " * 21 + "\n"),
        ("long-line", "docs/planted.md", "```\n" + "word " * 21 + "\n```\n"),
        ("sentence-40", "docs/planted.md", f"Short one.\n\n{LONG.replace(' word', chr(10) + 'word', 3)}\n"),
        ("sentence-40", "docs/planted.md", f"1. {LONG}\n"),
        ("sentence-25", "docs/planted.md", " ".join(["word"] * 26)),
        ("sentence-40", "src/cpu/planted.h", "// " + LONG.replace("word word", "word\n// word", 1) + "\n"),
        ("sentence-40", "src/cpu/planted.h", f"/* {LONG} */\n"),
        ("sentence-40", "src/cpu/planted.h", "int x;  // " + LONG.replace("word word", "word\n        // word", 1) + "\n"),
        ("sentence-40", "python/planted.py", f'"""Title.\n\n{LONG}\n"""\n'),
        ("sentence-25", "tests/cpu/planted_test.cpp", f"// {LONG}\n"),
        ("semicolons", "docs/planted.md", "One; two; three.\n"),
        ("parentheses", "docs/planted.md", "One (1), two (2) and three (3).\n"),
        ("page-not-linked", "docs/planted.md", "See `docs/numerics.md`.\n"),
        ("page-not-linked", "docs/planted.md", "| See | numerics.md |\n"),
        ("page-not-linked", "README.md", "See [this](docs/torch.md) and docs/numerics.md.\n"),
        ("table-without-header", "docs/planted.md", "| a | b |\n| c | d |\n"),
        ("table-without-header", "docs/planted.md", "| a | b |\n|---|---|\n| c | d |\n\n| e | f |\n"),
        ("table-without-header", "docs/planted.md", "| a | b |\n|---|\n| c | d |\n"),
        ("table-without-header", "docs/planted.md", "- item\n\n  | a | b |\n  | c | d |\n"),
        ("wide-cell", "docs/planted.md", f"| a | b |\n|---|---|\n| c | {LONG} |\n"),
        ("old-message", "src/cpu/planted.cpp", 'f("k: 3 given, 4 expected");\n'),
        ("old-message", "tests/cpu/planted_test.cpp", 'f("k: 3 given, "\n  "4 expected");\n'),
        ("old-message", "tests/cpu/planted_test.cpp", 'EXPECT(has("k: 3 given, 4"));\n'),
        ("old-message", "python/planted.py", "raise ValueError(f'k: {k} given, {n} expected')\n"),
        ("old-message", "tools/planted", 'echo "$1 given; yes or no expected"\n'),
    ],
)
def test_a_planted_fault_is_found(rule, name, text):
    assert rule in rules(name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docs/planted.md", "Word word. " * 9 + "\n" + "https://example.com/" + "a" * 100 + "\n"),
        ("docs/planted.md", "One fact, e.g. this one. " + "word " * 9 + "is\n`a b c d e f g h i j k l m n o p q r s t u v w x y z`.\n"),
        ("docs/planted.md", "- " + "word " * 15 + "\n- " + "word " * 15 + "\n"),
        ("docs/planted.md", "See [numerics](docs/numerics.md), [`docs/torch.md`](torch.md) and `docs/planted.md`.\n"),
        ("docs/planted.md", "```\ncat docs/numerics.md\n| a |\n```\n"),
        ("docs/planted.md", "| a | b |\n|:--|--:|\n| c `x|y` | d |\n\nText.\n\n| a |\n|---|\n| " + "`a b c` " * 5 + " |\n"),
        ("docs/planted.md", "---\ntitle: " + "word " * 15 + "\nabout: " + "word " * 15 + "\n---\nWord.\n"),
        ("docs/planted.md", ":::{note} " + "word " * 12 + "\n" + "word " * 18 + "\n:::\n"),
        ("docs/planted.md", "- item\n\n  | a | b |\n  |---|---|\n  | " + "word " * 19 + " | " + "word " * 19 + " |\n"),
        ("src/cpu/planted.h", "int x;  // " + "word " * 15 + "\nint y;  // " + "word " * 15 + "\n"),
        ("src/cpu/planted.h", "// " + "word " * 15 + "\n//\n// " + "word " * 15 + "\n"),
        ("src/cpu/planted.cpp", 'f("k: got 3; expected 4. Pass the shape that was given, as the table says.");\n'),
        ("src/cpu/generated.cpp", f"// {LONG}\n"),
        ("LICENSE", f"{LONG}\n"),
    ],
)
def test_good_text_is_not_found(name, text):
    assert not rules(name, text)


@pytest.mark.parametrize("subject", ["Add a rule", "lint: Add a rule", "lint: add a rule.", "lint:add", "x: " + "y" * 70])
def test_a_planted_subject_is_found(subject):
    assert list(prose.subject_faults(subject))


@pytest.mark.parametrize("subject", ["lint: add a rule", "docs/torch.md: say it once", "docs, cli: `make run` builds less", "src/hopper: x2"])
def test_a_good_subject_is_not_found(subject):
    assert not list(prose.subject_faults(subject))
