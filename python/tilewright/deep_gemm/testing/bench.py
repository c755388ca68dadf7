"""Times of GPU kernels, by events and by torch's profiler. Without a GPU, wall-clock times."""

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
# Kernels that flush the cache or wait. All others belong to the measured function.
_NOT_MEASURED = ("FillFunctor", "Memset", "spin_kernel")
_OURS = "tilewright"


def _wall_seconds(function: Callable[[], Any], count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - begin) / count


def bench(fn: Callable[[], Any], num_warmups: int = 5, num_tests: int = 10, high_precision: bool = False) -> float:
    """Seconds per call, measured between two events.

    Args:
        fn: the call.
        num_warmups: the number of calls before the measurement.
        num_tests: the number of measured calls.
        high_precision: whether to start with a long kernel. The host launches the measured calls while it runs.
    """
    for _ in range(num_warmups):
        fn()
    if not torch.cuda.is_available():
        return _wall_seconds(fn, num_tests)
    torch.empty(256_000_000, dtype=torch.int8, device="cuda").zero_()  # evicts the operands from the L2 cache
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
    """Suppresses all output to the terminal, also from native code."""
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
    """A profiler with `num_tests` recorded calls, after the same number of calls to warm up."""
    steps = schedule(wait=0, warmup=1, active=1, repeat=1)
    with profile(activities=[ProfilerActivity.CUDA], schedule=steps, acc_events=True) as profiler:
        for _ in range(2):
            for _ in range(num_tests):
                if flush_l2:
                    torch.empty(_FLUSH_BYTES, dtype=torch.int8, device="cuda").zero_()
                if barrier is not None:
                    torch.cuda._sleep(20_000_000)  # about 10 ms, enough for all ranks to launch
                    barrier()
                fn()
            torch.cuda.synchronize()
            profiler.step()
    return profiler


def kernel_seconds(totals: dict[str, float], names: tuple[str, ...], calls: int) -> tuple[float, ...]:
    """Seconds per call of the kernels that each name selects.

    A name selects the kernels whose names contain it. If there are none, it selects the kernels of this library, which have
    other names than DeepGEMM's. If there are none of those and only one name is given, it selects all kernels.

    Args:
        totals: total seconds by kernel name.
        names: the names to look for.
        calls: the number of calls in the totals.
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
    """Seconds per call of the named kernels, measured by torch's profiler.

    Kernels of this library count under any name (`kernel_seconds`). The times of all kernels that a name matches are added,
    for both values of with_multiple_kernels. With the environment variable DG_USE_NVIDIA_TOOLS=1 nothing is called, and the
    result is 1. Without a GPU the result is wall-clock time.

    Args:
        fn: the call.
        kernel_names: a name or a tuple of names.
        num_tests: the number of measured calls. The same number of calls runs first to warm up.
        suppress_kineto_output: whether to suppress output during the measurement. Default False.
        trace_path: a file for a Chrome trace, or None.
        flush_l2: whether to flush the L2 cache before each call. Default True.
        with_multiple_kernels: without effect.
        barrier: a function called before each call. It is meant for runs on several ranks.

    Returns:
        A number for one name, a tuple for a tuple of names.
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
