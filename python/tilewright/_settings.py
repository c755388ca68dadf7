"""Settings of the process: the values of options that a call leaves out."""

from __future__ import annotations

from typing import Literal, TypeAlias

from tilewright import _core

Reproducibility: TypeAlias = Literal["repeatable", "invariant"]

reproducibility: Reproducibility = "repeatable"
overlap = False
device: str | None = None
"""All three: of a call that leaves the option out."""


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


def set_planned_device(name: str | None) -> None:
    """The GPU whose plans, and so whose bits, calls follow unless they pass `device`; None: the library's choice.

    For all threads, from their next call on. It moves nothing to another GPU.

    >>> set_planned_device("h100")
    >>> planned_device()
    'h100'
    >>> set_planned_device(None)
    """
    global device
    if name is not None:
        _core.check_device(name)
    device = name


def planned_device() -> str | None:
    """What `set_planned_device` chose."""
    return device
