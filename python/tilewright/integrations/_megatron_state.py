"""Checkpoints of the experts of Megatron-core: the keys and global shapes of SequentialMLP for weights that are stacked.

A distributed checkpoint has one tensor [experts of all ranks, n, k] per product. Its parts are one expert, or one half of a gated
expert, in SequentialMLP, and all experts of a rank here. Either module loads what the other saved.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
from megatron.core.dist_checkpointing import ShardedTensor
from megatron.core.dist_checkpointing.mapping import ShardedTensorFactory
from megatron.core.transformer.utils import make_sharded_object_for_checkpoint

LAYERS = ("linear_fc1", "linear_fc2")


class Place(NamedTuple):
    """Where the experts of a rank are in the model."""

    prefix: str
    offsets: tuple[Any, ...]  # of the axes in front of the experts: layers
    rank: int
    ranks: int
    local: int  # experts per rank
    replica: tuple[int, int, int]
    single: bool  # each expert, and each half of it, has its own key

    @property
    def experts(self) -> range:
        return range(self.rank * self.local, (self.rank + 1) * self.local)

    def key(self, name: str, expert: int) -> str:
        return f"{self.prefix}experts.{expert}.{name}" if self.single else f"{self.prefix}experts.{name}"


def sharded(tensors: dict[str, torch.Tensor], halves: int, place: Place) -> dict[str, Any]:
    """The sharded state. `halves` is 2 where linear_fc1 has gates: they are stored as a separate part."""
    made: dict[str, Any] = {}
    for name, tensor in tensors.items():
        of_name = halves if name.startswith(LAYERS[0]) else 1
        build = functools.partial(_parts, name=name, halves=of_name, place=place)
        join = functools.partial(_joined, single=place.single)
        key = f"{place.prefix}experts.{name}"
        made[place.prefix + name] = ShardedTensorFactory(key, tensor, build, join, place.replica)
    for expert in place.experts:  # SequentialMLP asks for the states of its linear layers, which are None
        at = place.offsets if place.single else (*place.offsets, (len(place.offsets), expert, place.ranks * place.local))
        for name in (f"{layer}._extra_state" for layer in LAYERS):
            state = make_sharded_object_for_checkpoint(None, place.key(name, expert), at, place.replica)
            made[f"{place.prefix}expert{expert}.{name}"] = state
    return made


@torch.no_grad()
def _parts(key: str, tensor: torch.Tensor, replica_id: Any, _: Any, name: str, halves: int, place: Place) -> list[Any]:
    """The halves of a tensor [experts, n, ...], each one part or one per expert. An optimizer's keys begin otherwise."""
    axis = len(place.offsets)
    part_of = functools.partial(ShardedTensor.from_rank_offsets, replica_id=replica_id, prepend_axis_num=axis)
    halved = [half.contiguous() for half in tensor.chunk(halves, dim=1)]
    if not place.single:
        at = (axis, place.rank, place.ranks)
        return [part_of(key, half, *place.offsets, at, (axis + 1, i, halves)) for i, half in enumerate(halved)]
    before = key.removesuffix(f"{place.prefix}experts.{name}")
    keys = [before + place.key(name, expert) for expert in place.experts]
    ends = ("_w", "_v") if halves == 2 else ("",)
    return [[part_of(each + end, half[i], *place.offsets) for i, each in enumerate(keys)] for half, end in zip(halved, ends)]


@torch.no_grad()
def _joined(parts: list[Any], single: bool) -> torch.Tensor:
    return torch.cat([torch.stack(part) if single else part for part in parts], dim=1)


def stack_experts(module: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """A hook of load_state_dict: the state of a SequentialMLP or a TEGroupedMLP loads. Its experts are stacked."""
    for name in (f"{layer}.{kind}" for layer in LAYERS for kind in ("weight", "bias")):
        for form in (f"{prefix}local_experts.{{}}.{name}", f"{prefix}{name}{{}}"):
            keys = [form.format(expert) for expert in range(module.num_local_experts)]
            if all(key in state for key in keys):
                state[prefix + name] = torch.stack([state.pop(key) for key in keys])


def forget_extra_states(_: torch.nn.Module, keys: Any) -> None:
    """A hook of load_state_dict: ignores states of linear layers that this module does not have."""
    keys.unexpected_keys[:] = [key for key in keys.unexpected_keys if not key.endswith("._extra_state")]
