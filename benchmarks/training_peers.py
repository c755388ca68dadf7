#!/usr/bin/env python3
"""Compares the products of a training step with those of torch and DeepGEMM, on the same matrices and in the same run.

    python benchmarks/training_peers.py --json FILE                 # everything with a target; see make gpu-peers
    python benchmarks/training_peers.py --only forward,dgrad
    python benchmarks/training_peers.py --random 20 --seed 5 --only wgrad-random,forward-random

Sections:

- forward, dgrad: grouped products of the experts of three models. Ours have tensor scales, torch._scaled_grouped_mm row scales.
- wgrad, wgrad-other: k-grouped products. With row scales and bf16 output against torch, both with tokens rounded up to 16,
  and ours also without. With 128-blocks and f32 += against DeepGEMM, with tokens rounded up to 128.
- from-bf16: quantizers and wgrad against torch's bf16 product.

Each result is compared with float64 sums of the dequantized operands (from-bf16: of the bf16 tensors). Then all contestants of
a case are called in turn, each call after a flush of L2. The times of all kernels of a call, from torch's profiler, are added,
and the median counts. Lines are appended as soon as they are measured. A contestant that is missing, fails or has a wrong
result is named, and all others are measured.

Needs torch 2.8 or newer. The exit code is 1 if a target is missed or a result of ours is wrong, and 2 if there is no GPU.
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import sys
from typing import Any

import case_processes
import training_peers_table
from origin import origin
from training_sizes import RANDOM, SECTIONS, Case, fixed, random_cases, smaller, words_of_case

FIRST_WORDS = "Tilewright"  # the first word of our names in a record
PROGRAM = [sys.executable, str(pathlib.Path(__file__).with_name("training_contest.py"))]


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"some of {', '.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="the first product of each, 3 calls: to see who is there")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="N random sizes of each product too")
    parser.add_argument("--seed", type=int, default=1, help="of the random sizes")
    parser.add_argument("--repeats", type=int, help="calls that are timed; their median counts (12)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: small matrices, host times, to try the program")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="append one object for each time to this file")
    arguments = parser.parse_args(words)
    arguments.only = arguments.only.split(",") if arguments.only else list(SECTIONS)
    if unknown := [word for word in arguments.only if word not in SECTIONS]:
        parser.error(f"--only: '{unknown[0]}' is none of {', '.join(SECTIONS)}")
    if not arguments.random and all(name in RANDOM for name in arguments.only):
        parser.error(f"--only {','.join(arguments.only)}: --random N says how many")
    arguments.repeats = arguments.repeats or (3 if arguments.quick else 12)
    return arguments


def chosen(arguments: argparse.Namespace) -> list[Case]:
    cases = [case for case in [*fixed(), *random_cases(arguments.random, arguments.seed)] if case.section in arguments.only]
    if arguments.quick:
        cases = list({case.section: case for case in reversed(cases)}.values())[::-1]
    return list(map(smaller, cases)) if arguments.device == "cpu" else cases


def device_name(device: str) -> str | None:
    """The name of the GPU, or None if there is none."""
    if device == "cpu":
        return "CPU"
    try:
        import torch
    except ImportError:
        return None
    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else None


def is_wrong(line: dict[str, Any]) -> bool:
    return "failed" in line and line["peer"].startswith(FIRST_WORDS)


def main() -> int:
    arguments = parsed()
    device = device_name(arguments.device)
    if device is None:
        print("training_peers: torch sees no GPU; --device cpu tries the program without one", file=sys.stderr)
        return 2
    lines: list[dict[str, Any]] = []
    cases = dict(enumerate(chosen(arguments)))
    common = {"flush": "clean" if arguments.device == "cuda" else "none", "device": device, **origin()}

    def record(number: int, line: dict[str, Any]) -> None:
        case = cases[number]
        line = {"section": case.section, "shape": case.shape, **words_of_case(case), **line, **common}
        lines.append(line)
        if arguments.json:
            with arguments.json.open("a") as file:
                file.write(json.dumps(line) + "\n")
        said = f"not measured: {line['failed']}" if "failed" in line else f"{line['us']:10.2f} us, relative error {line['relative_error']:.2g}"
        print(f"{line['section']:15}{training_peers_table.product_of(line):44}{line['peer']:52}{said}", flush=True)

    order = {"device": arguments.device, "repeats": arguments.repeats}
    try:
        case_processes.run(cases, order, record, functools.partial(case_processes.events_of, program=PROGRAM))
    except case_processes.ProcessError as why:
        print(f"training_peers: {why}", file=sys.stderr)
        return 2
    finally:
        print("\n" + training_peers_table.text(lines))
    missed = [v for section in training_peers_table.sections(lines) for v in training_peers_table.verdicts(lines, section) if v.is_missed]
    return 1 if missed or any(map(is_wrong, lines)) else 0


if __name__ == "__main__":
    sys.exit(main())
