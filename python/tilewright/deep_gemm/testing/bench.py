"""Times of GPU kernels, by events and by torch's profiler; wall-clock times where there is no GPU."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule

_FLUSH_BYTES = 8_000_000_000
# What flushing and waiting launch; all else is the measured function's.
_NOT_MEASURED = ("FillFunctor", "Memset", "spin_kernel")
_OURS = "tilewright"


def _wall_seconds(function: Callable[[], Any], count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - begin) / count


def bench(fn: Callable[[], Any], num_warmups: int = 5, num_tests: int = 10, high_precision: bool = False) -> float:
    """Seconds that a call takes between two events; high_precision hides the launches behind a long kernel."""
    for _ in range(num_warmups):
        fn()
    if not torch.cuda.is_available():
        return _wall_seconds(fn, num_tests)
    torch.empty(256_000_000, dtype=torch.int8, device="cuda").zero_()  # pushes operands out of the L2 cache
    if high_precision:
        square = torch.randn((8192, 8192), device="cuda")
        torch.mm(square, square)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(num_tests):
        fn()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / num_tests


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Nothing printed reaches the terminal, also from outside Python."""
    streams = sys.stdout, sys.stderr
    for stream in streams:
        stream.flush()
    kept = [os.dup(number) for number in (1, 2)]
    with open(os.devnull, "w") as nothing:
        try:
            for number in (1, 2):
                os.dup2(nothing.fileno(), number)
            sys.stdout = sys.stderr = nothing
            yield
        finally:
            sys.stdout, sys.stderr = streams
            for number, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, number)
                os.close(copy)


def _profile(fn: Callable[[], Any], num_tests: int, flush_l2: bool, barrier: Callable[[], Any] | None) -> Any:
    """A profiler that has recorded `num_tests` calls after as many to warm up."""
    steps = schedule(wait=0, warmup=1, active=1, repeat=1)
    with profile(activities=[ProfilerActivity.CUDA], schedule=steps, acc_events=True) as profiler:
        for _ in range(2):
            for _ in range(num_tests):
                if flush_l2:
                    torch.empty(_FLUSH_BYTES, dtype=torch.int8, device="cuda").zero_()
                if barrier is not None:
                    torch.cuda._sleep(20_000_000)  # some 10 ms: all ranks have launched by then
                    barrier()
                fn()
            torch.cuda.synchronize()
            profiler.step()
    return profiler


def kernel_seconds(totals: dict[str, float], names: tuple[str, ...], calls: int) -> tuple[float, ...]:
    """Seconds a call of the kernels that each name asks for, from the total seconds of every kernel.

    Those whose name contains it; else those of this library, which have names of their own; else, for a single name,
    all that the function launched.
    """
    measured = {kernel: total for kernel, total in totals.items() if not any(word in kernel for word in _NOT_MEASURED)}
    ours = sum(total for kernel, total in measured.items() if _OURS in kernel)
    otherwise = ours or (sum(measured.values()) if len(names) == 1 else 0.0)
    found = [[total for kernel, total in measured.items() if name in kernel] for name in names]
    return tuple((sum(times) if times else otherwise) / calls for times in found)


def bench_kineto(
    fn: Callable[[], Any],
    kernel_names: str | tuple[str, ...],
    num_tests: int = 30,
    suppress_kineto_output: bool = False,
    trace_path: str | None = None,
    flush_l2: bool = True,
    with_multiple_kernels: bool = False,
    barrier: Callable[[], Any] | None = None,
) -> Any:
    """Seconds of the named kernels in a call, by torch's profiler: a number for a name, a tuple for a tuple.

    Kernels of this library count under any name (`kernel_seconds`). All kernels that a name matches are added up,
    whatever with_multiple_kernels says. DG_USE_NVIDIA_TOOLS=1 calls nothing and answers 1; without a GPU: wall-clock.
    """
    names = (kernel_names,) if isinstance(kernel_names, str) else tuple(kernel_names)
    if int(os.environ.get("DG_USE_NVIDIA_TOOLS", "0")):
        times: tuple[float, ...] = (1,) * len(names)
    elif not torch.cuda.is_available():
        fn()
        times = (_wall_seconds(fn, num_tests),) * len(names)
    else:
        fn()
        with _quiet() if suppress_kineto_output else contextlib.nullcontext():
            profiler = _profile(fn, num_tests, flush_l2, barrier)
        if trace_path is not None:
            profiler.export_chrome_trace(trace_path)
        totals = {event.key: event.device_time_total / 1e6 for event in profiler.key_averages()}
        times = kernel_seconds(totals, names, num_tests)
    return times[0] if isinstance(kernel_names, str) else times
