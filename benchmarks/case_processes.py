"""Runs the cases of a contest in a separate process, and the remaining cases in a new process if that one ends.

A contestant that crashes the process is removed from its case, and loses no other result. Lines are passed on as soon as they
are measured.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

SILENCE_S = 120.0  # a process without output for this long is ended
IN_TURN = "all in turn"  # the name of a measurement with all contestants

Line = dict[str, Any]
Events = Callable[[Line], Iterator[Line]]
Case = Sequence[Any]  # a NamedTuple that JSON can hold


class ProcessError(RuntimeError):
    """No case can be measured on this machine."""


def events_of(order: Line, program: Sequence[str], silence: float = SILENCE_S) -> Iterator[Line]:
    """The events that `program` prints for an order, and at last how it ended."""
    with tempfile.TemporaryFile() as told:
        told.write(json.dumps(order).encode())
        told.seek(0)
        process = subprocess.Popen(program, stdin=told, stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        text, fd, why = b"", process.stdout.fileno(), ""
        while True:
            if not select.select([fd], [], [], silence)[0]:
                process.kill()
                why = f"nothing for {silence:.0f} s, ended"
                break
            read = os.read(fd, 1 << 16)
            if not read:  # end of the output
                break
            *lines, text = (text + read).split(b"\n")
            yield from map(json.loads, lines)
        code = process.wait()
    yield {"event": "process ended", "why": why or f"its process ended with code {code}"}


def run(
    cases: dict[int, Any],
    order: Line,
    record: Callable[[int, Line], None],
    events: Events,
    ended: Callable[[int], None] = lambda number: None,
) -> None:
    """Calls `record` with the number of a case and each of its lines, and `ended` when the case is over.

    cases: by number.
    order: further options for the process. `without` in it names contestants to leave out, by number of the case.
    """
    left, without, recorded = dict(cases), dict(order.get("without", {})), set()

    def once(number: int, line: Line) -> None:
        if (number, line["key"]) not in recorded:
            recorded.add((number, line["key"]))
            record(number, line)

    def end(number: int) -> None:
        del left[number]
        ended(number)

    while left:
        begun: Line | None = None
        before, why = len(left), ""
        for event in events({**order, "cases": [[n, [*case]] for n, case in left.items()], "without": without}):
            if event["event"] == "begins":
                begun = event
            elif event["event"] == "line":
                once(event["case"], event["line"])
            elif event["event"] == "ended":
                end(event["case"])
                begun = None
            else:
                why = event["why"]
        if begun is None:
            if left and len(left) == before:
                raise ProcessError(f"nothing can be measured: {why}")
            continue
        number, key = begun["case"], begun["key"]
        once(number, {"key": key, "peer": begun["peer"], "failed": why})
        if key == IN_TURN:
            end(number)
        else:
            without[str(number)] = [*without.get(str(number), []), key]
