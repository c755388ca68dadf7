"""Groups of a call, from its keywords to what C++ reads (GroupOptions in options.h)."""

from __future__ import annotations

from typing import Any

from tilewright import _core
from tilewright._arrays import Array, integers

Groups = dict[str, Any]

DENSE: Groups = {}
BATCHED: Groups = {"grouping": "batched"}

_GROUPINGS_OF_ROWS = {
    "indices": "m_grouped_indices",
    "offsets": "m_grouped_offsets",
    "aligned_offsets": "m_grouped_aligned_offsets",
    "counts": "m_grouped_masked",
}
_GROUPINGS_OF_K = {
    "offsets": "k_grouped",
    "aligned_offsets": "k_grouped_aligned_offsets",
    "counts": "k_grouped_flat",
}


def _given(groupings: dict[str, str], sizes: dict[str, Array | None]) -> Groups:
    """The grouping of the one keyword that has an array."""
    given = [name for name in groupings if sizes[name] is not None]
    if len(given) != 1:
        _core.refuse("groups", ", ".join(given) or "none", "exactly one of " + ", ".join(groupings))
    (word,) = given
    return {"grouping": groupings[word], "sizes": integers(word, sizes[word]), "word": word}


def of_rows(
    indices: Array | None,
    offsets: Array | None,
    aligned_offsets: Array | None,
    counts: Array | None,
    alignment: int,
    expected_m: int,
) -> Groups:
    """Groups of `grouped_gemm`."""
    sizes = {"indices": indices, "offsets": offsets, "aligned_offsets": aligned_offsets, "counts": counts}
    return {**_given(_GROUPINGS_OF_ROWS, sizes), "alignment": alignment, "expected_m": expected_m}


def of_layer(
    offsets: Array | None, aligned_offsets: Array | None, counts: Array | None, alignment: int, expected_m: int
) -> Groups:
    """Groups of `moe`, whose rows may have none."""
    sizes = {"offsets": offsets, "aligned_offsets": aligned_offsets, "counts": counts}
    if all(value is None for value in sizes.values()):
        return {"expected_m": expected_m} if expected_m else DENSE
    groupings = {word: _GROUPINGS_OF_ROWS[word] for word in sizes}
    return {**_given(groupings, sizes), "alignment": alignment, "expected_m": expected_m}


def of_k(offsets: Array | None, aligned_offsets: Array | None, counts: Array | None, alignment: int) -> Groups:
    """Groups of `k_grouped_gemm`."""
    sizes = {"offsets": offsets, "aligned_offsets": aligned_offsets, "counts": counts}
    return {**_given(_GROUPINGS_OF_K, sizes), "alignment": alignment}


def of_blocks(word: str, indices: Array, alignment: int) -> Groups:
    """Groups of rows whose blocks of `alignment` rows have one group each. word: what the caller calls `indices`."""
    sizes = integers(word, indices)
    return {"grouping": "m_grouped_indices", "sizes": sizes, "word": word, "index_alignment": alignment}


def of_any_call(
    batched: bool,
    k_grouped: bool,
    indices: Array | None,
    offsets: Array | None,
    aligned_offsets: Array | None,
    counts: Array | None,
    alignment: int,
    expected_m: int,
) -> Groups:
    """Groups of the call that `validate`, `explain` and `workspace_bytes` are about."""
    for name, flag in (("batched", batched), ("k_grouped", k_grouped)):
        if flag is not True and flag is not False:
            _core.refuse(name, repr(flag), "True or False")
    sizes = {"indices": indices, "offsets": offsets, "aligned_offsets": aligned_offsets, "counts": counts}
    given = [name for name, value in sizes.items() if value is not None]
    if batched and (k_grouped or given):
        other = "k_grouped=True" if k_grouped else f"{given[0]}="
        _core.refuse("batched", f"True with {other}", "one of them", "batched_gemm takes no groups")
    if k_grouped:
        if indices is not None:
            _core.refuse("indices", "an array with k_grouped=True", "None", "k_grouped_gemm takes offsets=, aligned_offsets= or counts=")
        return of_k(offsets, aligned_offsets, counts, alignment)
    if batched:
        return BATCHED
    return of_rows(indices, offsets, aligned_offsets, counts, alignment, expected_m) if given else DENSE
