"""Runs the cases of training_peers.py in a separate process, and the remaining cases in a new process if that one ends.

A contestant that crashes the process is removed from its case, and loses no other result. Lines are passed on as soon as they
are measured.
"""

from __future__ import annotations

import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from training_sizes import Case, as_json, words_of_case

PROGRAM = [sys.executable, str(pathlib.Path(__file__).with_name("training_contest.py"))]
SILENCE_S = 120.0  # a process without output for this long is ended
IN_TURN = "all in turn"

Line = dict[str, Any]


class ProcessError(RuntimeError):
    """No case can be measured on this machine."""


def events_of(order: Line, silence: float = SILENCE_S) -> Iterator[Line]:
    """The events of a measuring process, and at last how it ended."""
    with tempfile.TemporaryFile() as told:
        told.write(json.dumps(order).encode())
        told.seek(0)
        process = subprocess.Popen(PROGRAM, stdin=told, stdout=subprocess.PIPE)
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
    cases: list[Case], order: Line, record: Callable[[Line], None], events: Callable[[Line], Iterator[Line]] = events_of
) -> None:
    """Calls `record` with each line, once per contestant of a case. `order`: further options for the process."""
    left, without, recorded = dict(enumerate(cases)), {}, set()

    def once(number: int, line: Line) -> None:
        if (number, line["key"]) not in recorded:
            recorded.add((number, line["key"]))
            record(line)

    while left:
        begun: Line | None = None
        before, why = len(left), ""
        for event in events({**order, "cases": [[n, as_json(case)] for n, case in left.items()], "without": without}):
            if event["event"] == "begins":
                begun = event
            elif event["event"] == "line":
                once(event["case"], event["line"])
            elif event["event"] == "ended":
                left.pop(event["case"])
                begun = None
            else:
                why = event["why"]
        if begun is None:
            if left and len(left) == before:
                raise ProcessError(f"nothing can be measured: {why}")
            continue
        number, key = begun["case"], begun["key"]
        case = left[number]
        once(number, {"key": key, "peer": begun["peer"], "section": case.section, "shape": case.shape, "failed": why, **words_of_case(case)})
        if key == IN_TURN:
            del left[number]
        else:
            without.setdefault(str(number), []).append(key)
