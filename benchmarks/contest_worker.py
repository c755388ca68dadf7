"""The process that checks or times the cases of contest.py. It prints one JSON object per line for each start, result and end.

Its order, from its input, has the cases with their numbers, the contestants to leave out, and a task. `check` calls each
contestant once and compares its result; DeepGEMM compiles its kernels then. `time` calls all contestants of a case in turn. The
first event names the machine and the versions. Without a GPU, the process ends.
"""

from __future__ import annotations

import gc
import importlib.metadata
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import tilewright as tw
import torch
from case_processes import IN_TURN
from contest_calls import Contest, deep_gemm_version
from contest_cases import from_json
from device_clock import EventClock, HostClock, KernelClock
from measuring import Ready, checked, require_usable, timed, words_of

CLOCKS = {"events": EventClock, "profiler": KernelClock}
BLAS_PACKAGES = ("nvidia-cublas", "nvidia-cublas-cu12")  # which torch's wheels need

Emit = Callable[[dict[str, Any]], None]


def version_of(*packages: str) -> str | None:
    for name in packages:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def machine(device: str) -> dict[str, Any]:
    """The card and the versions of the contestants; None where one is not installed."""
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else "CPU",
        "versions": {
            "tilewright": tw.__version__,
            "torch": torch.__version__,
            "CUDA of torch": torch.version.cuda,
            "cuBLAS package": version_of(*BLAS_PACKAGES),
            "deep_gemm": deep_gemm_version(),
            "python": sys.version.split()[0],
        },
    }


def failed(key: str, peer: str, why: str) -> dict[str, Any]:
    return {"event": "line", "line": {"key": key, "peer": peer, "failed": why}}


def called_once(key: str, peer: str, make: Callable[[], Any]) -> Ready:
    contestant = make()
    contestant.call()
    return Ready(key, peer, contestant, 0.0)


def contestants(contest: Any, without: list[str], task: str, device: str, emit: Emit) -> Iterator[Ready]:
    """Those that can be called, one after another."""
    for key, peer, make in contest.contestants():
        if key in without:
            continue
        emit({"event": "begins", "key": key, "peer": peer})
        try:
            ready = (checked if task == "check" else called_once)(key, peer, make)
        except Exception as why:  # of other libraries: anything
            emit(failed(key, peer, words_of(why)))
            require_usable(device)
        else:
            yield ready


def measure(contest: Any, without: list[str], task: str, device: str, clock: Any, emit: Emit) -> None:
    of_all = contestants(contest, without, task, device, emit)
    if task == "check":
        for each in of_all:
            emit({"event": "line", "line": {"key": each.key, "peer": each.peer, "difference": float(f"{each.error:.3g}")}})
        return
    ready = list(of_all)
    emit({"event": "begins", "key": IN_TURN, "peer": IN_TURN})
    times = list(timed(clock, ready)) if ready else []
    require_usable(device)  # else one contestant's fault would be named as everyone's
    for each, words in times:
        if "us" in words:
            words["us"] = round(words["us"], 3)
        emit({"event": "line", "line": {"key": each.key, "peer": each.peer, **words}})


def main() -> None:
    order = json.load(sys.stdin)
    device, task = order["device"], order["task"]
    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("contest: torch sees no GPU; --dry-run lists the cases, and --device cpu tries the program without one")
    out, sys.stdout = sys.stdout, sys.stderr  # output of other libraries must not mix with the events
    print(json.dumps({"event": "machine", **machine(device)}), file=out, flush=True)
    clock = None
    if task == "time":
        clock = (CLOCKS[order["clock"]] if device == "cuda" else HostClock)(order["repeats"])

    def emit(number: int, event: dict[str, Any]) -> None:
        print(json.dumps({"case": number, **event}), file=out, flush=True)

    for number, words in order["cases"]:
        emit(number, {"event": "begins", "key": IN_TURN, "peer": IN_TURN})
        # Operands that are no longer measured must not occupy GPU memory during the next case.
        try:
            measure(Contest(from_json(words), device), order["without"].get(str(number), []), task, device, clock, lambda event, n=number: emit(n, event))
        except Exception as why:  # from the shared operands: most likely out of memory
            emit(number, failed(IN_TURN, IN_TURN, words_of(why)))
            require_usable(device)
        emit(number, {"event": "ended"})
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
