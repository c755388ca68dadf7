"""The gradient of a bias: the sum of dY over the tokens of each group, always in the same order."""

from __future__ import annotations

import torch

from tilewright.torch._weights import ALIGNMENT

OUTPUTS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


def sizes_and_begins(ends: torch.Tensor, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sizes of the groups, and their begins if each begins at a multiple of 128.

    Computed on the device of `ends`; the host reads nothing.
    """
    limited = ends.clamp(0, tokens)
    sizes = torch.diff(limited, prepend=limited.new_zeros(1)).clamp(min=0)
    room = (sizes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    return sizes, torch.cumsum(room, 0) - room


def aligned_rows(rows: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """[tokens, K] as [columns, K]: each group begins at a multiple of 128, as in `quantize_tokens`, with zeros between."""
    tokens, groups = rows.shape[0], ends.shape[0]
    columns = (tokens + (ALIGNMENT - 1) * groups) // ALIGNMENT * ALIGNMENT
    sizes, begins = sizes_and_begins(ends, tokens)
    moved = begins + sizes - ends.clamp(0, tokens)  # by how many rows the tokens of each group move
    group = group_of_rows(ends, tokens)
    row = torch.arange(tokens, device=rows.device) + torch.cat([moved, moved.new_zeros(1)])[group]
    # Tokens of no group go to an extra last row, which is dropped.
    row = torch.where(group < groups, row, columns).clamp(0, columns)
    return rows.new_zeros(columns + 1, rows.shape[1]).index_copy_(0, row, rows)[:columns]


def group_of_rows(ends: torch.Tensor, tokens: int) -> torch.Tensor:
    """[tokens]: the group of each token; the number of groups for tokens of no group."""
    return torch.searchsorted(ends, torch.arange(tokens, device=ends.device, dtype=ends.dtype), right=True)


def sum_of_rows(dy: torch.Tensor) -> torch.Tensor:
    """[N]: the sum over the tokens of a dense layer, as `sums_of_groups` has it."""
    return dy.sum(0, dtype=torch.float64).float()


def sums_of_groups(dy: torch.Tensor, ends: torch.Tensor | None) -> torch.Tensor:
    """[groups, N]: the sum over the tokens of each group in f64, always in the same order, rounded to f32."""
    if ends is None:
        return sum_of_rows(dy)[None]
    # Not a product with masks of the groups: torch may round it to tf32, and a NaN of one group reaches all groups. Not
    # index_add or cumsum: on a GPU their order of additions differs from run to run.
    columns = aligned_rows(dy, ends)
    blocks = columns.view(columns.shape[0] // ALIGNMENT, ALIGNMENT, dy.shape[1]).sum(1, dtype=torch.float64)
    if blocks.numel() == 0:
        return dy.new_zeros(ends.shape[0], dy.shape[1], dtype=torch.float32)
    sizes, begins = sizes_and_begins(ends, dy.shape[0])
    group = group_of_rows((begins + sizes + ALIGNMENT - 1) // ALIGNMENT, blocks.shape[0])
    distance = 1  # each block holds the sum of this many blocks of its group, starting with itself
    while distance * ALIGNMENT < dy.shape[0]:
        same = (group[distance:] == group[:-distance]).unsqueeze(1)
        added = blocks[:-distance] + torch.where(same, blocks[distance:], 0.0)
        blocks, distance = torch.cat([added, blocks[-distance:]]), 2 * distance
    first = (begins // ALIGNMENT).clamp(max=blocks.shape[0] - 1)
    return torch.where((sizes > 0).unsqueeze(1), blocks[first], 0.0).float()
