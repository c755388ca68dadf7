#!/usr/bin/env python3
"""Times our calls and every peer that can be imported, in turns in one process, and prints the table of the classes of shapes.

    python benchmarks/contest.py --json FILE                      # everything; see make gpu-contest
    python benchmarks/contest.py --only few,1024 --json FILE      # a part; parts share a record
    python benchmarks/contest.py --table FILE                     # the table of a record, without a GPU
    python benchmarks/contest.py --dry-run                        # the cases, without a GPU

Ours are the drop-in and the native call. Peers are DeepGEMM, torch._scaled_mm and torch._scaled_grouped_mm with row scales, and
cuBLASLt with one scale per tensor and with block scales. A peer that is missing is named in the output and in the record.

1. Check: processes side by side call each contestant once and compare its result. DeepGEMM compiles its kernels then.
2. Runs: in each run a new process times all cases. Contestants take turns, each call after a flush of L2.
3. Tables: for each shape the median over the runs counts.

A process that ends is started again. The contestant that it measured is left out of the case, and named.

The exit code is 1 if a target is missed or cannot be judged, or a result of ours is wrong. It is 2 if nothing can be measured.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import functools
import itertools
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import case_processes
import contest_table
from case_processes import Events, Line
from contest_cases import CLASSES, DEEP_GEMM, DROP_IN, NATIVE, Case, all_cases, limited, smaller
from origin import origin
from training_peers_table import aligned

PROGRAM = [sys.executable, str(pathlib.Path(__file__).with_name("contest_worker.py"))]
OURS = (DROP_IN, NATIVE)
RANDOM_SHAPES = 60
MOST_PROCESSES = 12  # their operands must fit in the GPU's memory together
WORDS_OF_CLOCKS = {"events": "CUDA events around each call", "profiler": "sum of a call's kernels, from torch's profiler"}
QUERY = ("driver_version", "power.limit", "clocks.max.sm", "clocks.applications.graphics")


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"some classes of {', '.join(CLASSES)}")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N cases of each class")
    parser.add_argument("--random", type=int, default=RANDOM_SHAPES, metavar="N", help="random shapes, a third for each operation (60)")
    parser.add_argument("--seed", type=int, help="of the random shapes (today's date, 20261127)")
    parser.add_argument("--runs", type=int, default=contest_table.RUNS, help="each in a new process (3)")
    parser.add_argument("--repeats", type=int, default=12, help="timed calls of a contestant in a run; their median counts (12)")
    parser.add_argument("--processes", type=int, help="that check results side by side (one for each core, 12 at most); 0: no check")
    parser.add_argument("--clock", choices=WORDS_OF_CLOCKS, default="events", help="profiler: without gaps and launches, slower")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: small matrices, host times, to try the program")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="append the record to this file")
    parser.add_argument("--commit", default="unknown", help="that the record names where this is no git checkout")
    parser.add_argument("--dry-run", action="store_true", help="list the cases")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE", help="print the table of a record's newest commit")
    arguments = parser.parse_args(words)
    arguments.only = arguments.only.split(",") if arguments.only else list(CLASSES)
    if unknown := [word for word in arguments.only if word not in CLASSES]:
        parser.error(f"--only: got '{unknown[0]}'; expected some of {', '.join(CLASSES)}")
    if arguments.seed is None:
        arguments.seed = int(datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d"))
    if arguments.processes is None:
        arguments.processes = min(os.cpu_count() or 1, MOST_PROCESSES)
    return arguments


def chosen(arguments: argparse.Namespace) -> list[Case]:
    cases = limited(all_cases(arguments.random, arguments.seed), arguments.only, arguments.limit)
    return [*map(smaller, cases)] if arguments.device == "cpu" else cases


def listing(cases: list[Case], arguments: argparse.Namespace) -> str:
    lines = [["class", "operation", "shape", "rows", "weights"]]
    lines += [[CLASSES[case.shape_class].words, case.operation, " x ".join(map(str, case.shape)), str(sum(case.rows)), case.name] for case in cases]
    counts = [f"{sum(case.shape_class == name for case in cases)} {CLASSES[name].words}" for name in arguments.only]
    return f"{aligned(lines)}\n\n{len(cases)} cases, seed {arguments.seed}: {'; '.join(counts)}"


def card_state() -> dict[str, str]:
    """Driver, power limit and clocks of the first GPU, from nvidia-smi. Empty without it."""
    try:
        words = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader", "--id=0"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    values = done.stdout.strip().split(", ")
    return dict(zip(QUERY, values, strict=True)) if len(values) == len(QUERY) else {}


class Contest:
    """The cases with what was found out about them, by their numbers."""

    def __init__(self, cases: list[Case], arguments: argparse.Namespace, events: Events):
        self.cases, self.arguments = dict(enumerate(cases)), arguments
        self.machine: dict[str, Any] = {}
        self.peers: dict[str, str] = {}  # names by key
        self.measured: set[str] = set()  # who had a right result in some case
        self.failed: dict[int, dict[str, str]] = {number: {} for number in self.cases}
        self.rows: list[Line] = []  # of the record
        self.said: set[tuple[str, str]] = set()
        self.began, self.done = time.monotonic(), 0
        self.lock = threading.Lock()
        self.origin = origin()
        self.origin["commit"] = self.origin["commit"] or arguments.commit
        self.events = functools.partial(self.watched, events)

    def watched(self, events: Events, order: Line) -> Iterator[Line]:
        """The events, except those that describe the machine."""
        for event in events(order):
            if event["event"] == "machine":
                self.machine = {key: value for key, value in event.items() if key != "event"}
            else:
                yield event

    def left(self) -> dict[int, Case]:
        """The cases whose operands can be made."""
        return {number: case for number, case in self.cases.items() if case_processes.IN_TURN not in self.failed[number]}

    def note(self, number: int, line: Line) -> None:
        if line["key"] != case_processes.IN_TURN:
            self.peers[line["key"]] = line["peer"]
        if "failed" in line:
            self.failed[number][line["key"]] = line["failed"]
        else:
            self.measured.add(line["key"])

    def reason(self, key: str, why: str) -> str:
        """The contestant, and why it failed if that is new."""
        if (key, why) in self.said:
            return key
        self.said.add((key, why))
        return f"{key} ({why})"

    def say(self, phase: str, count: int, number: int, words: str) -> None:
        self.done += 1
        case = self.cases[number]
        print(f"{time.monotonic() - self.began:4.0f} s  {phase} {self.done:>3}/{count}  {case.shape_class:10}  {case.words:72}  {words}", flush=True)

    def order(self, task: str) -> Line:
        without = {str(number): [*failed] for number, failed in self.failed.items() if failed}
        return {"task": task, "device": self.arguments.device, "repeats": self.arguments.repeats, "clock": self.arguments.clock, "without": without}

    def check(self) -> None:
        """Calls every contestant once, in several processes."""
        count = min(self.arguments.processes, len(self.cases))
        self.done = 0

        def record(number: int, line: Line) -> None:
            with self.lock:
                self.note(number, line)

        def ended(number: int) -> None:
            with self.lock:
                left_out = "; ".join(itertools.starmap(self.reason, self.failed[number].items()))
                self.say("check", len(self.cases), number, f"without {left_out}" if left_out else "all right")

        def of_process(first: int) -> None:
            of = {number: case for number, case in self.cases.items() if number % count == first}
            case_processes.run(of, self.order("check"), record, self.events, ended)

        with concurrent.futures.ThreadPoolExecutor(max(1, count)) as pool:
            for process in [pool.submit(of_process, first) for first in range(count)]:
                process.result()

    def run(self, number_of_run: int) -> None:
        """Times all cases once, in one process."""
        cases, times = self.left(), {number: {} for number in self.cases}
        alone: set[int] = set()
        self.done = 0

        def record(number: int, line: Line) -> None:
            self.note(number, line)
            if "us" in line:
                times[number][line["key"]] = line["us"]
                if line.get("alone"):
                    alone.add(number)

        def ended(number: int) -> None:
            us, missing = times[number], self.missing()
            failed = {key: why for key, why in self.failed[number].items() if key not in missing}
            row = {"kind": "case", "started": self.origin["started"], "run": number_of_run, **self.cases[number].fields, "us": us}
            self.write(row | ({"failed": failed} if failed else {}) | ({"alone": True} if number in alone else {}))
            words = "  ".join(f"{key} {value:.1f}" for key, value in us.items()) or "; ".join(self.failed[number].values())
            speed = f"  x{us[DEEP_GEMM] / us[DROP_IN]:.3f}" if DEEP_GEMM in us and DROP_IN in us else ""
            self.say(f"run {number_of_run} of {self.arguments.runs}", len(cases), number, words + speed)

        case_processes.run(cases, self.order("time"), record, self.events, ended)

    def write(self, row: Line) -> None:
        if row["kind"] == "case" and not any(each["kind"] == "contest" for each in self.rows):
            self.write(self.head())  # now the first process has named the machine
        self.rows.append(row)
        if self.arguments.json:
            with self.arguments.json.open("a") as file:
                file.write(json.dumps(row) + "\n")

    def missing(self) -> dict[str, str]:
        """Who had no right result in any case, and the first reason."""
        of = [(key, why) for failed in self.failed.values() for key, why in failed.items()]
        return {key: why for key, why in reversed(of) if key not in self.measured and key != case_processes.IN_TURN}

    def head(self) -> Line:
        on_gpu = self.arguments.device == "cuda"
        clock = WORDS_OF_CLOCKS[self.arguments.clock] if on_gpu else "the host's time"
        flush = ", each after a flush of L2 (256 MB written, 256 MB read)" if on_gpu else ""
        return {
            "kind": "contest", **self.origin, **self.machine, **(card_state() if on_gpu else {}),
            "clock": f"{clock}; the median of {self.arguments.repeats} calls in turns{flush}; SM clocks are not set",
            "runs": self.arguments.runs, "cases": len(self.cases), "classes": self.arguments.only, "random": self.arguments.random,
            "seed": self.arguments.seed, "peers": self.peers, "missing": self.missing(),
        }  # fmt: skip

    def are_ours_right(self) -> bool:
        return not any(key in failed for failed in self.failed.values() for key in OURS)


def contest(cases: list[Case], arguments: argparse.Namespace, events: Events) -> Contest:
    """The three phases. The record has every run as soon as a case of it ends."""
    of = Contest(cases, arguments, events)
    if arguments.processes:
        of.check()
    for number in range(1, arguments.runs + 1):
        of.run(number)
    return of


def verdict(record: contest_table.Record) -> int:
    return int(contest_table.is_missed(record.shapes) or not contest_table.is_judged(record.shapes))


def main(words: list[str] | None = None, events: Events = functools.partial(case_processes.events_of, program=PROGRAM)) -> int:
    arguments = parsed(words)
    if arguments.table:
        record = contest_table.read(arguments.table)
        print(contest_table.text(record))
        return verdict(record)
    cases = chosen(arguments)
    if arguments.dry_run:
        print(listing(cases, arguments))
        return 0
    try:
        of = contest(cases, arguments, events)
    except case_processes.ProcessError as why:
        print(f"contest: {why}", file=sys.stderr)
        return 2
    if not of.rows:
        print("contest: no case could be measured", file=sys.stderr)
        return 2
    record = contest_table.newest(of.rows)
    print("\n" + contest_table.text(record))
    return verdict(record) or int(not of.are_ours_right())


if __name__ == "__main__":
    sys.exit(main())
