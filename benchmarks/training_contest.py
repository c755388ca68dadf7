"""The process that measures the cases of training_peers.py. It prints one JSON object per line for each start, result and end.

It reads from its input the cases with their numbers, and the contestants that have crashed an earlier process. A contestant
that is missing, fails or computes a wrong result gives a line with `failed`. If the GPU becomes unusable, the process ends.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from case_processes import IN_TURN
from device_clock import DeviceClock, HostClock
from measuring import Ready, checked, require_usable, timed, words_of
from training_gradients import FromBf16, Gradients
from training_rows import Rows
from training_sizes import SECTIONS, Case, from_json, words_of_case

Emit = Callable[[dict[str, Any]], None]


def contest_of(case: Case, device: str) -> Any:
    if SECTIONS[case.section].product != "wgrad":
        return Rows(case, device)
    return (FromBf16 if case.section == "from-bf16" else Gradients)(case, device)


def line_of(case: Case, ready: Ready, us: float, repeats: int, **other: Any) -> dict[str, Any]:
    flops = 2 * ready.contestant.tokens * case.n * case.k
    return {"key": ready.key, "peer": ready.peer, "section": case.section, **ready.contestant.fields, "us": round(us, 3),
            "tflops": round(flops / us * 1e-6, 1), "calls": repeats, "relative_error": float(f"{ready.error:.3g}"),
            **other, **words_of_case(case)}  # fmt: skip


def failed_line(case: Case, key: str, peer: str, why: str) -> dict[str, Any]:
    return {"key": key, "peer": peer, "section": case.section, "shape": case.shape, "failed": why, **words_of_case(case)}


def measure(case: Case, device: str, clock: Any, emit: Emit, without: list[str]) -> None:
    emit({"event": "begins", "key": IN_TURN, "peer": IN_TURN})
    ready: list[Ready] = []
    for key, peer, make in contest_of(case, device).contestants():
        if key in without:
            continue
        emit({"event": "begins", "key": key, "peer": peer})
        try:
            ready.append(checked(key, peer, make))
        except Exception as why:  # of other libraries: anything
            emit({"event": "line", "line": failed_line(case, key, peer, words_of(why))})
            require_usable(device)
    emit({"event": "begins", "key": IN_TURN, "peer": IN_TURN})
    if not ready:
        return
    for each, words in timed(clock, ready):
        failed = "failed" in words
        emit({"event": "line", "line": failed_line(case, each.key, each.peer, words["failed"]) if failed
              else line_of(case, each, repeats=clock.repeats, **words)})  # fmt: skip
    require_usable(device)


def main() -> None:
    order = json.load(sys.stdin)
    device = order["device"]
    clock = (DeviceClock if device == "cuda" else HostClock)(order["repeats"])
    out, sys.stdout = sys.stdout, sys.stderr  # output of other libraries must not mix with the events

    def emit(number: int, event: dict[str, Any]) -> None:
        print(json.dumps({"case": number, **event}), file=out, flush=True)

    for number, words in order["cases"]:
        # Operands that are no longer measured must not occupy GPU memory during the next case.
        try:
            measure(from_json(words), device, clock, lambda event, n=number: emit(n, event), order["without"].get(str(number), []))
        except Exception as why:  # from the shared operands: most likely out of memory
            case = from_json(words)
            emit(number, {"event": "line", "line": failed_line(case, IN_TURN, IN_TURN, words_of(why))})
            require_usable(device)
        emit(number, {"event": "ended"})
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
