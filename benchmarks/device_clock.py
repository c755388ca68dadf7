"""Device times of calls from Python, measured by torch's profiler or by CUDA events.

The calls take turns, and L2 is flushed before each one. The median of a call's times counts. The flush writes 256 MB and reads
another 256 MB, so that no dirty line remains.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

FLUSH_BYTES = 256 << 20
Call = Callable[[], Any]


class ClockError(RuntimeError):
    """The profiler did not record the expected kernels."""


class FlushingClock:
    """The part that the clocks of torch's current GPU share."""

    def __init__(self, repeats: int):
        import torch

        self.torch, self.repeats = torch, repeats
        self.written = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
        self.read = torch.zeros(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")

    def flush(self) -> None:
        self.written.fill_(1)
        self.read.max()


class EventClock(FlushingClock):
    """From an event before a call to an event after it. Gaps between the kernels of a call count.

    A flush runs on the GPU for longer than the host needs to enqueue a call. So the GPU does not wait for the host.
    """

    def event(self) -> Any:
        return self.torch.cuda.Event(enable_timing=True)

    def synchronize(self) -> None:
        self.torch.cuda.synchronize()

    def medians(self, calls: Sequence[Call]) -> list[float]:
        """Microseconds of each call. Each round calls each one once, after a flush; a first round warms up."""
        pairs = [[(self.event(), self.event()) for _ in calls] for _ in range(self.repeats + 1)]
        for of_round in pairs:
            for call, (begin, end) in zip(calls, of_round, strict=True):
                self.flush()
                begin.record()
                call()
                end.record()
        self.synchronize()
        times = [[begin.elapsed_time(end) * 1e3 for begin, end in of_round] for of_round in pairs[1:]]
        return [statistics.median(of_call) for of_call in zip(*times, strict=True)]


class DeviceClock(FlushingClock):
    """The time of a call is the sum over its kernels, as torch's profiler records them. Gaps between them do not count."""

    def __init__(self, repeats: int):
        super().__init__(repeats)
        self.flush_kernels = len(self.kernels(self.flush))

    def kernels(self, function: Call) -> list[int]:
        """Nanoseconds of everything that ran on the GPU, sorted by start."""
        return [duration for _, duration in self.recorded(function)]

    def recorded(self, function: Call) -> list[tuple[str, int]]:
        """Names and nanoseconds of the same."""
        profiler = self.torch.profiler
        self.torch.cuda.synchronize()
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as run:
            function()
            self.torch.cuda.synchronize()
        device = self.torch.autograd.DeviceType.CUDA
        events = [e for e in run.profiler.kineto_results.events() if e.device_type() == device]
        return [(e.name(), e.duration_ns()) for e in sorted(events, key=lambda e: e.start_ns())]

    def medians(self, calls: Sequence[Call]) -> list[float]:
        """Microseconds of each call. Each round calls each one once, after a flush."""
        for call in calls:
            call()
        counts = [len(self.kernels(call)) for call in calls]

        def rounds() -> None:
            for _ in range(self.repeats):
                for call in calls:
                    self.flush()
                    call()

        times = self.kernels(rounds)
        expected = self.repeats * sum(self.flush_kernels + count for count in counts)
        if len(times) != expected or not all(counts):
            raise ClockError(
                f"the profiler saw {len(times)} kernels in {self.repeats} rounds and not {expected} "
                f"(of the calls alone: {counts}); end other profilers"
            )
        return medians_of_rounds(times, counts, self.flush_kernels)


class KernelClock(DeviceClock):
    """The same times from one profile of all calls, instead of one for each. It is split at the kernels of the flushes."""

    def __init__(self, repeats: int):
        super().__init__(repeats)
        self.last_of_flush = self.recorded(self.flush)[-1][0]

    def medians(self, calls: Sequence[Call]) -> list[float]:
        for call in calls:
            call()

        def rounds() -> None:
            for _ in range(self.repeats):
                for call in calls:
                    self.flush()
                    call()

        recorded = self.recorded(rounds)
        flushed = [at for at, (name, _) in enumerate(recorded) if name == self.last_of_flush]
        ends = [at - self.flush_kernels + 1 for at in flushed[1:]] + [len(recorded)]
        sums = [sum(ns for _, ns in recorded[begin + 1 : end]) for begin, end in zip(flushed, ends, strict=False)]
        if len(sums) != self.repeats * len(calls) or not all(sums):
            raise ClockError(f"the profiler saw {len(sums)} flushes and not {self.repeats * len(calls)}, {sums.count(0)} of them without a call")
        return [statistics.median(sums[i :: len(calls)]) * 1e-3 for i in range(len(calls))]


def medians_of_rounds(times: Sequence[int], counts: Sequence[int], flush_kernels: int) -> list[float]:
    """Times of the calls, from nanoseconds sorted by start. Each round has a flush and a call per entry of `counts`."""
    sums: list[list[int]] = [[] for _ in counts]
    at = 0
    while at < len(times):
        for of_call, count in zip(sums, counts, strict=True):
            at += flush_kernels
            of_call.append(sum(times[at : at + count]))
            at += count
    return [statistics.median(of_call) * 1e-3 for of_call in sums]


class HostClock:
    """The host's time, for trying a program without a GPU. It says nothing about a GPU."""

    def __init__(self, repeats: int):
        self.repeats = repeats

    def medians(self, calls: Sequence[Call]) -> list[float]:
        times: list[list[float]] = [[] for _ in calls]
        for _ in range(self.repeats):
            for call, of_call in zip(calls, times, strict=True):
                begin = time.perf_counter()
                call()
                of_call.append((time.perf_counter() - begin) * 1e6)
        return [statistics.median(of_call) for of_call in times]
