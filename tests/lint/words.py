"""Finds the names of words.tsv in the code of the tree. `tools/words` prints them."""

import argparse
import fnmatch
import pathlib
import re
from collections import Counter
from dataclasses import dataclass

import sources

HERE = pathlib.Path(__file__).parent
CODE = (".h", ".cpp", ".cuh", ".in", ".py")
# Generated text, and the lists themselves.
SKIPPED = re.compile(r"generated|^tests/lint/(test_)?words")
BEGIN, END = r"(?:(?<![A-Za-z])(?=[a-zA-Z])|(?<=[a-z])(?=[A-Z]))", r"(?![a-z])"


@dataclass(frozen=True)
class Word:
    pattern: str
    regex: re.Pattern
    core: re.Pattern  # the same without its boundaries: a quick look whether a file has it at all
    rooms: tuple[str, ...]
    say: str

    def forbidden_in(self, room):
        if "-" + room in self.rooms:
            return False
        return "all" in self.rooms or room in self.rooms


@dataclass(frozen=True)
class Phrase:
    files: str
    regex: re.Pattern
    why: str


@dataclass(frozen=True)
class Hit:
    room: str
    path: str
    line: int
    word: Word
    found: str
    text: str


def word_regex(pattern):
    # The first of each pair of `~` begins a word, the second ends it.
    parts = pattern.split("~")
    text = parts[0]
    for i, part in enumerate(parts[1:]):
        text += (BEGIN if i % 2 == 0 else END) + part
    return re.compile(text)


def words():
    return [
        Word(r["pattern"], word_regex(r["pattern"]), re.compile(r["pattern"].replace("~", "")), tuple(r["rooms"].split(",")), r["say"])
        for r in sources.table("words.tsv")
    ]


def allowed():
    return [Phrase(r["files"], re.compile(r["phrase"]), r["why"]) for r in sources.table("words_allowed.tsv")]


def tracked():
    return [n for n in sources.files() if n.endswith(CODE) and not SKIPPED.search(n)]


def scan(name, text, forbidden, phrases, used=None):
    room = sources.room_of(name)
    code = sources.code(name, text)
    for phrase in phrases:
        if fnmatch.fnmatch(name, phrase.files):
            code, count = phrase.regex.subn(lambda m: re.sub(r"[^\n]", "\x00", m.group(0)), code)
            if used is not None and count:
                used.add(phrase)
    lines = text.split("\n")
    hits = []
    for word in forbidden:
        if not word.forbidden_in(room) or not word.core.search(code):
            continue
        for match in word.regex.finditer(code):
            line = code.count("\n", 0, match.start())
            hits.append(Hit(room, name, line + 1, word, match.group(0), lines[line].strip()))
    # One hit per place, also where two patterns match.
    return sorted({(h.line, h.found): h for h in hits}.values(), key=lambda h: h.line)


def find(paths=(), used=None):
    """Hits in the files of the tree whose paths begin with one of `paths` (none: all of them)."""
    forbidden, phrases = words(), allowed()
    found = []
    for name in tracked():
        if paths and not any(name == p or name.startswith(p.rstrip("/") + "/") for p in paths):
            continue
        found += scan(name, sources.text_of(name), forbidden, phrases, used)
    return found


def main():
    parser = argparse.ArgumentParser(
        prog="tools/words",
        description="Lists the names of tests/lint/words.tsv that the code still uses.",
        epilog="Example: tools/words src/hopper tests/hopper",
    )
    parser.add_argument("paths", nargs="*", help="files or folders (default: the whole tree)")
    parser.add_argument("--count", action="store_true", help="print only the counts per room and per word")
    options = parser.parse_args()
    hits = find([p.removeprefix(str(sources.ROOT) + "/") for p in options.paths])
    if not options.count:
        for hit in hits:
            print(f"{hit.path}:{hit.line}: [{hit.found}] {hit.text[:160]}  -> {hit.word.say}")
    for title, counts in (("room", Counter(h.room for h in hits)), ("word", Counter(h.word.pattern for h in hits))):
        print(f"\n{title:<60} hits")
        for name, count in counts.most_common():
            print(f"{name:<60} {count}")
    print(f"\n{len(hits)} in all")


if __name__ == "__main__":
    main()
