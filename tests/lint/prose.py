"""Finds sentences, tables, links and words that a reader stumbles over, in pages, comments, docstrings, messages and commits.

`tools/prose` prints the hits. test_prose.py compares their number with prose.tsv, where the numbers only fall.
"""

import argparse
import fnmatch
import functools
import pathlib
import re
import subprocess
import sys
from collections import Counter
from typing import NamedTuple

import sources

HERE = pathlib.Path(__file__).parent
COUNTS = HERE / "prose.tsv"
# The folders of each scope; pages are all Markdown files.
SCOPES = {"code": ("include/", "src/", "python/"), "rest": ("tests/", "tools/", "benchmarks/", "examples/", "cmake/", "Makefile", "CMakeLists.txt")}
CODE = (*sources.C_LIKE, ".py", ".cmake", "CMakeLists.txt", "Makefile")
# Generated text; this lint, which quotes what it forbids.
SKIPPED = re.compile(r"generated|^tests/lint/(test_)?(prose|patterns)")
COLUMNS, LONG, TOO_LONG, CELL, SUBJECT = 100, 25, 40, 20, 72
# The first commits have other forms: those after this one are checked.
BEFORE_THE_RULE = "88b07bad4cf160b78fbb2270b82abd12e2e20764"


class Hit(NamedTuple):
    scope: str
    rule: str
    path: str
    line: int
    text: str


class Block(NamedTuple):
    """A paragraph, a list item, a heading or the cell of a table, on one line."""

    line: int
    text: str
    kind: str  # "text" has sentences; "heading", "cell"


class Pattern(NamedTuple):
    rule: str
    regex: re.Pattern
    write: str
    planted: str
    fine: str


@functools.cache
def patterns():
    return [Pattern(r["rule"], re.compile(r["pattern"], re.MULTILINE), r["write"], r["planted"], r["fine"]) for r in sources.table("patterns.tsv")]


@functools.cache
def exempt():
    return [(r["files"], frozenset(r["rules"].split(","))) for r in sources.table("prose_exempt.tsv")]


# Markdown

TABLE = re.compile(r" {0,3}\|")  # more spaces are code
ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")
SEPARATOR = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", re.sub(r"`[^`]*`", lambda m: m[0].replace("|", "/"), line.strip().strip("|")))]


def without_code(text):
    """Blanks for front matter, fenced code, HTML comments and pictures; lines keep their numbers."""
    hidden = r"\A---\n.*?\n---$|^([ \t]*)(```+|~~~+)[^\n]*\n.*?^\1\2[ \t]*$|<!--.*?-->|<(picture|svg|table)\b.*?</\3>"
    return re.sub(hidden, lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE)


def page_blocks(text):
    """The blocks of a page; code is left out."""
    blocks, block, start = [], [], 0
    lines = without_code(text).split("\n")

    def end():
        if block:
            blocks.append(Block(start, " ".join(block), "text"))
            block.clear()

    for number, line in enumerate(lines, 1):
        item = ITEM.match(line)
        if not line.strip() or line.startswith("#") or TABLE.match(line) or line.startswith((":::", "+++")):  # MyST: ":::{note}", "+++"
            end()
            if line.startswith("#"):
                blocks.append(Block(number, line.lstrip("# "), "heading"))
            elif TABLE.match(line) and not SEPARATOR.match(line):
                blocks += [Block(number, cell, "cell") for cell in cells(line) if cell]
            continue
        if not block and line.startswith(("    ", "\t")) and not item:
            continue  # indented code
        if item:
            end()
        if not block:
            start = number
        block.append(line[item.end() if item else 0 :].strip())
    end()
    return blocks


def headless_tables(text):
    """Lines that begin with `|` and have no line of dashes after the first of them."""
    lines = ["", *without_code(text).split("\n"), ""]
    for number in range(1, len(lines) - 1):
        if TABLE.match(lines[number]) and not TABLE.match(lines[number - 1]):
            if not (SEPARATOR.match(lines[number + 1]) and len(cells(lines[number])) == len(cells(lines[number + 1]))):
                yield number, lines[number]


NAMED_PAGE = re.compile(r"(?<![\w/.:-])((?:[\w.-]+/)*[\w-]+\.md)\b")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\([^)]*\)|!?\[[^\]]*\]\[[^\]]*\]|^\[[^\]]+\]:[^\n]*|https?://\S+", re.MULTILINE)


def unlinked_pages(name, text):
    """Pages of the tree that the text names outside a link; a page may name itself."""
    text = LINK.sub(lambda m: "\n" * m[0].count("\n"), without_code(text))
    matches = list(NAMED_PAGE.finditer(text))
    pages = {n for n in sources.files() if n.endswith(".md")}
    folder = pathlib.PurePosixPath(name).parent
    for match, line in zip(matches, sources.line_numbers(text, (m.start() for m in matches)), strict=True):
        if match[1] != name and {match[1], str(folder / match[1])} & pages and str(folder / match[1]) != name:
            yield line, match[1]


# Comments

STARTS = re.compile(r"(?:[-*+]|\d+[.)]|>>>|@\w+|\\\w+|[\w.`*, ]{1,40}(?:\([^)]*\))?:(?=\s|$)|\|)\s*")
NO_PROSE = re.compile(r"[=~+_-]{3}|clang-format|NOLINT|>>> |\.\.\. |type:|noqa|fmt:|\$|\||SPDX")


def comment_blocks(comments):
    """Comment lines that follow each other, joined; a blank line, an item or a definition begins another block."""
    blocks, block, start, before = [], [], 0, None

    def end():
        if block:
            blocks.append(Block(start, " ".join(block), "text"))
            block.clear()

    for comment in comments:
        text = comment.text.strip()
        indent = len(comment.text) - len(comment.text.lstrip())
        new = comment.begins or before is None or comment.line != before.line + 1 or STARTS.match(text)
        if new or not text or NO_PROSE.match(text) or before.text.rstrip().endswith(":"):
            end()
        if text and not NO_PROSE.match(text) and not (not block and indent >= 4 and not ITEM.match(text) and is_code(text)):
            if not block:
                start = comment.line
            block.append(ITEM.sub("", text, count=1) if ITEM.match(text) else text)
        before = comment
    end()
    return blocks


def is_code(text):
    return bool(re.search(r"[=(\[{]|--|^\$|^\w+/", text)) and not re.search(r"[.:]$", text)


# Sentences

INLINE_CODE = re.compile(r"(`+)(?:(?!\1).)+\1")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|vs|cf|Fig|Sec|approx|etc)\.(?=\s+[a-z0-9`(])|\b(e\.g|i\.e)\.")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_`\[]*[A-Z0-9`])")


def reading(text):
    """The text as it is read: code is one word, a link its text."""
    text = re.sub(r"\[([^\[\]]*)\]\([^)]*\)", r"\1", INLINE_CODE.sub("`code`", text))
    return ABBREVIATION.sub(lambda m: (m[1] or m[2]).replace(".", ""), text)


def words_in(sentence):
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def sentences(text):
    return SENTENCE_END.split(reading(text))


def prose_hits(scope, name, blocks):
    for block in blocks:
        if block.kind == "text":
            for sentence in sentences(block.text):
                count = words_in(sentence)
                for rule, limit in (("sentence-40", TOO_LONG), ("sentence-25", LONG)):
                    if count > limit:
                        yield Hit(scope, rule, name, block.line, f"{count} words: {sentence}")
                for rule, sign, limit in (("semicolons", ";", 1), ("parentheses", "(", 2)):
                    if sentence.count(sign) > limit:
                        yield Hit(scope, rule, name, block.line, sentence)
        elif block.kind == "cell" and words_in(reading(block.text)) > CELL:
            yield Hit(scope, "wide-cell", name, block.line, f"{words_in(reading(block.text))} words: {block.text}")
    text = "\n".join(reading(b.text) for b in blocks)
    lines = [b.line for b in blocks]
    for pattern in patterns():
        for match in pattern.regex.finditer(text):
            block = text.count("\n", 0, match.start())
            around = text[max(match.start() - 20, 0) : match.end() + 20].replace("\n", " ")
            yield Hit(scope, pattern.rule, name, lines[block], f"{around}  -> {pattern.write}")


def page_hits(name, text):
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > COLUMNS and not TABLE.match(line) and " " in line.strip():
            yield Hit("pages", "long-line", name, number, line)
    yield from (Hit("pages", "table-without-header", name, line, found) for line, found in headless_tables(text))
    yield from (Hit("pages", "page-not-linked", name, line, found) for line, found in unlinked_pages(name, text))
    yield from prose_hits("pages", name, page_blocks(text))


# Messages: the template is `operand: got X; expected Y. What to do.`
OLD_MESSAGE = re.compile(r"\bgiven(?:, | ?\.\*).*\bexpected\b|\w given, (?:\d|\[|\"|')|\bgiven; .* expected\b", re.DOTALL)


def message_hits(scope, name, text):
    if name.endswith((*sources.C_LIKE, ".py")):
        texts = sources.literals(name, text)
    else:
        texts = enumerate(text.split("\n"), 1)
    for line, literal in texts:
        if OLD_MESSAGE.search(literal):
            yield Hit(scope, "old-message", name, line, literal)


# Commits

FORM = re.compile(r"[a-z][\w/.+-]*(?:, [a-z][\w/.+-]*)*: [a-z`\"][^\n]*[^.\s]$")


def subject_faults(subject):
    if len(subject) > SUBJECT:
        yield f"{len(subject)} columns; {SUBJECT} at most"
    if not FORM.match(subject):
        yield "the form is `area: imperative`, in lower case and without a full stop"


def commit_hits():
    """Subjects of the newest commits; none where there is no history."""
    command = ["git", "log", "--no-merges", "-100", "--format=%h %s", f"{BEFORE_THE_RULE}..HEAD"]
    log = subprocess.run(command, cwd=sources.ROOT, capture_output=True, text=True, check=False).stdout
    for line in log.splitlines():
        sha, subject = line.split(" ", 1)
        yield from (Hit("commits", "commit-subject", sha, 0, f"{subject}: {fault}") for fault in subject_faults(subject))


# All of it

def scope_of(name):
    if name.endswith(".md"):
        return "pages"
    return next((scope for scope, starts in SCOPES.items() if name.startswith(starts)), None)


def file_hits(name, text):
    scope = scope_of(name)
    if scope is None or SKIPPED.search(name):
        return
    if scope == "pages":
        yield from page_hits(name, text)
        return
    if name.endswith(CODE):
        yield from prose_hits(scope, name, comment_blocks(sources.comments(name, text)))
    if name.endswith(CODE) or name.startswith("tools/"):
        yield from message_hits(scope, name, text)


def is_exempt(hit):
    return any(hit.rule in rules and fnmatch.fnmatch(hit.path, files) for files, rules in exempt())


@functools.cache
def all_hits():
    found = [hit for name in sources.files() for hit in file_hits(name, sources.text_of(name))]
    return [*found, *commit_hits()]


def hits():
    return [hit for hit in all_hits() if not is_exempt(hit)]


def counts():
    """(rule, scope) -> hits, with 0 for each rule that a scope can break."""
    found = Counter((hit.rule, hit.scope) for hit in hits())
    pages = ("long-line", "table-without-header", "page-not-linked", "wide-cell")
    known = [(rule, "pages") for rule in pages] + [("old-message", s) for s in SCOPES] + [("commit-subject", "commits")]
    known += [(rule, scope) for rule in ("sentence-40", "sentence-25", "semicolons", "parentheses", *(p.rule for p in patterns())) for scope in ("pages", *SCOPES)]
    return {key: found[key] for key in known}


def recorded():
    return {(r["rule"], r["scope"]): int(r["hits"]) for r in sources.table(COUNTS.name)} if COUNTS.exists() else {}


def worse(now, limits):
    return {key: (count, limits.get(key, 0)) for key, count in now.items() if count > limits.get(key, 0)}


HEAD = """\
# The hits that each rule of prose.py still has. The numbers only fall: `tools/prose --lower` writes lower ones, and no test
# passes with more. `tools/prose --list RULE` prints the hits.
rule\tscope\thits
"""


def lower():
    """Writes the smaller of the recorded and the present number of each rule."""
    now, limits = counts(), recorded()
    kept = {key: min(count, limits.get(key, count)) for key, count in now.items()}
    COUNTS.write_text(HEAD + "".join(f"{rule}\t{scope}\t{count}\n" for (rule, scope), count in kept.items()))
    return sum(limits.get(key, count) - count for key, count in kept.items())


def main():
    parser = argparse.ArgumentParser(
        prog="tools/prose",
        description="Checks sentences, tables, links, messages and commit subjects against tests/lint/prose.tsv.",
        epilog="Example: tools/prose --list sentence-40 docs",
    )
    parser.add_argument("paths", nargs="*", help="files or folders (default: the whole tree)")
    parser.add_argument("--list", metavar="RULE", nargs="?", const="", help="print the hits of a rule (default: of all rules)")
    parser.add_argument("--lower", action="store_true", help="write lower numbers into tests/lint/prose.tsv")
    options = parser.parse_args()
    if options.lower:
        print(f"{lower()} fewer hits than recorded")
        return 0
    if options.list is not None or options.paths:
        starts = tuple(p.removeprefix(str(sources.ROOT) + "/") for p in options.paths) or ("",)
        found = [h for h in hits() if h.path.startswith(starts) and (options.list or "") in h.rule]
        for hit in found:
            print(f"{hit.path}:{hit.line}: {hit.rule}: {hit.text[:160]}")
        print(f"{len(found)} in all")
        return 0
    limits = recorded()
    print(f"{'rule':<24} {'scope':<8} {'hits':>5} recorded")
    for (rule, scope), count in counts().items():
        print(f"{rule:<24} {scope:<8} {count:>5} {limits.get((rule, scope), 0):>8}")
    return bool(worse(counts(), limits))


if __name__ == "__main__":
    sys.exit(main())
