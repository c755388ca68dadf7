"""Checks that results are right on this machine: `python -m tilewright.selftest`, about a minute.

1. The program `tilewright` of the wheel checks every operation and recipe against float64 (`tilewright verify --quick`).
   It uses the GPU, if there is one, with the kernels of the wheel.
2. Random calls through Python have to give the exact result, on numpy arrays and on tensors of torch if it is installed.
   Operands are whole numbers from -2 to 2 with scales of powers of two. Every number format on the way holds their products
   and sums exactly, so no tolerance is needed.
"""

from __future__ import annotations

import argparse
import platform
import secrets
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tilewright._openmp import environment
from tilewright._program import run

RECIPES = (("row", "row"), ("tensor", "tensor"), ("1x128", "128x128"), ("1x128", "1x128"), ("128x128", "128x128"),
           ("mxfp8", "mxfp8"), ("mxfp8", "mxfp4"), ("1x128", "mxfp4"), ("bf16", "mxfp4"), ("bf16", "bf16"))  # fmt: skip
TORCH_RECIPES = RECIPES[:4]  # those that Hopper multiplies

Converter = Callable[[np.ndarray], Any]


def find_program() -> str | None:
    """The program that was installed with this package, or else one of the search path."""
    installed = Path(sysconfig.get_path("scripts")) / "tilewright"
    return str(installed) if installed.is_file() else shutil.which("tilewright")


def verify() -> bool:
    program = find_program()
    if program is None:
        print("program tilewright: not installed with this package and not in PATH; its checks were not run")
        return True
    command = [program, "verify", "--quick"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment())
    lines = done.stdout.splitlines()
    shown = lines if done.returncode != 0 else [line for line in lines if "backend " in line or " cases, " in line]
    print("tilewright verify --quick: " + "\n".join(shown) + done.stderr)
    return done.returncode == 0


def whole_numbers(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.integers(-2, 3, shape).astype(np.float32)


def group_ends(random: np.random.Generator, groups: int, rows: int) -> np.ndarray:
    ends = np.sort(random.integers(0, rows + 1, groups)).astype(np.int32)
    ends[-1] = rows
    return ends


def product_of_groups(x: np.ndarray, w: np.ndarray, ends: np.ndarray) -> np.ndarray:
    starts = np.concatenate([[0], ends[:-1]])
    return np.concatenate([x[s:e] @ w[g].T for g, (s, e) in enumerate(zip(starts, ends, strict=True))])


def calls(
    random: np.random.Generator, recipes: tuple[tuple[str, str], ...], convert: Converter
) -> Iterator[tuple[str, Any, np.ndarray]]:
    """(what, result, exact result) of random shapes; `convert` makes the arrays of the library that is tested."""
    for a, b in recipes:
        m, n, k = (int(random.integers(1, top)) for top in (200, 300, 40))
        n, k, groups = 8 * n, 16 * k, int(random.integers(1, 6))
        x, w, ws = (whole_numbers(random, *shape) for shape in ((m, k), (n, k), (groups, n, k)))
        side = tw.quantize(convert(x), a, round_up=True)
        of_groups = tw.quantize(convert(ws), b, round_up=True)
        what = f"{a}:{b} m={m} n={n} k={k}"
        yield f"gemm {what}", tw.gemm(side, tw.quantize(convert(w), b, round_up=True), out_dtype="f32"), x @ w.T
        if a == "128x128":
            continue  # its squares may hold rows of two groups
        ends = group_ends(random, groups, m)
        product = tw.grouped_gemm(side, of_groups, offsets=convert(ends), out_dtype="f32")
        yield f"grouped_gemm {what} groups={groups}", product, product_of_groups(x, ws, ends)


def check(library: str, results: Iterator[tuple[str, Any, np.ndarray]]) -> bool:
    """Prints the calls that went wrong, and how many there were."""
    count = wrong = 0
    for what, result, exact in results:
        given = np.asarray(result.cpu() if hasattr(result, "cpu") else result)
        different = int(np.count_nonzero(given != exact))
        count += 1
        wrong += different > 0
        if different > 0:
            print(f"WRONG: {library}: {what}: {different} of {exact.size} elements differ from the exact result")
    print(f"{library}: {count} calls, {wrong} wrong")
    return wrong == 0


def torch_libraries() -> Iterator[tuple[str, tuple[tuple[str, str], ...], Converter]]:
    try:
        import torch
    except ImportError:
        print("torch: not installed; calls with its tensors were not made")
        return
    try:
        torch.from_numpy(np.zeros(1, np.float32))
    except RuntimeError as error:  # a torch that was built for another numpy
        print(f"torch {torch.__version__}: {error}; calls with its tensors were not made")
        return
    yield f"torch {torch.__version__} on the CPU", TORCH_RECIPES, torch.from_numpy
    if not torch.cuda.is_available():
        print("torch: no GPU that it can use; calls on a GPU were not made")
    elif torch.cuda.get_device_capability() != (9, 0):
        print(f"{torch.cuda.get_device_name()}: no Hopper GPU; calls on a GPU were not made")
    else:
        yield f"{torch.cuda.get_device_name()}", TORCH_RECIPES, lambda array: torch.from_numpy(array).cuda()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tilewright.selftest",
        description="Checks that Tilewright is right on this machine; exit code 1 if it is not.",
        epilog="Example: python -m tilewright.selftest --rounds 50 --seed 7",
    )
    parser.add_argument("--seed", type=int, help="of the random calls; else another one each time, which is printed")
    parser.add_argument("--rounds", type=int, default=5, help="of random calls (default: 5)")
    parser.add_argument("--calls-only", action="store_true", help="do not run the program's checks")
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed

    began = time.monotonic()
    print(f"tilewright {tw.__version__}, Python {platform.python_version()}, {platform.platform()}; seed {seed}")
    right = options.calls_only or verify()
    for library, recipes, convert in chain([("numpy", RECIPES, lambda array: array)], torch_libraries()):
        random = np.random.default_rng(seed)
        results = (result for _ in range(options.rounds) for result in calls(random, recipes, convert))
        right &= check(library, results)
    print(f"{'all right' if right else 'WRONG RESULTS: please report this output'}; {time.monotonic() - began:.0f} s")
    return 0 if right else 1


if __name__ == "__main__":
    run(main)
