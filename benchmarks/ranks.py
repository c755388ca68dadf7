"""The ranks of a benchmark: processes that torchrun started, their arguments, their common clock, and what their links take.

On GPUs the ranks use NCCL without multicast, on the CPU gloo.
"""

from __future__ import annotations

import argparse
import datetime
import faulthandler
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from device_clock import EventClock, HostClock

HANG_S = 120  # after which a rank that waits for another one ends
LINK_BYTES = (1 << 16, 1 << 20, 1 << 24, 1 << 26)
RATE_BYTES = 1 << 26  # the copy whose rate is the rate of the link
LINK_CALLS = 10  # calls in a graph of barriers or copies, so that the start of a graph does not count

Call = Callable[[], Any]


def arguments(text: str, example: str, repeats: int) -> argparse.ArgumentParser:
    """The arguments of a program that times models over ranks."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help=example)
    parser.add_argument("--tokens", help="numbers of tokens of a rank, as 8,512")
    parser.add_argument("--repeats", type=int, default=repeats, help="replays whose median counts")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: tiny layers, whose times mean nothing")
    parser.add_argument("--json", type=pathlib.Path, help="append a line per model and number of tokens")
    return parser


def chosen_models(
    parser: argparse.ArgumentParser, options: Any, program: str, models: Mapping[str, Any], default: Sequence[str]
) -> list[Any]:
    """The models of --models. Ends the program with 2 if ranks or models are not as they must be."""
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.exit(2, f"{program}: no GPU (--device cpu tries the program)\n")
    if "RANK" not in os.environ:
        parser.exit(2, f"{program}: start it with torchrun --nproc-per-node 2\n")
    size, here = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if options.device == "cuda" and torch.cuda.device_count() < here:
        gpus = torch.cuda.device_count()
        parser.exit(2, f"{program}: got {here} processes and {gpus} GPUs; expected a GPU per process\n")
    keys = options.models.split(",") if options.models else default
    if not set(keys) <= set(models):
        parser.exit(2, f"{program}: got models {options.models}; expected some of {', '.join(models)}\n")
    chosen = [models[key] for key in keys]
    for model in chosen:
        if model.experts % size:
            parser.exit(2, f"{program}: got {size} processes; expected a divisor of the {model.experts} experts of {model.name}\n")
    return chosen


class Ranks:
    """This process and its group."""

    def __init__(self, device: str) -> None:
        os.environ["NCCL_NVLS_ENABLE"] = "0"
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        on_gpu = device == "cuda"
        self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
        if on_gpu:
            torch.cuda.set_device(self.device)
        limit = datetime.timedelta(seconds=HANG_S)
        dist.init_process_group("nccl" if on_gpu else "gloo", timeout=limit, device_id=self.device if on_gpu else None)

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def card(self) -> str:
        return torch.cuda.get_device_name() if self.on_gpu else "cpu"

    @property
    def engine(self) -> str:
        return f"NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}" if self.on_gpu else "gloo"

    def expect_progress(self) -> None:
        """A rank that does not come here again for HANG_S prints where it is, and ends. torchrun then ends the others."""
        faulthandler.dump_traceback_later(HANG_S, exit=True)

    def largest(self, values: Sequence[float]) -> list[float]:
        """The largest of all ranks, value by value."""
        found = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return list(found.tolist())

    def gathered(self, own: torch.Tensor) -> torch.Tensor:
        """The ranks' tensors one after another."""
        found = own.new_empty(self.size * own.shape[0], *own.shape[1:])
        dist.all_gather_into_tensor(found, own)
        return found

    def attempt(self, call: Callable[[], Any]) -> tuple[Any, str]:
        """The result of a call of all ranks, and why the first rank that failed did. Then no rank has a result."""
        result, reason = None, ""
        try:
            result = call()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
        reasons = [""] * self.size
        dist.all_gather_object(reasons, reason)
        reason = next(filter(None, reasons), "")
        return (None if reason else result), reason

    def close(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        dist.barrier()
        dist.destroy_process_group()


class RanksClock(EventClock):
    """Device times of calls of all ranks, as replays of CUDA graphs. After each flush of L2 the ranks wait for each other."""

    def __init__(self, ranks: Ranks, repeats: int) -> None:
        import torch.distributed._symmetric_memory as symmetric

        super().__init__(repeats)
        self.ranks = ranks
        self.part = symmetric.empty(1024, dtype=torch.uint8, device=ranks.device)
        self.handle = symmetric.rendezvous(self.part, dist.group.WORLD)

    def flush(self) -> None:
        super().flush()
        self.handle.barrier(channel=0)  # ranks leave it within a microsecond or two, and NCCL's collectives later than that

    def prepared(self, calls: Sequence[Call], eager: Sequence[bool]) -> list[tuple[Call | None, str]]:
        """Graphs of the calls, and eager calls as they are. None, and why, for a call that no rank captures because one cannot."""
        pool = torch.cuda.graph_pool_handle()  # no two graphs run at once, so that they can share memory
        return [
            (call, "") if is_eager else self.ranks.attempt(lambda call=call: self.captured(call, pool))
            for call, is_eager in zip(calls, eager, strict=True)
        ]

    def captured(self, call: Call, pool: Any) -> Call:
        for _ in range(2):
            call()
        self.synchronize()
        graph = torch.cuda.CUDAGraph()
        # NCCL's watchdog is another thread, whose calls do not end the capture in this mode.
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            call()
        return graph.replay

    def slowest(self, prepared: Sequence[Call]) -> list[float]:
        """Microseconds of each call: the median of its rank, then that of the slowest rank."""
        return self.ranks.largest(self.medians(prepared))


class RanksHostClock(HostClock):
    """The same without a GPU, to try a program. It says nothing about a GPU."""

    def __init__(self, ranks: Ranks, repeats: int) -> None:
        super().__init__(repeats)
        self.ranks = ranks

    def prepared(self, calls: Sequence[Call], eager: Sequence[bool]) -> list[tuple[Call | None, str]]:
        return [(call, "") for call in calls]

    def slowest(self, prepared: Sequence[Call]) -> list[float]:
        return self.ranks.largest(self.medians(prepared))


def clock_of(ranks: Ranks, repeats: int) -> Any:
    return RanksClock(ranks, repeats) if ranks.on_gpu else RanksHostClock(ranks, repeats)


def links(ranks: Ranks, clock: Any) -> dict[str, float]:
    """Microseconds of a barrier and of copies to and from the next rank, by symmetric memory, and the rate of a large copy.

    Without a GPU there are none.
    """
    if not ranks.on_gpu:
        return {}
    import torch.distributed._symmetric_memory as symmetric

    part = symmetric.empty(max(LINK_BYTES), dtype=torch.uint8, device=ranks.device)
    handle = symmetric.rendezvous(part, dist.group.WORLD)
    peer = handle.get_buffer((ranks.rank + 1) % ranks.size, (max(LINK_BYTES),), torch.uint8)
    own = torch.zeros(max(LINK_BYTES), dtype=torch.uint8, device=ranks.device)
    once: dict[str, Call] = {"barrier": lambda: handle.barrier(channel=0)}
    for size in LINK_BYTES:
        once[f"push_{size}"] = lambda size=size: peer[:size].copy_(own[:size])
        once[f"pull_{size}"] = lambda size=size: own[:size].copy_(peer[:size])

    def repeated(call: Call) -> Call:
        return lambda: [call() for _ in range(LINK_CALLS)]

    prepared = clock.prepared([repeated(call) for call in once.values()], [False] * len(once))
    if any(call is None for call, _ in prepared):
        raise RuntimeError(f"symmetric memory: {', '.join(reason for _, reason in prepared if reason)}")
    times = clock.slowest([call for call, _ in prepared])
    found = {f"{name}_us": us / LINK_CALLS for name, us in zip(once, times, strict=True)}
    return {**found, "bytes_per_us": RATE_BYTES / found[f"pull_{RATE_BYTES}_us"]}
