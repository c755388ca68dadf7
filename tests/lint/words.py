"""Finds the words of words.tsv in the tree: in code, comments, messages and documents. `tools/words` prints them."""

import argparse
import csv
import fnmatch
import pathlib
import re
import subprocess
from collections import Counter
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).parents[2]
HERE = pathlib.Path(__file__).parent
# Records of measurements, binary data, generated text, the lists themselves.
SKIPPED = re.compile(r"^LICENSE$|generated|\.(jsonl|bin|png)$|^tests/lint/(test_)?words|^examples/(minilm/sentences|moe_train/text)\.txt$")
BEGIN, END = r"(?:(?<![A-Za-z])(?=[a-zA-Z])|(?<=[a-z])(?=[A-Z]))", r"(?![a-z])"
COMMENT_START = "\x02"


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


def rows(name):
    with open(HERE / name) as file:
        return list(csv.DictReader((line for line in file if not line.startswith("#")), delimiter="\t", quoting=csv.QUOTE_NONE))


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
        for r in rows("words.tsv")
    ]


def allowed():
    return [Phrase(r["files"], re.compile(r["phrase"]), r["why"]) for r in rows("words_allowed.tsv")]


def files():
    """All files of the tree, those that git does not know yet among them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")[:-1]
    return [n for n in sorted(set(names)) if (ROOT / n).is_file()]


def tracked():
    return [n for n in files() if not SKIPPED.search(n)]


def room_of(name):
    """A folder of src or tests; else the top folder, a page of docs, or `root`."""
    parts = pathlib.PurePosixPath(name).parts
    if parts[0] in {"src", "tests"} and len(parts) > 2:
        return parts[1]
    if parts[0] == "include":
        return "api"
    return parts[0] if len(parts) > 1 else "root"


def with_comment_starts(name, text):
    """Marks the first word of each comment block, so that patterns can ask for it."""
    sign = r"//+!?<?|\*" if name.endswith((".h", ".cpp", ".in", ".S", ".cuh")) else r"#+"
    starts = re.compile(rf"^([ \t]*(?:{sign})[ \t]+)(?=\S)")
    lines, before = [], False
    for line in text.split("\n"):
        match = starts.match(line)
        lines.append(starts.sub(lambda m: m.group(1) + COMMENT_START, line) if match and not before else line)
        before = match is not None
    return "\n".join(lines)


def scan(name, text, forbidden, phrases, used=None):
    room = room_of(name)
    marked = text if name.endswith(".md") else with_comment_starts(name, text)
    for phrase in phrases:
        if fnmatch.fnmatch(name, phrase.files):
            marked, count = phrase.regex.subn(lambda m: re.sub(r"[^\n]", "\x00", m.group(0)), marked)
            if used is not None and count:
                used.add(phrase)
    lines = text.split("\n")
    hits = []
    for word in forbidden:
        if not word.forbidden_in(room) or not word.core.search(marked):
            continue
        for match in word.regex.finditer(marked):
            line = marked.count("\n", 0, match.start())
            shown = lines[line].strip()
            hits.append(Hit(room, name, line + 1, word, match.group(0).strip("\x02"), shown))
    # A place is said once, whichever of the lists know it.
    return sorted({(h.line, h.found): h for h in hits}.values(), key=lambda h: h.line)


def find(paths=(), used=None):
    """Hits in the files of the tree whose paths begin with one of `paths` (none: all of them)."""
    forbidden, phrases = words(), allowed()
    found = []
    for name in tracked():
        if paths and not any(name == p or name.startswith(p.rstrip("/") + "/") for p in paths):
            continue
        found += scan(name, (ROOT / name).read_text(errors="ignore"), forbidden, phrases, used)
    return found


def main():
    parser = argparse.ArgumentParser(
        prog="tools/words",
        description="Lists the words of tests/lint/words.tsv that the tree still uses.",
        epilog="Example: tools/words src/hopper tests/hopper",
    )
    parser.add_argument("paths", nargs="*", help="files or folders (default: the whole tree)")
    parser.add_argument("--count", action="store_true", help="only how many there are in each room and of each word")
    options = parser.parse_args()
    hits = find([p.removeprefix(str(ROOT) + "/") for p in options.paths])
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
