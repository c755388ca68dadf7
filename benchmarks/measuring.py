"""How a measuring process treats a contestant: its result is checked, then all are timed in turn, and a failure is put in words."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from device_clock import Call, ClockError
from training_contestant import Contestant, MissingError

MOST_LETTERS = 160  # of the reason of a failure
UNUSABLE = 3  # exit code if the GPU accepts no more calls


class Ready(NamedTuple):
    key: str
    peer: str
    contestant: Contestant
    error: float


def words_of(why: BaseException) -> str:
    first = next(iter(str(why).strip().splitlines()), "")[:MOST_LETTERS]
    return first if isinstance(why, MissingError) else f"{type(why).__name__}: {first}"


def checked(key: str, peer: str, make: Callable[[], Contestant]) -> Ready:
    contestant = make()
    contestant.call()
    error = contestant.error()
    if not error <= contestant.limit:
        raise ArithmeticError(f"wrong result, off by {error:.2g}; {contestant.limit} is allowed")
    return Ready(key, peer, contestant, error)


def medians(clock: Any, calls: list[Call]) -> list[float]:
    try:
        return clock.medians(calls)
    except ClockError:  # the profiler sometimes loses events
        return clock.medians(calls)


def timed(clock: Any, ready: list[Ready]) -> Iterator[tuple[Ready, dict[str, Any]]]:
    """The time of each contestant, measured in turn with all others.

    If one fails or the profiler loses its kernels, each contestant is measured separately.
    """
    try:
        together = medians(clock, [each.contestant.call for each in ready])
    except Exception:  # of other libraries: anything
        for each in ready:
            try:
                yield each, {"us": medians(clock, [each.contestant.call])[0], "alone": True}
            except Exception as why:
                yield each, {"failed": words_of(why)}
    else:
        yield from zip(ready, ({"us": us} for us in together), strict=True)


def require_usable(device: str) -> None:
    if device == "cuda":
        try:
            torch.cuda.synchronize()
        except Exception as why:  # whatever torch raises of it
            print(f"the GPU takes no more calls: {words_of(why)}", file=sys.stderr)
            sys.exit(UNUSABLE)
