"""How the data of an exchange travel between ranks: through memory that all of them reach, or by collectives.

Both have two functions, which take turns in a call:

    gather     rank r's tensors come to all ranks
    hand_back  part r of each rank's tensors comes to rank r
"""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

import torch

from tilewright import _core
from tilewright.torch._checks import refuse
from tilewright.torch._rank_engine import RankEngine


class Room(NamedTuple):
    """The most bytes of the tensors of an exchange."""

    gathered: tuple[int, ...]  # of a rank
    handed_back: tuple[int, ...]  # from one rank to another


class Collectives:
    """Those of the process group."""

    def __init__(self, process_group: Any) -> None:
        self._process_group = process_group

    def gather(self, given: list[torch.Tensor]) -> list[torch.Tensor]:
        """[ranks * n, ...] for each [n, ...]."""
        group = self._process_group
        made = _for_all_ranks(given, group.size())
        with torch.distributed.distributed_c10d._coalescing_manager(group):
            for to, tensor in zip(made, given):
                # As bytes: gloo of torch 2.11 returns wrong numbers for tensors of several dtypes in one collective.
                to, tensor = to.view(torch.uint8), tensor.view(torch.uint8)
                torch.distributed.all_gather_into_tensor(to, tensor, group=group)
        return made

    def hand_back(self, given: list[torch.Tensor]) -> list[torch.Tensor]:
        """[ranks * n, ...] for each [ranks * n, ...]."""
        made = [torch.empty_like(tensor) for tensor in given]
        for to, tensor in zip(made, given):
            torch.distributed.all_to_all_single(to, tensor, group=self._process_group)
        return made

    def require_all_ranks(self) -> None:
        """The process group says by itself that a rank is gone."""


class PeerMemory:
    """Copies between GPUs, and barriers. `tilewright/peer_exchange.h` describes both.

    Args:
        engine: of ranks that reach each other's memory.
        process_group: its time-out is that of a barrier.
        room: of the largest exchange.
    """

    def __init__(self, engine: RankEngine, process_group: Any, device: torch.device, room: Room) -> None:
        self._ranks, self._device, self._engine = process_group.size(), device, engine
        gathered, handed_back = (sum(_aligned(count) for count in counts) for counts in room)
        self._exchange = _core.PeerExchange(engine.ranks(), gathered, handed_back, _seconds(process_group, device))

    def gather(self, given: list[torch.Tensor]) -> list[torch.Tensor]:
        """As `Collectives.gather`."""
        self.require_all_ranks()
        made = _for_all_ranks(given, self._ranks)
        self._exchange.gather([(t.data_ptr(), t.nbytes, to.data_ptr()) for t, to in zip(given, made)], self._stream())
        return made

    def hand_back(self, given: list[torch.Tensor]) -> list[torch.Tensor]:
        """As `Collectives.hand_back`. The results are overwritten by the next exchange of this kind."""
        self.require_all_ranks()
        parts = [(tensor.data_ptr(), tensor.nbytes // self._ranks) for tensor in given]
        received = self._exchange.hand_back(parts, self._stream())
        return [self._engine.view(address, tensor) for address, tensor in zip(received, given)]

    def require_all_ranks(self) -> None:
        """Raises if a barrier has not met a rank in time."""
        lost = self._exchange.lost()
        if lost is not None:
            rank, turn, in_gather = lost
            which = "the tokens, or the gradients of results," if in_gather else "the sums, or the gradients of tokens,"
            raise RuntimeError(f"rank {rank} did not come in time to the exchange of {which} {turn + 1}; make a new group")

    def _stream(self) -> int:
        return torch.cuda.current_stream(self._device).cuda_stream if self._device.type == "cuda" else 0


def transport_of(process_group: Any, device: torch.device, room: Room, exchange: str | None) -> Collectives | PeerMemory:
    """By all ranks together. exchange: "peer", "dense", or None: peer memory if all ranks reach that of the others."""
    if exchange == "dense":
        return Collectives(process_group)
    engine = RankEngine(process_group, device, wants_addresses=True)
    if engine.reaches_all():
        return PeerMemory(engine, process_group, device, room)
    if exchange == "peer":
        refuse("exchange", "'peer'", f"None or 'dense', because {engine.why}")
    return Collectives(process_group)


def _for_all_ranks(given: list[torch.Tensor], ranks: int) -> list[torch.Tensor]:
    return [tensor.new_empty(ranks * tensor.shape[0], *tensor.shape[1:]) for tensor in given]


def _aligned(count: int) -> int:
    return -(-count // _core.peer_alignment) * _core.peer_alignment


def _seconds(process_group: Any, device: torch.device) -> float:
    """The time-out of the process group, which its collectives have too."""
    options = getattr(process_group._get_backend(device), "options", None)
    timeout = getattr(options, "_timeout", datetime.timedelta(minutes=10))
    return float(timeout.total_seconds())
