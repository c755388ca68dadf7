"""A stand-in for DeepEP on the CPU: its Buffer within a host, as far as benchmarks/expert_parallel_chains.py depends on it.

With DEEP_EP_FAULT in the environment, the combine loses what the first rank adds to its first token.
"""

import os

import torch
import torch.distributed as dist


def gathered(own):
    found = own.new_empty(dist.get_world_size() * own.shape[0], *own.shape[1:])
    dist.all_gather_into_tensor(found, own)
    return found


class Buffer:
    def __init__(self, group, num_nvl_bytes, num_rdma_bytes):
        assert num_nvl_bytes > 0 and num_rdma_bytes == 0
        self.rank, self.size = group.rank(), group.size()

    def get_dispatch_layout(self, topk_idx, num_experts):
        assert topk_idx.dtype == torch.int64
        per_rank = num_experts // self.size
        is_in_rank = torch.stack([(topk_idx // per_rank == rank).any(1) for rank in range(self.size)], 1)
        return is_in_rank.sum(0).int(), None, topk_idx.flatten().bincount(minlength=num_experts).int(), is_in_rank, None

    def dispatch(self, x, *, num_tokens_per_rank, is_token_in_rank, num_tokens_per_expert, topk_idx, topk_weights):
        values, scales = x
        per_rank = len(num_tokens_per_expert) // self.size
        assert num_tokens_per_rank.tolist() == is_token_in_rank.sum(0).tolist()
        here = gathered(is_token_in_rank.to(torch.uint8))[:, self.rank].bool()
        ids = gathered(topk_idx)[here] - self.rank * per_rank
        is_local = (ids >= 0) & (ids < per_rank)
        counts = [int((ids == expert).sum()) for expert in range(per_rank)]
        values = gathered(values.view(torch.uint8))[here].view(values.dtype)
        weights = gathered(topk_weights)[here] * is_local
        return (values, gathered(scales)[here]), ids.masked_fill(~is_local, -1), weights, counts, here, None

    def combine(self, x, handle):
        assert x.dtype == torch.bfloat16
        sums = torch.zeros(len(handle), x.shape[1])
        sums[handle] = x.float()
        if self.rank == 0 and "DEEP_EP_FAULT" in os.environ:
            sums[0] = 0
        dist.all_reduce(sums)
        tokens = len(handle) // self.size
        return sums[self.rank * tokens : (self.rank + 1) * tokens].to(x.dtype), None, None
