"""Helpers for runs on several GPUs with torch.distributed."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor, distributed

_rank_on_host: int | None = None


def init_dist(local_rank: int, num_local_ranks: int) -> tuple[int, int, Any]:
    """Joins the process group at MASTER_ADDR and MASTER_PORT. WORLD_SIZE and RANK count hosts.

    With GPUs it uses NCCL, and GPU `local_rank` becomes the current device. Without GPUs it uses Gloo.

    Returns:
        (rank, number of ranks, group of all ranks).
    """
    global _rank_on_host
    _rank_on_host = local_rank
    hosts, host = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    address, port = os.environ.get("MASTER_ADDR", "127.0.0.1"), os.environ.get("MASTER_PORT", "8361")
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(local_rank)
        torch.set_default_device("cuda")
    distributed.init_process_group(
        "nccl" if on_gpu else "gloo",
        init_method=f"tcp://{address}:{port}",
        world_size=hosts * num_local_ranks,
        rank=host * num_local_ranks + local_rank,
        device_id=torch.device("cuda", local_rank) if on_gpu else None,
    )
    size = distributed.get_world_size()
    return distributed.get_rank(), size, distributed.new_group(list(range(size)))


def uneven_all_gather(tensor: Tensor, dim: int = 0, group: distributed.ProcessGroup | None = None) -> Tensor:
    """Concatenates the tensors of all ranks along `dim`. Their sizes along `dim` may differ."""
    size = torch.tensor([tensor.shape[dim]], device=tensor.device)
    sizes = [torch.empty_like(size) for _ in range(distributed.get_world_size(group))]
    distributed.all_gather(sizes, size, group=group)
    counts = [int(count) for count in torch.cat(sizes).tolist()]

    padded = tensor.movedim(dim, 0)
    missing = padded.new_zeros((max(counts) - padded.shape[0], *padded.shape[1:]))
    padded = torch.cat((padded, missing)).contiguous()
    gathered = [torch.empty_like(padded) for _ in counts]
    distributed.all_gather(gathered, padded, group=group)
    kept = [part[:count] for part, count in zip(gathered, counts, strict=True)]
    return torch.cat(kept).movedim(0, dim)


def dist_print(s: str = "", once_in_node: bool = False) -> None:
    """Prints on every rank, or on the first rank of each host, and waits for all ranks."""
    if _rank_on_host is None:
        raise RuntimeError("dist_print: got no process group; expected one. Call init_dist first.")
    if _rank_on_host == 0 or not once_in_node:
        print(s, flush=True)
    distributed.barrier()
