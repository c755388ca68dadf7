"""tilewright.torch in two processes, with gloo: DDP, and optimizers of which each process has a part and sends the weights around."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
if not torch.distributed.is_available():
    pytest.skip("needs torch.distributed", allow_module_level=True)

import torch.distributed as dist  # noqa: E402
from tilewright.torch import GroupedLinear, Linear, reuse_weights  # noqa: E402
from torch.distributed.optim import ZeroRedundancyOptimizer  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch_layers import end_process, normal  # noqa: E402
from torch_oracle import Oracle  # noqa: E402

WIDTH, TOKENS, STEPS, MICROBATCHES = 64, 40, 6, 2


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.dense, self.experts = Linear(WIDTH, WIDTH, recipe="row"), GroupedLinear(2, WIDTH, WIDTH, bias=True)

    def forward(self, x):
        return self.experts(torch.nn.functional.silu(self.dense(x)), torch.tensor([9, TOKENS]))


def oracle_of(model):
    twin = Model()
    twin.dense, twin.experts = Oracle(model.dense), Oracle(model.experts)
    return twin


class Broadcasting:
    """Each process steps on its parameters and sends them to the others, who write them through .data or into one flat buffer."""

    def __init__(self, parameters, flat):
        self.parameters, self.flat, self.rank = list(parameters), flat, dist.get_rank()
        self.inner = torch.optim.AdamW(self.parameters[self.rank :: 2], lr=0.02, fused=True)
        if flat:
            sizes = [parameter.numel() for parameter in self.parameters]
            self.buffer = torch.cat([parameter.detach().flatten() for parameter in self.parameters])
            for parameter, part in zip(self.parameters, self.buffer.split(sizes)):
                parameter.data = part.view(parameter.shape)

    def step(self):
        self.inner.step()
        if self.flat:
            mask = torch.cat([torch.full((p.numel(),), float(i % 2 == self.rank)) for i, p in enumerate(self.parameters)])
            sent = self.buffer * mask
            dist.all_reduce(sent)
            self.buffer.copy_(sent)
            return
        for i, parameter in enumerate(self.parameters):
            dist.broadcast(parameter.data, src=i % 2)

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None


def optimizer_of(kind, parameters):
    if kind.startswith("zero"):
        overlap = {"parameters_as_bucket_view": True} if kind == "zero, buckets" else {}
        return ZeroRedundancyOptimizer(parameters, torch.optim.AdamW, lr=0.02, fused=True, **overlap)
    return Broadcasting(parameters, flat=kind == "flat")


def trained(model, kind, rank, reuses):
    wrapped = DistributedDataParallel(model)
    optimizer, found = optimizer_of(kind, list(wrapped.parameters())), []
    for step in range(STEPS):
        with reuse_weights() if reuses else torch.enable_grad():
            for microbatch in range(MICROBATCHES):
                seed = 100 * step + 10 * microbatch + rank
                with wrapped.no_sync() if microbatch + 1 < MICROBATCHES else torch.enable_grad():
                    loss = (wrapped(normal(TOKENS, WIDTH, seed=seed)) - normal(TOKENS, WIDTH, seed=seed + 5)).square().mean()
                    loss.backward()
                    found.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
    return found + [parameter.detach().clone() for parameter in model.parameters()]


KINDS = ["zero", "zero, buckets", "broadcast", "flat"]


def train_in_a_process(rank, rendezvous, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2, init_method=f"file://{rendezvous}")
    found = {}
    for kind in KINDS:
        for reuses in (False, True):
            model = Model()
            twin, begin = oracle_of(model), model.dense.weight.detach().clone()
            ours, theirs = trained(model, kind, rank, reuses), trained(twin, kind, rank, False)
            moved = float((model.dense.weight - begin).abs().max())
            found[kind, reuses] = len(ours) == len(theirs) and all(map(torch.equal, ours, theirs)), moved
    torch.save(found, f"{results}{rank}")
    end_process()


def test_two_processes(tmp_path):
    """Losses and weights are those of the oracle, bit for bit."""
    torch.multiprocessing.spawn(train_in_a_process, (str(tmp_path / "rendezvous"), str(tmp_path / "results")), 2)
    for rank in range(2):
        found = torch.load(tmp_path / f"results{rank}")
        assert len(found) == 2 * len(KINDS)
        assert all(equal and moved > 0.01 for equal, moved in found.values()), found
