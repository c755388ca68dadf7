"""The tree uses none of the words of words.tsv. `tools/words` prints all that is left, rooms that are not listed here too."""

import pytest
import words

ROOMS = sorted({words.room_of(name) for name in words.tracked()})

# What a review of the names found, in its words, each where it had found it: the list must go on knowing them.
OLD_NAMES = {
    "hopper": "first_operand second_operand first() Sums unit pieces piece_columns Chain chains Factors .place parity HandedOutTiles drain "
    "patience Meeting announce plain scales_after final_scales band Walk Divisor Work Side scales_by_row few() alone() Role::block_scale Ring",
    "plan": "first_operand Sums piece chain plain final_scales band walk Divisor Work Side cuts row_128 block_128 scales_by_row spread slots "
    "few( alone( mark",
    "launch": "first_operand unit piece chain plain scales_by_row Work Side cuts spread slots few( alone( patience",
    "cpu": "Work Side plain piece band row_128",
    "cli": "plain chain rival mark control Arithmetic::hopper",
    "bench": "chain rival mark control",
    "cuda": "patience plain walk drain",
}

PLANTED = [
    ("hopper", "int x = sum.of_units;", "units"),
    ("hopper", "// D lies in shared memory", "lies"),
    ("plan", "// Rather than a second list", "Rather than"),
    ("cli", 'fmt::print("meets its target");', "meets"),
    ("cuda", "int plainKernel = isPlain;", "plain"),
]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_uses_none_of_them(room, hits):
    found = [f"{h.path}:{h.line}: '{h.found}', say: {h.word.say}" for h in hits[0] if h.room == room]
    assert not found, "\n" + "\n".join(found)


def test_every_allowed_phrase_is_needed(hits):
    unused = [phrase.regex.pattern for phrase in words.allowed() if phrase not in hits[1]]
    assert not unused, f"words_allowed.tsv allows what nobody writes: {unused}"


@pytest.mark.parametrize(("room", "line", "expected"), PLANTED)
def test_a_planted_word_is_found(room, line, expected):
    hits = words.scan(f"src/{room}/planted.cpp", line + "\n", words.words(), [])
    assert expected in [hit.found.strip() for hit in hits]


@pytest.mark.parametrize(("room", "name"), [(room, name) for room, names in OLD_NAMES.items() for name in names.split()])
def test_an_old_name_is_found(room, name):
    assert words.scan(f"src/{room}/planted.cpp", f"    f(x{name if name[0] == '.' else ', ' + name} * 2);\n", words.words(), [])


@pytest.mark.parametrize("line", ["int unity = bandwidth;", "standard believe", "benchmark pieced", "UNIT"])
def test_parts_of_other_words_are_not_found(line):
    assert not words.scan("src/hopper/fine.cpp", line + "\n", words.words(), [])


@pytest.fixture(scope="module")
def hits():
    used = set()
    return words.find(used=used), used
