"""Two processes with a GPU each that make calls of layers over both, for `test_expert_ranks`. Rank 0 judges by one GPU."""

import os
import pickle
import time

import tilewright as tw
import torch
import torch.distributed as dist
from tilewright import _core
from tilewright.torch import ExpertGroup, Experts, moe

EXPERTS, K, HIDDEN, INNER, ROOM = 16, 4, 512, 384, 96
COMBINES = {"rows": ("rows", None), "sums": ("sums", None), "float32 sums": ("sums", torch.float32)}
FORMS = {f"{exchange}, {name}": (exchange, *combine) for exchange in ("peer", "dense") for name, combine in COMBINES.items()}
RECIPES = ["1x128", "row"]


def normal(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def tokens_of(rank, seed, tokens):
    """x, ids and weights of a rank. Some ids name no expert."""
    numbers = torch.Generator().manual_seed(1000 * seed + rank)
    x = torch.randn(ROOM, HIDDEN, generator=numbers).bfloat16()
    ids = torch.randint(-1, EXPERTS + 1, (ROOM, K), generator=numbers)
    ids[ids == EXPERTS] = EXPERTS + 5
    weights = torch.rand(ROOM, K, generator=numbers)
    return x[:tokens].cuda(), ids[:tokens].cuda(), weights[:tokens].cuda()


def quantized():
    """up and down of all experts."""
    shapes = (EXPERTS, 2 * INNER, HIDDEN), (EXPERTS, HIDDEN, INNER)
    return [tw.quantize((normal(*shape, seed=i) * shape[2] ** -0.5).cuda(), "128x128") for i, shape in enumerate(shapes)]


def own(weights, rank):
    part = slice(rank * EXPERTS // 2, (rank + 1) * EXPERTS // 2)
    return tw.Quantized(weights.values[part], weights.recipe, weights.scales[part])


def group_of(**options):
    return ExpertGroup(None, max_tokens=ROOM, experts=EXPERTS, choices=K, hidden=HIDDEN, **options)


@torch.no_grad()
def error(given, expected):
    return float((given.float() - expected.float()).norm() / expected.float().norm().clamp(min=1e-30))


def calls(rank):
    all_of, found = quantized(), {}
    parts = [own(weights, rank) for weights in all_of]
    for name, (exchange, combine, sums) in FORMS.items():
        group = group_of(exchange=exchange, combine=combine, invariant=combine == "rows", sums=sums)
        worst = 0.0
        for seed, tokens in enumerate((ROOM, 0 if rank == 0 else 7, 33)):
            x, ids, weights = tokens_of(rank, seed, tokens)
            with torch.no_grad():
                given = moe(x, ids, weights, *parts, group=group)
            expected = tw.moe(x, *all_of, experts=ids, weights=weights, invariant=True)
            worst = max(worst, error(given, expected))
        found[name] = (group.exchange, group.combine, worst)
        group.close()
    return found


def communicator(rank):
    """The C++ engine on torch's communicator, without torch's memory."""
    all_of, found = quantized(), {}
    parts = [own(weights, rank) for weights in all_of]
    x, ids, weights = tokens_of(rank, 5, 60)
    expected = tw.moe(x, *all_of, experts=ids, weights=weights, invariant=True)
    engine = dist.group.WORLD._get_backend(torch.device("cuda"))
    for exchange in ("addresses", "collectives"):
        stream = torch.cuda.current_stream().cuda_stream
        options = {
            "max_tokens": ROOM, "hidden": HIDDEN, "experts": EXPERTS, "choices": K, "combine": "rows", "exchange": exchange,
            "invariant": True,
        }  # fmt: skip
        group = _core.ExpertGroup(_core.ranks_of_nccl(engine._comm_ptr(), stream), options)
        results = [
            group.moe(x, *parts, {"experts": ids, "weights": weights}, {"invariant": True}, stream) for _ in range(3)
        ]
        found[exchange] = (group.exchange, [error(result, expected) for result in results])
        torch.cuda.synchronize()
        dist.barrier()  # no memory is freed that the other rank still uses
        del group
    return found


def graphs(rank):
    all_of, found = quantized(), {}
    parts = [own(weights, rank) for weights in all_of]
    for exchange in ("peer", "dense"):
        group = group_of(exchange=exchange, combine="rows", invariant=True)
        given = tokens_of(rank, 0, ROOM)
        with torch.no_grad():
            for _ in range(2):
                moe(*given, *parts, group=group)
            torch.cuda.synchronize()
            dist.barrier()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = moe(*given, *parts, group=group)
        noise, side = torch.zeros(1 << 22, device="cuda"), torch.cuda.Stream()
        right = 0
        for seed in range(1000):
            new = tokens_of(rank, 7 + seed % 50, ROOM)
            new[1][(13 * seed) % (ROOM + 1) :] = -1  # fewer tokens: the others choose nothing
            for tensor, value in zip(given, new):
                tensor.copy_(value)
            with torch.cuda.stream(side):
                noise.add_(1)
            graph.replay()
            right += torch.equal(out, tw.moe(given[0], *all_of, experts=given[1], weights=given[2], invariant=True))
        found[exchange] = right
        group.close()
    return found


def training(rank):
    """The errors of a step by each exchange, and whether both have the same bits."""
    found = {}
    for recipe in RECIPES:
        torch.manual_seed(0)
        whole = Experts(EXPERTS, HIDDEN, INNER, recipe=recipe, device="cuda", dtype=torch.bfloat16)
        part = slice(rank * EXPERTS // 2, (rank + 1) * EXPERTS // 2)
        sizes = (ROOM, 21)
        given = [tokens_of(other, 3, sizes[other]) for other in range(2)]
        d_out = [(normal(size, HIDDEN, seed=9 + other).bfloat16()).cuda() for other, size in enumerate(sizes)]
        all_x, all_ids, all_weights = (torch.cat(parts) for parts in zip(*given))
        all_x.requires_grad_(), all_weights.requires_grad_()
        expected = whole(all_x, all_ids, all_weights)
        expected.backward(torch.cat(d_out))
        mine = slice(0, sizes[0]) if rank == 0 else slice(sizes[0], None)
        wanted = [expected[mine], all_x.grad[mine], all_weights.grad[mine], whole.up.grad[part], whole.down.grad[part]]
        made = {}
        for exchange in ("peer", "dense"):
            group = group_of(recipe=recipe, exchange=exchange)
            layer = Experts(EXPERTS // 2, HIDDEN, INNER, recipe=recipe, device="cuda", dtype=torch.bfloat16, group=group)
            with torch.no_grad():
                layer.up.copy_(whole.up[part])
                layer.down.copy_(whole.down[part])
            x, ids, weights = (part_of.clone() for part_of in given[rank])
            x.requires_grad_(), weights.requires_grad_()
            out = layer(x, ids, weights)
            out.backward(d_out[rank])
            made[exchange] = [out.detach(), x.grad, weights.grad, layer.up.grad, layer.down.grad]
            made[exchange, "transport"] = type(group._exchange._made).__name__
            group.close()
        found[recipe] = {
            "errors": dict(zip(("out", "x", "weights", "up", "down"), map(error, made["peer"], wanted))),
            "same": all(map(torch.equal, made["peer"], made["dense"])),
            "transports": [made[exchange, "transport"] for exchange in ("peer", "dense")],
        }
    return found


def said(call):
    try:
        call()
        torch.cuda.synchronize()
    except (ValueError, RuntimeError) as failure:
        return f"{type(failure).__name__}: {failure}"
    return "right"


def wrong(rank):
    parts = [own(weights, rank) for weights in quantized()]
    group = group_of(exchange="peer")
    x, ids, weights = tokens_of(rank, 0, ROOM)
    found = []
    for call in range(4):
        given = x.float() if call == 1 and rank == 1 else x
        with torch.no_grad():
            found.append(said(lambda given=given: moe(given, ids, weights, *parts, group=group)))
        dist.barrier()
    group.close()
    return found


def lost(rank):
    """The last case: rank 1 leaves."""
    parts = [own(weights, rank) for weights in quantized()]
    group = group_of(exchange="peer")
    given = tokens_of(rank, 0, ROOM)
    found = []
    for call in range(3):
        if call > 0 and rank == 1:
            time.sleep(30)
            break
        with torch.no_grad():
            found.append(said(lambda: (moe(*given, *parts, group=group), torch.cuda.synchronize(), group.check())))
    return found


def run(rank, rendezvous, results):
    os.environ["NCCL_NVLS_ENABLE"] = "0"
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    dist.init_process_group("nccl", rank=rank, world_size=2, init_method=f"file://{rendezvous}", device_id=device)
    cases = (calls, communicator, graphs, training, wrong, lost)
    found = {}
    for case in cases:
        found[case.__name__] = case(rank)
        if case is not lost:
            dist.barrier()
        print(f"rank {rank}: {case.__name__}", flush=True)
    with open(f"{results}{rank}", "wb") as file:
        pickle.dump(found, file)
    os._exit(0)
