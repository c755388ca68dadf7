"""Two processes with a GPU each that capture forward and backward of a layer over both in one CUDA graph, for `test_expert_ranks`.

Alone: `python tests/gpu/expert_ranks_captured.py` prints what each rank found.
"""

import datetime
import os
import pickle
import sys
import tempfile
import traceback
from pathlib import Path

import torch
import torch.distributed as dist
from expert_ranks_nccl import EXPERTS, HIDDEN, INNER, K, ROOM, error, group_of, normal, tokens_of
from tilewright.torch import Experts

RANKS, REPLAYS, WARM_UPS = 2, 40, 3
LIMIT = datetime.timedelta(minutes=2)  # of a collective: a rank whose capture failed does not come
NAMES = ("out", "x", "weights", "up", "down")
CASES = {
    "1x128": {"recipe": "1x128"},
    "row": {"recipe": "row"},
    "1x128, float32 sums": {"recipe": "1x128", "sums": torch.float32},
    "1x128, shared": {"recipe": "1x128", "shared": 1},
}


def inputs(rank, seed):
    """x, ids, weights and the gradient of the result. Tokens from a number on, which differs by rank and seed, choose nothing."""
    x, ids, weights = tokens_of(rank, seed, ROOM)
    ids[(13 * seed + 29 * rank) % (ROOM + 1) :] = -1
    return x, ids, weights, normal(ROOM, HIDDEN, seed=500 + RANKS * seed + rank).bfloat16().cuda()


def of_rank(tensor, rank, shared):
    """The experts of a rank, the shared ones last."""
    each = EXPERTS // RANKS
    return torch.cat([tensor[rank * each : (rank + 1) * each], tensor[EXPERTS : EXPERTS + shared]])


def step(layer, x, ids, weights, d_out):
    """The result, and the gradients of x, weights, up and down. In a capture they keep their memory."""
    wanting = (x, weights, *layer.parameters())
    for tensor in wanting:
        tensor.grad = None
    out = layer(x, ids, weights)
    out.backward(d_out)
    return [out.detach(), *(tensor.grad for tensor in wanting)]


def leaves(given):
    """Copies of inputs, of which x and the weights require gradients."""
    made = [tensor.clone() for tensor in given]
    made[0].requires_grad_(), made[2].requires_grad_()
    return made


def captured(layer, rank):
    """A graph of a step, its inputs and its results."""
    given = leaves(inputs(rank, 0))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            step(layer, *given)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    dist.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = step(layer, *given)
    return graph, given, made


def distances(ours, whole, seed, rank, shared):
    """From one process with the tokens and the experts of all ranks. Shared experts are not compared: a rank has its tokens only."""
    all_given = leaves(torch.cat(parts) for parts in zip(*(inputs(other, seed) for other in range(RANKS))))
    expected = step(whole, *all_given)
    mine, each = slice(rank * ROOM, (rank + 1) * ROOM), EXPERTS // RANKS
    parts = [tensor[mine] for tensor in expected[:3]] + [tensor[rank * each : (rank + 1) * each] for tensor in expected[3:]]
    ours = [*ours[:3], *(tensor[:each] for tensor in ours[3:])]
    return {name: error(found, wanted) for name, found, wanted in zip(NAMES, ours, parts)}


def run_case(rank, recipe, shared=0, **options):
    """How many replays were compared, which differed from eager calls and where, and the largest distances from one process."""
    group = group_of(recipe=recipe, shared=shared, **options)
    torch.manual_seed(0)
    how = {"recipe": recipe, "device": "cuda", "dtype": torch.bfloat16}
    whole = Experts(EXPERTS + shared, HIDDEN, INNER, shared=shared, **how)
    layer = Experts(EXPERTS // RANKS + shared, HIDDEN, INNER, group=group, **how)
    with torch.no_grad():
        layer.up.copy_(of_rank(whole.up, rank, shared))
        layer.down.copy_(of_rank(whole.down, rank, shared))
    graph, given, made = captured(layer, rank)
    noise, side = torch.zeros(1 << 22, device="cuda"), torch.cuda.Stream()
    differing, worst, replays = [], dict.fromkeys(NAMES, 0.0), 0
    for seed in range(1, REPLAYS + 1):
        new = inputs(rank, seed)
        with torch.no_grad():
            for tensor, value in zip(given, new):
                tensor.copy_(value)
            for tensor in (*layer.parameters(), *whole.parameters()):  # as an optimizer: a replay reads the new weights
                tensor.mul_(1.01)
        with torch.cuda.stream(side):
            noise.add_(1)
        graph.replay()
        ours = [tensor.clone() for tensor in made]
        torch.cuda.synchronize()
        eager = step(layer, *leaves(new))
        differing += [(seed, name) for name, mine, other in zip(NAMES, ours, eager) if not torch.equal(mine, other)]
        for name, distance in distances(ours, whole, seed, rank, shared).items():
            worst[name] = max(worst[name], distance)
        replays += 1
    torch.cuda.synchronize()
    dist.barrier()
    group.close()
    return {"replays": replays, "differing": differing, "worst": worst}


def run(rank, rendezvous, results):
    os.environ["NCCL_NVLS_ENABLE"] = "0"
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    how = {"rank": rank, "world_size": RANKS, "init_method": f"file://{rendezvous}", "device_id": device, "timeout": LIMIT}
    dist.init_process_group("nccl", **how)
    found = {}
    for name, case in CASES.items():
        try:
            found[name] = run_case(rank, **case)
        except Exception:  # noqa: BLE001  (whatever it is, the test prints it)
            found[name] = {"error": traceback.format_exc()}
        print(f"rank {rank}, {name}: {found[name].get('error') or found[name]}", flush=True)
        if "error" in found[name]:  # a capture that failed leaves the GPU and the other rank in an unknown state
            break
    Path(f"{results}{rank}").write_bytes(pickle.dumps(found))
    os._exit(0)


def results_of_ranks(folder):
    """The results of both ranks, of each case. Raises if a rank has none."""
    given = (str(Path(folder) / "rendezvous"), str(Path(folder) / "results"))
    torch.multiprocessing.spawn(run, given, RANKS)
    return [pickle.loads(Path(f"{given[1]}{rank}").read_bytes()) for rank in range(RANKS)]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        all_found = results_of_ranks(folder)
    sys.exit(any("error" in case or case["differing"] for found in all_found for case in found.values()))
