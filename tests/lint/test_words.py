"""The tree uses none of the words of words.tsv. `tools/words` prints all that is left, rooms that are not listed here too."""

import pytest
import words

# Rooms that are free of them. A room that is not listed is work to be done.
CLEAN_ROOMS = ["lint", "examples", "cmake", "install", "tools", "data", "root", "tests"]
CLEAN_ROOMS += ["python", "base", "cpu", "problem", "formats", "check", "fuzz"]
CLEAN_ROOMS += ["docs", "api", "hopper", "emulator", "primitives", "benchmarks"]
CLEAN_ROOMS += ["bench", "measure", "cli", "verify", "output", "safetensors", "gpu"]
CLEAN_ROOMS += ["plan", "launch", "cuda"]

PLANTED = [
    ("hopper", "int x = sum.of_units;", "units"),
    ("hopper", "// D lies in shared memory", "lies"),
    ("plan", "// Rather than a second list", "Rather than"),
    ("cli", 'fmt::print("meets its target");', "meets"),
    ("cuda", "int plainKernel = isPlain;", "plain"),
]


@pytest.mark.parametrize("room", CLEAN_ROOMS)
def test_a_clean_room_stays_clean(room, hits):
    found = [f"{h.path}:{h.line}: '{h.found}', say: {h.word.say}" for h in hits[0] if h.room == room]
    assert not found, "\n" + "\n".join(found)


def test_every_allowed_phrase_is_needed(hits):
    unused = [phrase.regex.pattern for phrase in words.allowed() if phrase not in hits[1]]
    assert not unused, f"words_allowed.tsv allows what nobody writes: {unused}"


@pytest.mark.parametrize(("room", "line", "expected"), PLANTED)
def test_a_planted_word_is_found(room, line, expected):
    hits = words.scan(f"src/{room}/planted.cpp", line + "\n", words.words(), [])
    assert expected in [hit.found.strip() for hit in hits]


@pytest.mark.parametrize("line", ["int unity = bandwidth;", "standard believe", "benchmark pieced", "UNIT"])
def test_parts_of_other_words_are_not_found(line):
    assert not words.scan("src/hopper/fine.cpp", line + "\n", words.words(), [])


@pytest.fixture(scope="module")
def hits():
    used = set()
    return words.find(used=used), used
