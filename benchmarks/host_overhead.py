"""Measures the host time of a call from Python: against targets on a GPU, and with the smallest products on the CPU.

    python benchmarks/host_overhead.py                 on the GPU, if there is one; prints a table and a line of JSON
    python benchmarks/host_overhead.py --device cpu    the time of the package itself (numpy, ml_dtypes)
    python benchmarks/host_overhead.py | tail -1       only the line of JSON
    python benchmarks/host_overhead.py --json FILE     append the line to a file, with commit, date and command

On a GPU the product is [128, 512, 1024] of 1x128:128x128, with torch tensors:

- The time of a call is the median of 50 batches of 100 calls on an idle stream.
- A first call includes the wait for its result. With a precompiled kernel it is the first call of the process, with a current
  context. With e5m2 values the kernel is not precompiled, and is compiled into a new cache folder.

On the CPU the time is the best of 20 runs of 2000 calls. The exit code is 1 if a target is missed, and 2 if there is no device
to measure on.
"""

import argparse
import json
import os
import pathlib
import statistics
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from origin import origin

BATCH, REPEATS = 100, 50
M, N, K = 128, 512, 1024


class Figure(NamedTuple):
    what: str
    key: str
    microseconds: float
    target: float | None = None


def report(device: str, figures: Iterator[Figure], file: pathlib.Path | None) -> bool:
    """Prints the results. Returns whether all targets are reached."""
    figures = list(figures)
    print(f"{device}, from Python")
    print(f"{'':44}{'us':>12}{'target':>12}")
    for f in figures:
        print(f"{f.what:44}{f.microseconds:12.2f}{'' if f.target is None else f'{f.target:.0f}':>12}")
    line = {"figure": "host overhead", "from": "Python", "device": device}
    line |= {f"{f.key}_us": round(f.microseconds, 3) for f in figures}
    print(json.dumps(line))
    if file:
        with file.open("a") as lines:
            lines.write(json.dumps(line | origin()) + "\n")
    return all(f.target is None or f.microseconds <= f.target for f in figures)


def batched(call: Callable[[int], Any]) -> float:
    """The host's time per call: the median over batches of 100 calls, with an idle GPU before each batch."""
    import torch

    times = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for turn in range(BATCH):
            call(turn)
        times.append((time.perf_counter() - begin) / BATCH * 1e6)
    torch.cuda.synchronize()
    return statistics.median(times)


def waited(call: Callable[[], Any]) -> float:
    """One call, including the wait for its result."""
    import torch

    torch.cuda.synchronize()
    begin = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1e6


def on_gpu() -> Iterator[Figure]:
    import tilewright as tw
    import torch
    from tilewright import deep_gemm

    def operand(rows: int, recipe: str) -> Any:
        q = tw.quantize(torch.randn(rows, K), recipe)
        return tw.Quantized(q.values.cuda(), recipe, q.scales.cuda())

    pairs = [(operand(M, "1x128"), operand(N, "128x128")) for _ in range(BATCH)]
    others = operand(M, "e5m2.1x128"), operand(N, "e5m2.128x128")
    a, b = pairs[0]
    outs = [torch.empty(M, N, dtype=torch.bfloat16, device="cuda") for _ in range(BATCH)]
    out = outs[0]
    scratch = torch.zeros(1, device="cuda")
    sides = (a.values, a.scales), (b.values, b.scales)

    yield Figure("first call, kernel of the pack", "first_call", waited(lambda: tw.gemm(a, b, out=out)), 50e3)
    yield Figure("a call, same tensors", "same_tensors", batched(lambda _: tw.gemm(a, b, out=out)))
    yield Figure("a call, fresh tensors", "fresh_tensors", batched(lambda i: tw.gemm(*pairs[i], out=outs[i])), 7)
    yield Figure("a call, new output", "new_output", batched(lambda _: tw.gemm(a, b)))
    described = lambda _: tw.gemm(  # noqa: E731
        tw.Quantized(a.values, "1x128", a.scales), tw.Quantized(b.values, "128x128", b.scales), out=out
    )
    yield Figure("a call, operands described anew", "described_anew", batched(described))
    yield Figure("deep_gemm.fp8_gemm_nt", "deep_gemm", batched(lambda _: deep_gemm.fp8_gemm_nt(*sides, out)))
    yield Figure("for comparison: torch zeroes an element", "torch_zero", batched(lambda _: scratch.zero_()))
    yield Figure("first call, kernel to be compiled", "compiled_call", waited(lambda: tw.gemm(*others, out=out)), 1e6)


class DLPack:
    """An array that supports only DLPack."""

    def __init__(self, array: Any):
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def on_cpu() -> Iterator[Figure]:
    import ml_dtypes
    import numpy as np
    import tilewright as tw

    x, out = np.ones((2, 4), np.float32), np.zeros((2, 2), np.float32)
    half = x.astype(ml_dtypes.bfloat16)
    q = tw.Quantized(np.zeros((2, 4), np.uint8), "row", np.ones(2, np.float32))
    given, written = DLPack(x), DLPack(out)
    calls = {
        "quantised operands, out given": lambda: tw.gemm(q, q, out=out, threads=1),
        "quantised operands, new float32": lambda: tw.gemm(q, q, out_dtype="f32", threads=1),
        "quantised operands, new bfloat16": lambda: tw.gemm(q, q, threads=1),
        "numpy float32, out given": lambda: tw.gemm(x, x, out=out, threads=1),
        "numpy bfloat16 (ml_dtypes), out given": lambda: tw.gemm(half, half, out=out, threads=1),
        "a DLPack class in Python, out given": lambda: tw.gemm(given, given, out=written, threads=1),
        "validate": lambda: tw.validate(q, q, out=out),
        "Quantized from numpy arrays": lambda: tw.Quantized(q.values, "row", q.scales),
    }
    for what, call in calls.items():
        seconds = min(timeit.repeat(call, number=2000, repeat=20)) / 2000
        key = "".join(c if c.isalnum() else "_" for c in what.lower())
        yield Figure(what, key.replace("__", "_"), seconds * 1e6)


def has_gpu() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), help="the GPU where torch has one")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="append the line to this file")
    arguments = parser.parse_args()
    device = arguments.device or ("cuda" if has_gpu() else "cpu")
    if device == "cuda" and not has_gpu():
        parser.exit(2, "host_overhead: no GPU that torch can use; --device cpu measures without one\n")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEWRIGHT_CACHE_DIR"] = folder  # compiled kernels are not kept
        if device == "cpu":
            reached = report("CPU", on_cpu(), arguments.json)
        else:
            import torch

            reached = report(torch.cuda.get_device_name(), on_gpu(), arguments.json)
    raise SystemExit(0 if reached else 1)


if __name__ == "__main__":
    main()
