"""The phases of a layer over ranks: tokens go to all ranks, sums go back to the tokens' owners.

A call has two phases, and its backward two more. `_transport` has their two functions:

- tokens, gathered: each rank sends its announcement and its tokens, padded to `room` of them.
- sums, handed back: each rank sends the sums of its experts to the owners of the tokens.
- gradients of results, gathered: each rank sends the gradients of its results.
- gradients of tokens, handed back: each rank sends those of x and of the weights to the owners.

An announcement is one tensor of int32: a header, the physical number of each choice, and the bits of its weight in float32.
All sizes are fixed when the group is made. So no phase waits for a size, and the host reads no ids.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import torch

from tilewright import _core
from tilewright.torch import _sums
from tilewright.torch._checks import refuse
from tilewright.torch._transport import Collectives, PeerMemory, Room, transport_of

# A rank whose call is wrong announces the operand of its message by a number, 1 + the place in this list.
_OPERANDS = ("another operand", "x", "experts", "weights", "up", "down", "up_bias", "down_bias", "addend", "recipe", "shared")
_HEADER = 4  # numbers of a header: the call, the wrong operand or 0, whether gradients are recorded, the number of tokens

_EXCHANGES: weakref.WeakValueDictionary[str, Exchange] = weakref.WeakValueDictionary()


class Sizes(NamedTuple):
    """The sizes and dtypes on which all ranks have agreed."""

    room: int  # tokens of a rank
    choices: int  # of a token, the shared experts included
    per_rank: int  # experts of a rank, the shared ones included
    hidden: int
    dtype: torch.dtype  # of tokens, results and gradients
    sums: torch.dtype  # of a rank's sums: `dtype` or float32


class Tokens(NamedTuple):
    """The tokens of all ranks, those of rank r from r * room on. Tokens that a rank does not have are 0, and choose nothing."""

    x: torch.Tensor  # [ranks * room, hidden]
    numbers: torch.Tensor  # int32 [ranks * room, choices], local: experts of other ranks are below 0 or per_rank at least
    weights: torch.Tensor  # float32 [ranks * room, choices]


def exchange_of(name: str) -> Exchange:
    """The exchange of a group. The torch operators have its name, because their arguments cannot be Python objects."""
    found = _EXCHANGES.get(name)
    if found is None:
        refuse("group", f"{name}, which does not exist any more", "a group that was not closed")
    return found


class _Headers:
    """Looks at the headers of a call: at once on a CPU. On a GPU at the next call, because the host would wait for this one."""

    def __init__(self, ranks: int, device: torch.device, name: str, require_all_ranks: Callable[[int], None]) -> None:
        self._name, self._require_all_ranks = name, require_all_ranks
        self._on_gpu = device.type == "cuda"
        self.waits = self._on_gpu
        self._pending = 0
        self._kept = torch.empty(ranks, _HEADER, dtype=torch.int32, pin_memory=self._on_gpu)
        self._event = torch.cuda.Event() if self._on_gpu else None

    def take(self, headers: torch.Tensor, call: int) -> None:
        if not self.waits:
            return self._judge(headers, call)
        if self._event is not None:
            if torch.cuda.is_current_stream_capturing():  # a replay has no host that could look
                return
            self._kept.copy_(headers.contiguous(), non_blocking=True)
            self._event.record()
        else:
            self._kept.copy_(headers)
        self._pending = call

    def look(self) -> None:
        """Judges the headers of the previous call, unless that is done."""
        call = self._pending
        if call == 0 or (self._on_gpu and torch.cuda.is_current_stream_capturing()):
            return
        self._pending = 0
        if self._event is not None:
            self._event.synchronize()
        self._judge(self._kept, call)

    def _judge(self, headers: torch.Tensor, call: int) -> None:
        self._require_all_ranks(call)  # a rank that is gone has left the header of an earlier call
        rows = headers.tolist()
        for rank, (number, wrong, _, _) in enumerate(rows):
            if wrong != 0:
                operand = _OPERANDS[wrong - 1]
                advice = f"Rank {rank} raised the message about it. No rank has a result."
                got = f"a wrong {operand} on rank {rank} in call {call} of {self._name}"
                refuse("group", got, "correct calls on all ranks", advice)
            if number != rows[0][0]:
                got = f"call {number} on rank {rank} with call {rows[0][0]} on rank 0 of {self._name}"
                refuse("group", got, "as many calls on all ranks", "Every rank makes every call, with no tokens if it has none.")
        for rank, (_, _, trains, _) in enumerate(rows):
            if trains != rows[0][2]:
                modes = {0: "without gradients", 1: "with gradients"}
                got = f"call {call} of {self._name} {modes[trains]} on rank {rank}, {modes[rows[0][2]]} on rank 0"
                advice = "Use torch.no_grad(), or a frozen layer, on all ranks or on none."
                refuse("group", got, "one of both on all ranks", advice)


class Exchange:
    """The phases of a group, with messages that name the group, the call and the phase.

    Args:
        process_group: of torch.distributed.
        name: of the group, in messages.
        sizes: see `Sizes`.
        device: where the tokens are.
        way: "peer", "dense" or None, see `_transport.transport_of`.
    """

    def __init__(self, process_group: Any, name: str, sizes: Sizes, device: torch.device, way: str | None) -> None:
        self._process_group, self.name, self.sizes, self._way = process_group, name, sizes, way
        self._made: Collectives | PeerMemory | None = None
        self.rank, self.ranks = process_group.rank(), process_group.size()
        self.calls = 0  # counted alike on all ranks
        self._headers = _Headers(self.ranks, device, name, self._require_all_ranks)
        self._device = device
        room = torch.arange(sizes.room, dtype=torch.int32)[:, None]
        # Row t: where the ranks' sums of token t are, as `combine` takes it.
        self._rows = (room + sizes.room * torch.arange(self.ranks, dtype=torch.int32)).to(device)
        _EXCHANGES[name] = self

    def close(self) -> None:
        _EXCHANGES.pop(self.name, None)

    def tokens(self, x: torch.Tensor, numbers: torch.Tensor, weights: torch.Tensor | None, trains: bool) -> Tokens:
        """The tokens of all ranks. numbers: int32 [T, choices], physical. weights: [T, k], the further choices have 1."""
        room, count = self.sizes.room, x.shape[0]
        if count > room:
            try:
                advice = "Split the call on all ranks, or make a group with more max_tokens."
                refuse("x", f"{count} tokens", f"at most {room}, the max_tokens of {self.name}", advice)
            except ValueError as error:
                self.refuse(error, trains)
        self._headers.look()
        announcement = self._announcement(0, trains, count)
        self._part(announcement, 0)[:count] = numbers
        of_choices = self._part(announcement, 1).view(torch.float32)
        of_choices[:] = 1.0
        if weights is not None:
            of_choices[:count, : weights.shape[1]] = weights
        return self._gathered(announcement, self._padded(x))

    def refuse(self, error: Exception, trains: bool) -> NoReturn:
        """Takes part in a call that is wrong on this rank, so that the others end it, and raises the error."""
        self._headers.look()
        operand = str(error).partition(":")[0]
        code = 1 + (_OPERANDS.index(operand) if operand in _OPERANDS else 0)
        sizes = self.sizes
        announcement = self._announcement(code, trains, 0)
        try:
            self._gathered(announcement, torch.zeros(sizes.room, sizes.hidden, dtype=sizes.dtype, device=self._device))
        except ValueError:
            raise error from None
        # The others have not looked yet, and wait for sums. NaN shows that their results are wrong.
        nothing = torch.full((self.ranks * sizes.room, sizes.hidden), torch.nan, dtype=sizes.sums, device=self._device)
        self._hand_back([nothing], "sums", self.calls)
        raise error

    def sums(self, parts: torch.Tensor, tokens: int, addend: torch.Tensor | None, call: int) -> torch.Tensor:
        """[tokens, hidden]: the sum over the ranks, in their order, of what each has for this rank's tokens.

        It begins with the addend, runs in float32, and is rounded once, to the dtype of the group.
        """
        (received,) = self._hand_back([parts], "sums", call)
        return self._summed(received, tokens, addend, self.sizes.dtype)

    def token_gradients(
        self, d_x: torch.Tensor, d_weights: torch.Tensor, tokens: int, call: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The sums over the ranks of the gradients of this rank's x, and of its weights, float32 [tokens, choices].

        Only the rank of an expert has the gradient of its choice's weight. The others have 0.
        """
        of_x, of_weights = self._hand_back([d_x, d_weights], "gradients of tokens", call)
        return (
            self._summed(of_x, tokens, None, self.sizes.dtype),
            self._summed(of_weights, tokens, None, torch.float32),
        )

    def gradients(self, d_out: torch.Tensor, call: int) -> torch.Tensor:
        """[ranks * room, hidden]: the gradients of the results of all ranks, zeros where a rank has no token."""
        self._headers.look()
        (gathered,) = self._gather([self._padded(d_out)], "gradients of results", call)
        return gathered.to(self.sizes.sums)

    def _announcement(self, wrong: int, trains: bool, tokens: int) -> torch.Tensor:
        self.calls += 1
        sizes = self.sizes
        made = torch.full((_HEADER + 2 * sizes.room * sizes.choices,), -1, dtype=torch.int32, device=self._device)
        # Four writes of a number, because a copy from the host's memory would wait for the GPU.
        for place, number in enumerate((self.calls, wrong, int(trains), tokens)):
            made[place : place + 1].fill_(number)
        return made

    def _part(self, announcement: torch.Tensor, part: int) -> torch.Tensor:
        """The numbers (0) or the bits of the weights (1) of an announcement, [..., room, choices]."""
        room, choices = self.sizes.room, self.sizes.choices
        begin = _HEADER + part * room * choices
        return announcement[..., begin : begin + room * choices].unflatten(-1, (room, choices))

    def _padded(self, rows: torch.Tensor) -> torch.Tensor:
        room, dtype = self.sizes.room, self.sizes.dtype
        if rows.shape[0] == room and rows.dtype == dtype and rows.is_contiguous():
            return rows
        padded = torch.zeros(room, rows.shape[1], dtype=dtype, device=rows.device)
        padded[: rows.shape[0]] = rows
        return padded

    def _gathered(self, announcement: torch.Tensor, x: torch.Tensor) -> Tokens:
        announcements, tokens = self._gather([announcement, x], "tokens", self.calls)
        announcements = announcements.view(self.ranks, -1)
        self._headers.take(announcements[:, :_HEADER], self.calls)
        numbers = self._part(announcements, 0) - self.rank * self.sizes.per_rank
        weights = self._part(announcements, 1).view(torch.float32).clone(memory_format=torch.contiguous_format)
        return Tokens(tokens.to(self.sizes.sums), numbers.flatten(0, 1), weights.flatten(0, 1))

    def _gather(self, given: list[torch.Tensor], phase: str, call: int) -> list[torch.Tensor]:
        transport = self._transport()
        try:
            return transport.gather(given)
        except RuntimeError as error:
            self._report(error, phase, call)

    def _hand_back(self, given: list[torch.Tensor], phase: str, call: int) -> list[torch.Tensor]:
        transport = self._transport()
        try:
            return transport.hand_back([tensor.contiguous() for tensor in given])
        except RuntimeError as error:
            self._report(error, phase, call)

    def _transport(self) -> Collectives | PeerMemory:
        """Made in the first call, by all ranks together."""
        if self._made is None:
            sizes = self.sizes
            row, sum_row = sizes.hidden * sizes.dtype.itemsize, sizes.hidden * sizes.sums.itemsize
            announced = 4 * (_HEADER + 2 * sizes.room * sizes.choices)
            room = Room((announced, sizes.room * row), (sizes.room * sum_row, 4 * sizes.room * sizes.choices))
            self._made = transport_of(self._process_group, self._device, room, self._way)
        return self._made

    def check(self) -> None:
        """Raises what another rank has said since the last call, or that a rank did not come."""
        self._headers.look()
        self._require_all_ranks(self.calls)

    def _require_all_ranks(self, call: int) -> None:
        try:
            if self._made is not None:
                self._made.require_all_ranks()
        except RuntimeError as error:
            self._report(error, "tokens", call)

    def _report(self, error: RuntimeError, phase: str, call: int) -> NoReturn:
        which = f"call {call}" if call else "a compiled call"
        raise RuntimeError(
            f"group: got no answer of all ranks in {which} of {self.name}, phase '{phase}'; expected all {self.ranks} ranks to "
            f"make the same calls and to run backward of the same ones. A rank may have ended, raised, or left out a call. "
            f"The cause: {error}"
        ) from error

    def _summed(self, parts: torch.Tensor, tokens: int, addend: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
        if parts.dtype == torch.bfloat16:
            added = None if addend is None else addend.contiguous()
            made: torch.Tensor = _core.combine(parts, self._rows[:tokens], None, added, _sums.OUTPUTS[dtype])
            return made
        first, *others = parts.view(self.ranks, self.sizes.room, -1)[:, :tokens].float()
        total = first if addend is None else addend.float() + first
        for other in others:
            total = total + other
        return total.to(dtype, copy=not others)  # what was received will be overwritten
