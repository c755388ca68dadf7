"""Where experts are: physical numbers of the places on all ranks, and the copies of an expert.

Each rank has `per_rank` places: first its share of the routed experts, then the shared ones. Place `local` of rank r has the
physical number r * per_rank + local.
"""

from __future__ import annotations

import torch

from tilewright.torch._checks import refuse


class Placement:
    """The physical numbers of every expert.

    Args:
        given: int [experts, copies] of physical numbers, -1 after the last copy of an expert. None: equal ranges of experts.
        experts: the number of routed experts.
        ranks: the number of ranks.
        shared: the number of shared experts, which every rank has.
        device: where ids are translated.
    """

    def __init__(self, given: torch.Tensor | None, experts: int, ranks: int, shared: int, device: torch.device) -> None:
        if given is None:
            if experts % ranks:
                advice = "Pass a placement: it may give some experts several copies."
                refuse("experts", experts, f"a multiple of {ranks}, the number of ranks", advice)
            routed = experts // ranks
            numbers = torch.arange(experts)
            table = (numbers + numbers // routed * shared)[:, None]
        else:
            table, routed = _checked(given, experts, ranks, shared)
        self.is_default = given is None
        self.per_rank = routed + shared
        self.shared = shared
        self.experts = experts
        self.table = table.to(device=device, dtype=torch.int32).contiguous()
        # A last row for numbers that name no expert.
        self._numbers = torch.cat([self.table, self.table.new_full((1, table.shape[1]), -1)])
        self._copies = (self._numbers >= 0).sum(1).clamp(min=1)

    def physical(self, ids: torch.Tensor, rank: int) -> torch.Tensor:
        """int32 [T, k + shared]: the physical number of each choice, then of the shared experts of this rank. -1 for none."""
        known = torch.where((ids >= 0) & (ids < self.experts), ids, self.experts).long()
        if self._numbers.shape[1] == 1:
            found = self._numbers[known, 0]
        else:
            tokens = torch.arange(ids.shape[0], device=ids.device)[:, None]
            found = self._numbers[known, tokens % self._copies[known]]
        if self.shared == 0:
            return found
        end = (rank + 1) * self.per_rank
        shared = torch.arange(end - self.shared, end, dtype=torch.int32, device=ids.device)
        return torch.cat([found, shared.expand(ids.shape[0], self.shared)], 1)

    def counts(self, ids: torch.Tensor) -> torch.Tensor:
        """int32 [experts]: how many choices name each expert."""
        known = torch.where((ids >= 0) & (ids < self.experts), ids, self.experts).long().flatten()
        counts = torch.zeros(self.experts + 1, dtype=torch.int32, device=ids.device)
        return counts.index_add_(0, known, torch.ones_like(known, dtype=torch.int32))[: self.experts]


def _checked(given: torch.Tensor, experts: int, ranks: int, shared: int) -> tuple[torch.Tensor, int]:
    """The table on the CPU, and the number of routed experts of each rank."""
    if not isinstance(given, torch.Tensor) or given.dtype not in (torch.int32, torch.int64):
        refuse("placement", getattr(given, "dtype", type(given).__name__), "a tensor of int32 or int64")
    if given.dim() != 2 or given.shape[0] != experts or given.shape[1] == 0:
        refuse("placement", list(given.shape), f"[{experts}, copies], because there are {experts} experts")
    table = given.detach().cpu().long()
    there = table >= 0
    if bool((table < -1).any()) or bool((there[:, 1:] & ~there[:, :-1]).any()):
        refuse("placement", "a negative number ahead of a copy", "physical numbers, then -1")
    if not bool(there[:, 0].all()):
        expert = int((~there[:, 0]).nonzero()[0])
        refuse("placement", f"no copy of expert {expert}", "a copy of every expert")
    places = int(there.sum())
    if places % ranks:
        refuse("placement", f"{places} copies", f"a multiple of {ranks}, the number of ranks", "Every rank has as many copies.")
    routed = places // ranks
    per_rank = routed + shared
    named = table[there].sort().values
    wanted = torch.cat([torch.arange(routed) + rank * per_rank for rank in range(ranks)])
    if not torch.equal(named, wanted):
        wrong = int(named[(named != wanted).nonzero()[0, 0]])
        expected = f"each number once of those with a remainder below {routed} by {per_rank}, the experts of a rank"
        refuse("placement", f"{wrong} where another is missing", expected)
    return table, routed
