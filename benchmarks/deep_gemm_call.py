"""A product with operands as DeepGEMM's callers have them, and its call in DeepGEMM's API.

Scales of neighbouring rows are neighbours in memory. Contiguous groups are padded to 128 rows and given by row indices, with -1 in
the padding. Masked calls pass expected_m = int(1.2 * mean). Values are normal random numbers, scales random from 0.5 to 1.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tilewright
import torch
from tilewright import deep_gemm as drop_in
from tilewright.deep_gemm.testing import calc_diff
from training_contestant import named

# The names of a function in DeepGEMM and in its forks.
FUNCTIONS = {
    "dense": ("fp8_gemm_nt",),
    "contiguous": ("m_grouped_fp8_gemm_nt_contiguous",),
    "masked": ("m_grouped_fp8_gemm_nt_masked", "fp8_m_grouped_gemm_nt_masked"),
}
ALIGNMENT = 128
BLOCK = 128
AT_ONCE = 1 << 26  # random values that are drawn in f32 at a time
SEED = 1

Real = Callable[[int, torch.Tensor], torch.Tensor]
"""Some rows of a group's operand in float32."""


class Call:
    """Operands on `device`, and the call.

    rows: those of each group, drawn by the caller.
    """

    def __init__(self, operation: str, shape: Sequence[int], rows: Sequence[int], device: str):
        self.operation, self.device = operation, device
        self.random = torch.Generator(device).manual_seed(SEED)
        self.rows, (self.n, self.k) = list(rows), shape[-2:]
        self.mean = shape[-3]
        groups = len(self.rows)
        self.lead: tuple[int, ...]
        if operation == "masked":
            self.starts, self.lead = [0] * groups, (groups, shape[1])
        else:
            padded = [-(-size // ALIGNMENT) * ALIGNMENT for size in self.rows] if operation == "contiguous" else self.rows
            self.starts, self.lead = [sum(padded[:i]) for i in range(groups)], (sum(padded),)
        self.k_blocks, n_blocks = -(-self.k // BLOCK), -(-self.n // BLOCK)
        self.outer = () if operation == "dense" else (groups,)
        self.a, self.b = self.values(*self.lead, self.k), self.values(*self.outer, self.n, self.k)
        self.a_scales = drop_in.get_mn_major_tma_aligned_tensor(self.scales(*self.lead, self.k_blocks))
        self.b_scales = self.scales(*self.outer, n_blocks, self.k_blocks)
        self.d = self.output(*self.lead)
        self.sizes = torch.tensor(self.rows, dtype=torch.int32, device=device)
        if operation == "contiguous":
            groups_of_rows = torch.full((self.lead[0],), -1, dtype=torch.int32)
            for group, (start, size) in enumerate(zip(self.starts, self.rows, strict=True)):
                groups_of_rows[start : start + size] = group
            self.sizes = groups_of_rows.to(device)

    @property
    def expected_m(self) -> int:
        return int(1.2 * self.mean)

    def values(self, *size: int) -> torch.Tensor:
        """e4m3 from normal random numbers. A part at a time, because f32 takes four times the memory."""
        made = torch.empty(math.prod(size), dtype=torch.uint8, device=self.device)
        for part in made.split(AT_ONCE):
            part.copy_(torch.randn(part.shape, device=self.device, generator=self.random).to(torch.float8_e4m3fn).view(torch.uint8))
        return made.view(torch.float8_e4m3fn).view(size)

    def scales(self, *size: int) -> torch.Tensor:
        return torch.rand(size, device=self.device, generator=self.random) + 0.5

    def output(self, *lead: int) -> torch.Tensor:
        return torch.full((*lead, self.n), float("nan"), dtype=torch.bfloat16, device=self.device)

    def through(self, module: Any, **options: Any) -> Callable[[], Any]:
        """The call in `module`, which is `deep_gemm` or another with its functions."""
        function = named(module, *FUNCTIONS[self.operation])
        more: dict[str, tuple[Any, ...]] = {"dense": (), "contiguous": (self.sizes,), "masked": (self.sizes, self.expected_m)}
        operands = ((self.a, self.a_scales), (self.b, self.b_scales), self.d, *more[self.operation])
        return lambda: function(*operands, **options)

    def unpadded(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The rows of contiguous groups without padding: their places in A, their values, and where each group ends."""
        places = torch.cat([torch.arange(s, s + n) for s, n in zip(self.starts, self.rows, strict=True)]).to(self.device)
        ends = torch.tensor(self.rows).cumsum(0).to(torch.int32).to(self.device)
        return places, self.a.view(torch.uint8)[places].view(torch.float8_e4m3fn), ends

    def by_exact_ends(self) -> tuple[Callable[[], Any], torch.Tensor]:
        """The call with the same groups without padding, which the library supports and DeepGEMM does not, and its result."""
        places, values, ends = self.unpadded()
        a = tilewright.Quantized(values, "1x128", self.a_scales[places].contiguous())
        b = tilewright.Quantized(self.b, "128x128", self.b_scales)
        d = self.output(len(places))
        return lambda: tilewright.grouped_gemm(a, b, offsets=ends, out=d), d

    def of_group(self, operand: torch.Tensor, group: int) -> torch.Tensor:
        """A group's part of B, or of its scales."""
        return operand if self.operation == "dense" else operand[group]

    def a_values(self, group: int, rows: torch.Tensor) -> torch.Tensor:
        of_group = self.a[group] if self.operation == "masked" else self.a
        picked = of_group.view(torch.uint8)[rows + self.starts[group]]
        return picked.view(torch.float8_e4m3fn).float()

    def a_real(self, group: int, rows: torch.Tensor) -> torch.Tensor:
        of_group = self.a_scales[group] if self.operation == "masked" else self.a_scales
        return self.a_values(group, rows) * self.widened(of_group[rows + self.starts[group]])

    def b_real(self, group: int) -> torch.Tensor:
        by_rows = self.of_group(self.b_scales, group).repeat_interleave(BLOCK, dim=-2)[: self.n]
        return self.of_group(self.b, group).float() * self.widened(by_rows)

    def widened(self, scales: torch.Tensor) -> torch.Tensor:
        return scales.repeat_interleave(BLOCK, dim=-1)[..., : self.k]

    def difference(
        self,
        d: torch.Tensor | None = None,
        starts: Sequence[int] | None = None,
        a_real: Real | None = None,
        b_real: Callable[[int], torch.Tensor] | None = None,
        most_rows: int = 64,
        most_groups: int | None = None,
    ) -> float:
        """The largest `calc_diff` of some rows of a group, from a float32 product of the operands.

        d, starts: another result, and where its groups start.
        a_real, b_real: operands with other scales.
        most_groups: the largest groups are looked at.
        """
        d, starts = self.d if d is None else d, starts or self.starts
        a_real, b_real = a_real or self.a_real, b_real or self.b_real
        largest = sorted(range(len(self.rows)), key=self.rows.__getitem__, reverse=True)[:most_groups]
        differences = [0.0]
        for group in (group for group in largest if self.rows[group]):
            rows = torch.randperm(self.rows[group])[:most_rows].to(self.device)
            given = (d[group] if self.operation == "masked" else d)[rows + starts[group]]
            differences.append(float(calc_diff(given.float(), a_real(group, rows) @ b_real(group).T)))
        return math.inf if any(map(math.isnan, differences)) else max(differences)
