"""The engine of the library's ranks by torch.distributed: memory of each rank, its addresses, two collectives.

Symmetric memory is alpha in torch 2.11. Its names are used in this file only, without multicast.
"""

from __future__ import annotations

import importlib.util
import os
import socket
from typing import Any

import torch

from tilewright import _core


class RankEngine:
    """The functions of one rank. `tilewright/ranks.h` describes them.

    Args:
        process_group: of torch.distributed.
        device: where tokens are.
        wants_addresses: False: only collectives.
    """

    def __init__(self, process_group: Any, device: torch.device, wants_addresses: bool) -> None:
        self._process_group, self._device = process_group, device
        self._wants_addresses = wants_addresses
        self.why = "the exchange of the group is dense"  # the reason for addresses, or for none
        self._reached: bool | None = None
        self._memory = torch.empty(0, dtype=torch.uint8)
        self._addresses: list[int] = []

    def ranks(self) -> _core.Ranks:
        """What `_core.ExpertGroup` takes."""
        group = self._process_group
        index = self._device.index if self._device.type == "cuda" else -1
        functions = {name: getattr(self, name) for name in ("share", "allocate", "addresses", "all_gather", "all_to_all")}
        return _core.ranks_of_callables(group.rank(), group.size(), index, f"torch.distributed, {group.name()}", functions)

    def share(self, own: bytes) -> bytes:
        """The bytes of all ranks, in their order."""
        mine = torch.frombuffer(bytearray(own), dtype=torch.uint8).to(self._device)
        every = mine.new_empty(self._process_group.size() * len(own))
        torch.distributed.all_gather_into_tensor(every, mine, group=self._process_group)
        return bytes(every.cpu().numpy())

    def allocate(self, count: int) -> int:
        """The address of zeros. With addresses of other ranks, if all ranks reach each other's memory."""
        if self._wants_addresses and self.reaches_all():
            from torch.distributed import _symmetric_memory

            self._memory = _symmetric_memory.empty(count, dtype=torch.uint8, device=self._device)
            self._addresses = list(_symmetric_memory.rendezvous(self._memory, self._process_group).buffer_ptrs)
            self._memory.zero_()
        else:
            self._memory = torch.zeros(count, dtype=torch.uint8, device=self._device)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return self._memory.data_ptr()

    def addresses(self) -> list[int]:
        """The memory of all ranks, as this one reaches it; empty if it does not."""
        return self._addresses

    def all_gather(self, start: int, to: int, count: int, stream: int) -> None:
        with self._on(stream):
            received = self._memory[to : to + self._process_group.size() * count]
            torch.distributed.all_gather_into_tensor(received, self._memory[start : start + count], group=self._process_group)

    def all_to_all(self, start: int, to: int, count: int, stream: int) -> None:
        size = self._process_group.size() * count
        with self._on(stream):
            received, sent = self._memory[to : to + size], self._memory[start : start + size]
            torch.distributed.all_to_all_single(received, sent, group=self._process_group)

    def _on(self, stream: int) -> Any:
        """Collectives of torch run in its current stream."""
        if self._device.type != "cuda" or stream == torch.cuda.current_stream(self._device).cuda_stream:
            return torch.cuda.stream(None)
        return torch.cuda.stream(torch.cuda.ExternalStream(stream, device=self._device))

    def reaches_all(self) -> bool:
        """Whether all ranks have GPUs of one host that reach each other's memory. By all ranks together: to one answer."""
        if self._reached is None:
            obstacle = self._obstacle_of_all()
            self.why = obstacle or "the GPUs of all ranks reach each other's memory"
            self._reached = not obstacle
        return self._reached

    def view(self, address: int, like: torch.Tensor) -> torch.Tensor:
        """A tensor in this rank's memory."""
        begin = address - self._memory.data_ptr()
        return self._memory[begin : begin + like.nbytes].view(like.dtype).view(like.shape)

    def _obstacle_of_all(self) -> str:
        """The reason that ranks do not reach each other's memory; empty if they do."""
        size = self._process_group.size()
        if self._device.type != "cuda":
            return "the tokens are on CPUs"
        if size > _core.most_ranks_with_addresses:
            return f"there are {size} ranks, more than {_core.most_ranks_with_addresses}"
        every: list[Any] = [None] * size
        own = (_host(), self._device.index, importlib.util.find_spec("torch.distributed._symmetric_memory") is not None)
        torch.distributed.all_gather_object(every, own, group=self._process_group)
        answers: list[Any] = [None] * size
        torch.distributed.all_gather_object(answers, self._obstacle(own, every), group=self._process_group)
        return next(filter(None, answers), "")

    def _obstacle(self, own: Any, every: list[Any]) -> str:
        """The reason that this rank does not reach the memory of the others; empty if it does."""
        devices = {index for _, index, _ in every}
        if any(host != own[0] for host, _, _ in every):
            return "the ranks are on several hosts"
        if not all(has for _, _, has in every):
            return "torch has no symmetric memory"
        if len(devices) != len(every):
            return "ranks share a GPU"
        for other in sorted(devices - {self._device.index}):
            if not torch.cuda.can_device_access_peer(self._device.index, other):
                return f"GPU {self._device.index} does not reach the memory of GPU {other}"
        return ""


def _host() -> str:
    """Names a host: containers of one host may have one name each, or all the same."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return f"{socket.gethostname()} {os.getpid()}"
