"""The code uses none of the names of words.tsv. `tools/words` prints all that are left."""

import pytest
import words

# Names that a review found in each room: the list must go on knowing them.
OLD_NAMES = {
    "hopper": "first_operand second_operand first() Sums unit pieces piece_columns Factors .place parity HandedOutTiles drain "
    "patience Meeting announce plain scales_after final_scales band Walk Divisor Work scales_by_row few() alone() Role::block_scale Ring",
    "plan": "first_operand Sums piece plain final_scales band walk Divisor Work cuts row_128 block_128 scales_by_row spread slots "
    "few( alone( mark",
    "launch": "first_operand unit piece plain scales_by_row Work cuts spread slots few( alone( patience",
    "cpu": "Work Side plain piece band row_128",
    "cli": "plain chain rival mark control Arithmetic::hopper",
    "bench": "chain rival mark control",
    "cuda": "patience plain walk drain",
}


def found_in(room, line):
    return [hit.found for hit in words.scan(f"src/{room}/planted.cpp", line + "\n", words.words(), [])]


def test_the_code_uses_none_of_them(hits):
    found = [f"{h.path}:{h.line}: '{h.found}', write: {h.word.say}" for h in hits[0]]
    assert not found, "\n" + "\n".join(found)


def test_every_allowed_phrase_is_needed(hits):
    unused = [phrase.regex.pattern for phrase in words.allowed() if phrase not in hits[1]]
    assert not unused, f"words_allowed.tsv allows what no file has: {unused}"


@pytest.mark.parametrize(
    ("room", "line", "expected"),
    [("hopper", "int x = sum.of_units;", "units"), ("cuda", "int plainKernel = isPlain;", "plain"), ("cuda", "f(R\"(a)\", plain);", "plain")],
)
def test_a_planted_name_is_found(room, line, expected):
    assert expected in found_in(room, line)


@pytest.mark.parametrize(("room", "names"), OLD_NAMES.items())
def test_old_names_are_found(room, names):
    missed = [name for name in names.split() if not found_in(room, f"    f(x{name if name[0] == '.' else ', ' + name} * 2);")]
    assert not missed


@pytest.mark.parametrize(
    "line",
    ["int unity = bandwidth;", "int standard = believe;", "f(benchmark, pieced, UNIT);", "// plain words", 'f("a plain \\" text", \'"\'); // plain'],
)
def test_parts_of_names_comments_and_strings_are_not_found(line):
    assert not found_in("hopper", line)


@pytest.fixture(scope="module")
def hits():
    used = set()
    return words.find(used=used), used
