"""Settings of the process: the values of options that a call leaves out."""

from __future__ import annotations

from typing import Literal, TypeAlias

Reproducibility: TypeAlias = Literal["repeatable", "invariant"]

reproducibility: Reproducibility = "repeatable"
overlap = False
"""Both: of a call that leaves the option out."""


def set_invariant(invariant: bool = True) -> None:
    """Makes calls invariant unless they have their own `reproducibility`: for all threads, from their next call on.

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
    """Lets calls overlap on a GPU unless they pass `overlap`: for all threads, from their next call on.

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
