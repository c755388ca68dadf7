"""What holds for all calls of the process that do not say otherwise."""

from __future__ import annotations

from typing import Literal, TypeAlias

Reproducibility: TypeAlias = Literal["repeatable", "invariant"]

reproducibility: Reproducibility = "repeatable"
overlap = False
"""Both: of a call that says nothing itself."""


def set_invariant(invariant: bool = True) -> None:
    """Makes calls invariant unless they name their own `reproducibility`: for all threads, from their next call on.

    Invariant: an element of D depends on its own row, column, scales and C only, whatever else is in the batch.

    >>> set_invariant()
    >>> is_invariant()
    True
    >>> set_invariant(False)
    """
    global reproducibility
    reproducibility = "invariant" if invariant else "repeatable"


def is_invariant() -> bool:
    """What `set_invariant` chose."""
    return reproducibility == "invariant"


def set_overlap(overlaps: bool = True) -> None:
    """Lets calls overlap on a GPU unless they say `overlap` themselves: for all threads, from their next call on.

    >>> set_overlap()
    >>> is_overlapping()
    True
    >>> set_overlap(False)
    """
    global overlap
    overlap = bool(overlaps)


def is_overlapping() -> bool:
    """What `set_overlap` chose."""
    return overlap
