"""Four processes with gloo that run calls of layers over two ranks, for `test_torch_expert_group`.

The processes are a mesh of two by two. Processes 0 and 1 are the two ranks of the cases below, 2 and 3 those of wrong calls. All
four are the ranks of a layer whose weights FSDP shards. Results are saved, and judged in the test's own process.
"""

import contextlib
import copy
import datetime
import os
import pickle
import tempfile
import time
import unittest.mock
from dataclasses import dataclass, field

import tilewright as tw
import torch
import torch.distributed as dist
from tilewright.torch import ExpertGroup, Experts, _transport, explain_moe, moe
from tilewright.torch._rank_engine import RankEngine
from torch.distributed.fsdp import fully_shard
from torch_layers import normal

RANKS, ROOM, HIDDEN, INNER, EXPERTS = 2, 12, 64, 96, 4
LIMIT = 60  # seconds of a collective, which waits for processes that a busy machine has not yet started
PLACES = [[0, 2], [3, -1], [1, -1]]  # three experts, of which the first is on both ranks


@dataclass(frozen=True)
class Case:
    """A call. ids: what the tokens of the ranks choose: "any", "one rank" for each token, "rank 1" for all, or "none"."""

    tokens: tuple[int, int] = (ROOM, 7)
    choices: int = 3
    ids: str = "any"
    dtype: torch.dtype = torch.bfloat16
    sums: torch.dtype | None = None
    shared: int = 0
    placement: bool = False
    weights: bool = True
    addend: bool = False
    biases: bool = False
    leading: tuple[int, ...] = ()
    how: dict = field(default_factory=dict)

    @property
    def experts(self):
        return len(PLACES) if self.placement else EXPERTS

    def group(self, process_group=None, **other):
        given = {
            "max_tokens": ROOM, "experts": self.experts, "choices": self.choices, "hidden": HIDDEN, "shared": self.shared,
            "dtype": self.dtype, "sums": self.sums, "placement": torch.tensor(PLACES) if self.placement else None,
            "recipe": {"fold": "row"}.get(self.how.get("recipe"), self.how.get("recipe", "1x128")),
        }  # fmt: skip
        return ExpertGroup(process_group, **(given | other))


CASES = {
    "tokens of both": Case(),
    "float32": Case(dtype=torch.float32, how={"recipe": "row"}),
    "float16, addend, biases": Case(dtype=torch.float16, addend=True, biases=True, how={"weights_at": "activation"}),
    "addend": Case(addend=True),
    "float32 sums": Case(sums=torch.float32, addend=True),
    "no tokens on a rank": Case(tokens=(0, 9), how={"recipe": "fold"}),
    "no tokens": Case(tokens=(0, 0)),
    "one rank for each token": Case(ids="one rank"),
    "all to one rank": Case(ids="rank 1", how={"recipe": "tensor"}),
    "no expert": Case(ids="none", addend=True),
    "copies": Case(placement=True, choices=2),
    "shared": Case(shared=1, choices=2, addend=True),
    "no weights, another unit": Case(weights=False, how={"activation": "geglu", "weights_at": "input"}),
    "weights at the input": Case(how={"weights_at": "input"}),
    "dimensions": Case(tokens=(6, 10), leading=(2,)),
}
EXACT = ["no tokens", "one rank for each token", "all to one rank", "no expert"]


def ids_of(case, rank):
    """int64 [tokens, choices]. Some name no expert: they are too large, -1 or far below 0."""
    generator = torch.Generator().manual_seed(10 + rank)
    tokens = case.tokens[rank]
    low, high = {"any": (0, case.experts), "rank 1": (2, 4), "one rank": (0, 2), "none": (EXPERTS, 99)}[case.ids]
    ids = torch.randint(low, high, (tokens, case.choices), generator=generator)
    if case.ids == "one rank":
        ids += 2 * torch.randint(0, 2, (tokens, 1), generator=generator)
    if case.ids in ("any", "none"):
        for token, number in ((1, -1), (3, case.experts), (5, -(2**40))):
            if token < tokens:
                ids[token, 0] = number
    return ids


def tokens_of(case, rank):
    """x, the weights of the choices or None, the addend or None, and the gradient of the result."""
    tokens, seed = case.tokens[rank], 100 * rank
    return (
        normal(tokens, HIDDEN, seed=seed, dtype=case.dtype),
        normal(tokens, case.choices, seed=seed + 1).sigmoid() if case.weights else None,
        normal(tokens, HIDDEN, seed=seed + 2, dtype=case.dtype) if case.addend else None,
        normal(tokens, HIDDEN, seed=seed + 3, dtype=case.dtype),
    )


def weights_of(case, places):
    """up, down and the biases or None, [places, ...], the shared experts last."""
    gates = 2
    made = [normal(places, gates * INNER, HIDDEN, seed=7) / 8, normal(places, HIDDEN, INNER, seed=8) / 8, None, None]
    if case.biases:
        made[2:] = [normal(places, gates * INNER, seed=9) / 4, normal(places, HIDDEN, seed=10) / 4]
    return made


def of_rank(case, tensor, rank):
    """The part of a rank of a tensor of all experts."""
    if tensor is None:
        return None
    routed = EXPERTS // RANKS
    return torch.cat([tensor[rank * routed : (rank + 1) * routed], tensor[EXPERTS:]])


def wanting(tensors):
    return [None if tensor is None else tensor.detach().clone().requires_grad_() for tensor in tensors]


def gradients(tensors):
    return [None if tensor is None else tensor.grad for tensor in tensors]


class MemoryOfHost(RankEngine):
    """Ranks whose memory is that of files, which all of them map. So that CPUs have peer memory too."""

    def reaches_all(self):
        return True

    def allocate(self, count):
        names = [None] * RANKS
        with tempfile.NamedTemporaryFile(delete=False) as file:
            file.truncate(count)
        dist.all_gather_object(names, file.name, group=self._process_group)
        every = [torch.from_file(name, shared=True, size=count, dtype=torch.uint8) for name in names]
        dist.barrier(self._process_group)
        os.unlink(file.name)
        self._mapped, self._memory = every, every[self._process_group.rank()]
        self._addresses = [memory.data_ptr() for memory in every]
        return self._memory.data_ptr()


def by_peer_memory():
    return unittest.mock.patch.object(_transport, "RankEngine", MemoryOfHost)


def run_case(case, group, rank, process_group):
    """The result of a call, with gradients and without, by both ways to combine, and the gradients; these by peer memory too."""
    calls = group._exchange
    x, weights, addend, d_out = tokens_of(case, rank)
    ids = ids_of(case, rank)
    experts = [of_rank(case, tensor, rank) for tensor in weights_of(case, EXPERTS + case.shared)]

    def call(group, given):
        x, weights, addend, up, down, up_bias, down_bias = given
        shape = [*case.leading, -1] if case.leading else [len(x)]
        chosen, parts = ids.view(*shape, case.choices), {"up_bias": up_bias, "down_bias": down_bias, **case.how}
        of_choices = None if weights is None else weights.view(*shape, case.choices)
        added = None if addend is None else addend.view(*shape, HIDDEN)
        return moe(x.view(*shape, HIDDEN), chosen, of_choices, up, down, addend=added, group=group, **parts)

    def trained(group):
        given = wanting((x, weights, addend, *experts))
        out = call(group, given)
        out.backward(d_out.view(out.shape))
        return out.detach(), gradients(given), given

    out, made, given = trained(group)
    with by_peer_memory():
        other = case.group(process_group)
        peer = [trained(other)[:2] for _ in range(2)]
        assert isinstance(other._exchange._made, _transport.PeerMemory)
        other.close()
    with torch.no_grad():
        quiet = call(group, given)
        group = case.group(process_group, combine="rows")
        rows = [call(group, given), call(group, given)]
        group.close()
    return {"out": out, "quiet": quiet, "rows": rows, "gradients": made, "peer": peer, "calls": calls.calls}


def said(function):
    """The text of the error that a call raises, or None."""
    try:
        function()
    except (ValueError, RuntimeError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


CASE = Case(choices=2)


def right_call(group, rank, explain=False, **other):
    x, weights, _, _ = tokens_of(CASE, rank)
    up, down, _, _ = (of_rank(CASE, tensor, rank) for tensor in weights_of(CASE, EXPERTS))
    given = {"x": x, "experts": ids_of(CASE, rank), "weights": weights, "up": up, "down": down, "group": group} | other
    return (explain_moe if explain else moe)(**given)


WRONG_CALLS = {
    "too many tokens": {"x": torch.zeros(13, HIDDEN).bfloat16(), "experts": torch.zeros(13, 2).int(), "weights": None},
    "dtype": {"x": torch.zeros(7, HIDDEN)},
    "hidden": {"x": torch.zeros(7, 32).bfloat16()},
    "hidden of up and x": {"x": torch.zeros(7, 32).bfloat16(), "up": torch.zeros(2, 8, 32), "down": torch.zeros(2, 32, 4)},
    "choices": {"experts": torch.zeros(7, 3).int(), "weights": None},
    "tokens of ids": {"experts": torch.zeros(5, 2).int()},
    "dtype of ids": {"experts": torch.zeros(7, 2)},
    "weights": {"weights": torch.zeros(7, 3)},
    "experts of up": {"up": torch.zeros(4, 2 * INNER, HIDDEN), "down": torch.zeros(4, HIDDEN, INNER)},
    "shared": {"shared": 1},
    "expert_map": {"expert_map": torch.zeros(4).int()},
    "recipe": {"recipe": "row"},
    "unit": {"activation": "gelu"},
}


def wrong_calls(group, rank):
    """The messages of both ranks where a call is wrong on rank 1, and the results of the next call."""
    found = {}
    for name, other in WRONG_CALLS.items():
        for mode in (torch.no_grad, torch.enable_grad):
            with mode():
                message = said(lambda: right_call(group, rank, **(other if rank == 1 else {})))
                found[name, mode is torch.no_grad] = message, group._exchange.calls, right_call(group, rank).detach()
    return found


def explained(process_group, rank):
    """What `explain_moe` says on rank 0 only, ahead of any call and after one: no other rank takes part."""
    found = {}
    f32 = {"combine": "sums", "sums": torch.float32}
    groups = {"default": {}, "sums": {"combine": "sums"}, "float32 sums": f32, "rows": {"combine": "rows", "exchange": "dense"}}
    for name, other in groups.items():
        group = CASE.group(process_group, **other)
        if rank == 0:
            found[name] = right_call(group, rank, explain=True)
        if name == "rows":
            with torch.no_grad():
                right_call(group, rank)
            found["called"] = right_call(group, rank, explain=True)
            many = {"x": torch.zeros(13, HIDDEN).bfloat16(), "experts": torch.zeros(13, 2).int(), "weights": None}
            found["wrong"] = said(lambda: right_call(group, rank, explain=True, **many))
        group.close()
    return {name: value if isinstance(value, str) else (value.__dict__ | {"steps": _as_tuples(value), "text": str(value)})
            for name, value in found.items()}  # fmt: skip


def _as_tuples(explanation):
    """Steps have no pickle."""
    return [(step.name, step.launches, step.link_bytes, step.exposed_seconds) for step in explanation.steps]


def late_calls(group, rank):
    """A wrong call, the next, and one more, where ranks look at the headers of a call at the next one, as on a GPU."""
    group._exchange._headers.waits = True
    made, found = [], {}
    with torch.no_grad():
        for name in ("dtype", "too many tokens"):
            first = said(lambda: made.append(right_call(group, rank, **(WRONG_CALLS[name] if rank == 1 else {}))))
            found[name] = first, said(lambda: right_call(group, rank)), right_call(group, rank)
    found["made"] = made
    # A backward looks too, ahead of its collectives.
    outs = []
    first = said(lambda: outs.append(right_call(group, rank, **(WRONG_CALLS["dtype"] if rank == 1 else {}))))
    found["backward"] = first, said(lambda: outs[0].sum().backward() if rank == 0 else right_call(group, rank))
    found["after"] = right_call(group, rank).detach()
    group._exchange._headers.waits = False
    return found


HOST_READS = ("item", "tolist", "numpy", "cpu", "nonzero", "__bool__", "__int__", "__float__", "__index__")


@contextlib.contextmanager
def watched_reads():
    """The names of the methods by which the host reads values of tensors."""
    names = []

    def watched(name):
        method = getattr(torch.Tensor, name)

        def call(self, *given, **keywords):
            names.append(name)
            return method(self, *given, **keywords)

        return call

    with contextlib.ExitStack() as patches:
        for name in HOST_READS:
            patches.enter_context(unittest.mock.patch.object(torch.Tensor, name, watched(name)))
        yield names


def captured(group, rank):
    """The host's reads in forward and backward, eager and as if a GPU captured them, and whether the bits are the same."""
    headers, found, made = group._exchange._headers, {}, []
    for name in ("eager", "captured"):
        x, weights, _, d_out = tokens_of(CASE, rank)
        given = wanting((x, weights, *(of_rank(CASE, tensor, rank) for tensor in weights_of(CASE, EXPERTS)[:2])))
        with contextlib.ExitStack() as patches:
            if name == "captured":
                patches.enter_context(unittest.mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: True))
                for field_of, value in {"waits": True, "_on_gpu": True, "_event": object()}.items():
                    patches.enter_context(unittest.mock.patch.object(headers, field_of, value))
            found[name] = patches.enter_context(watched_reads())
            out = right_call(group, rank, x=given[0], weights=given[1], up=given[2], down=given[3])
            out.backward(d_out)
        made.append([out.detach(), *gradients(given)])
    return {**found, "same": all(map(torch.equal, *made))}


def modes(group, rank):
    """Gradients on one rank only, and a call too many on one."""
    with torch.no_grad() if rank == 1 else contextlib.nullcontext():
        found = {"modes": said(lambda: right_call(group, rank))}
    group._exchange.calls += rank
    found["calls"] = said(lambda: right_call(group, rank))
    group._exchange.calls -= rank
    return found


WRONG_GROUPS = {
    "max_tokens": (1, {"max_tokens": 13}),
    "experts": (1, {"experts": 6}),
    "choices": (0, {"choices": 1}),
    "hidden": (1, {"hidden": 128}),
    "shared": (1, {"shared": 1}),
    "recipe": (1, {"recipe": "row"}),
    "dtype": (1, {"dtype": torch.float32, "sums": torch.float32}),
    "sums": (1, {"sums": torch.float32}),
    "placement": (1, {"placement": torch.tensor([[1], [0], [2], [3]])}),
    "wrong max_tokens": (1, {"max_tokens": 0}),
    "wrong experts": (0, {"experts": 5}),
}
WRONG_ARGUMENTS = {
    "max_tokens": {"max_tokens": 1.5},
    "experts": {"experts": 5},
    "choices": {"choices": 0},
    "hidden": {"hidden": True},
    "shared": {"shared": -1},
    "recipe": {"recipe": "fp8"},
    "dtype": {"dtype": torch.float64},
    "sums": {"sums": torch.float16},
    "exchange": {"exchange": "peer"},
    "combine": {"combine": "row"},
    "invariant": {"invariant": 1},
    "device": {"device": "meta"},
    "placement of floats": {"placement": torch.zeros(4, 1)},
    "placement's shape": {"placement": torch.zeros(3, 1).int()},
    "placement without an expert": {"placement": torch.tensor([[0], [1], [2], [-1]])},
    "placement with a hole": {"placement": torch.tensor([[-1, 0], [1, -1], [2, -1], [3, -1]])},
    "placement of three": {"placement": torch.tensor([[0], [1], [2]]), "experts": 3},
    "placement of one place twice": {"placement": torch.tensor([[0], [1], [1], [3]])},
}


def wrong_groups(process_group, mesh, rank):
    found = {}
    for name, (who, other) in WRONG_GROUPS.items():
        found[name] = said(lambda: CASE.group(process_group, **(other if rank == who else {})))
    for name, other in WRONG_ARGUMENTS.items():
        found["both", name] = said(lambda: CASE.group(process_group, **other))
    found["process_group"] = said(lambda: CASE.group("ranks"))
    found["mesh"] = said(lambda: CASE.group(mesh))
    closed = CASE.group(process_group)
    closed.close()
    found["closed"] = said(lambda: right_call(closed, rank))
    return found


def time_outs(process_group, ranks, rank):
    """A rank that leaves out a backward, and one that leaves out a call."""
    found = {}
    for phase in ("backward", "call"):
        engine = dist.new_group(ranks, use_local_synchronization=True)
        group = CASE.group(engine)
        out = right_call(group, rank)
        if rank == 0:
            dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=1), engine)
            began = time.monotonic()
            found[phase] = said(out.sum().backward if phase == "backward" else lambda: right_call(group, rank))
            found[phase, "seconds"] = time.monotonic() - began
        dist.barrier(process_group)
    return {**found, "peer": time_out_in_peer_memory(process_group, rank)}


def time_out_in_peer_memory(process_group, rank):
    """The messages after a call that rank 1 has left out: of that call, the next, and a check."""
    found = []
    with by_peer_memory(), unittest.mock.patch.object(_transport, "_seconds", lambda *_: 0.5):
        group = CASE.group(process_group)
        right_call(group, rank)
        if rank == 0:
            found = [said(lambda: right_call(group, rank)), said(lambda: right_call(group, rank)), said(group.check)]
    dist.barrier(process_group)
    return found


def many_sizes(group, rank):
    """Calls with other numbers of tokens, eager and compiled. Rank 1 needs no gradient of x, then of weights, then none."""
    found = []
    up, down, _, _ = (of_rank(CASE, tensor, rank) for tensor in weights_of(CASE, EXPERTS))
    compiled = torch.compile(moe, backend="aot_eager", fullgraph=True)
    for fixed, tokens in ((1, (12, 5)), (2, (3, 12)), (4, (8, 0))):
        case = Case(tokens=tokens, choices=2)
        x, weights, _, d_out = tokens_of(case, rank)
        made = []
        for call in (moe, compiled):
            given = wanting((x, weights, up, down))
            for tensor in given[: fixed * rank]:
                tensor.requires_grad_(False)
            out = call(given[0], ids_of(case, rank), *given[1:], group=group)
            out.backward(d_out)
            made.append([out.detach(), *gradients(given)])
        found.append(made)
    found.append(said(lambda: compiled(**too_many(up, down), group=group) if rank == 1 else right_call(group, rank)))
    return found


def too_many(up, down):
    return WRONG_CALLS["too many tokens"] | {"up": up, "down": down}


def module(group, rank):
    """An `Experts` of a group: its copies, its frozen form, quantized weights, and what it cannot be."""
    x, weights, _, _ = tokens_of(CASE, rank)
    ids = ids_of(CASE, rank)
    torch.manual_seed(rank)
    layer = Experts(group.per_rank, HIDDEN, INNER, group=group)
    with torch.no_grad():
        made = [layer(x, ids, weights), copy.deepcopy(layer)(x, ids, weights)]
        layer.freeze()
        made.append(layer(x, ids, weights))
        up, down = (tw.quantize(w.detach(), "128x128") for w in (layer.up, layer.down))
        made.append(moe(x, ids, weights, up, down, group=group))
    layer.requires_grad_(False)
    made.append(layer(x, ids, weights))  # with gradients enabled: the frozen layer has none
    return {
        "made": made,
        "requires": made[-1].requires_grad,
        "repr": repr(layer),
        "pickle": said(lambda: pickle.dumps(layer)),
        "experts": said(lambda: Experts(3, HIDDEN, INNER, group=group)),
        "hidden": said(lambda: Experts(2, 2 * HIDDEN, INNER, group=group)),
        "frozen": said(lambda: layer(x.requires_grad_(rank == 1), ids, weights)),
        "second": said(lambda: torch.autograd.grad(right_call(group, rank).sum(), group._anchor, create_graph=True)),
        "counts": group.counts(torch.tensor([[0, 3], [3, -1], [7, 3]])),
        "no group": said(lambda: right_call("ranks", rank)),
        "no group of a module": said(lambda: Experts(2, HIDDEN, INNER, group=group._exchange)),
        "wrong counts": said(lambda: group.counts(torch.zeros(2))),
    }


STEPS, WIDE = 2, Case(dtype=torch.float32, choices=2)


def sharded(mesh):
    """Steps of a layer over the second dimension of the mesh, whose weights FSDP shards over the first."""
    shard, rank = mesh.get_coordinate()
    group = WIDE.group(mesh["ep"])
    layer = Experts(group.per_rank, HIDDEN, INNER, group=group)
    with torch.no_grad():
        for parameter, tensor in zip((layer.up, layer.down), weights_of(WIDE, EXPERTS)):
            parameter.copy_(of_rank(WIDE, tensor, rank))
    fully_shard(layer, mesh=mesh["dp"])
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    for step in range(STEPS):
        x, weights, _, d_out = wide_tokens(step, shard, rank)
        layer(x, ids_of(WIDE, rank), weights).backward(d_out)
        optimizer.step()
        optimizer.zero_grad()
    return [parameter.full_tensor().detach() for parameter in (layer.up, layer.down)]


def wide_tokens(step, shard, rank):
    x, weights, addend, d_out = tokens_of(WIDE, rank)
    return x * (1 + step + 3 * shard), weights, addend, d_out / 8 * (1 + shard)


def run(number, rendezvous, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=number, world_size=2 * RANKS, init_method=f"file://{rendezvous}")
    mesh = dist.device_mesh.init_device_mesh("cpu", (2, RANKS), mesh_dim_names=("dp", "ep"))
    part, rank = mesh.get_coordinate()
    process_group = mesh["ep"].get_group()
    for engine in (dist.group.WORLD, process_group, mesh["dp"].get_group()):  # a fault ends the test soon
        dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=LIMIT), engine)
    found = {}
    if part == 0:
        for name, case in CASES.items():
            group = case.group(process_group)
            found[name] = run_case(case, group, rank, process_group)
            group.close()
        found["many sizes"] = many_sizes(CASE.group(mesh["ep"]), rank)
    else:
        group = CASE.group(process_group)
        found = {
            "wrong calls": wrong_calls(group, rank), "late calls": late_calls(group, rank), "modes": modes(group, rank),
            "wrong groups": wrong_groups(process_group, mesh, rank), "module": module(group, rank),
            "explained": explained(process_group, rank), "captured": captured(group, rank),
        }  # fmt: skip
    found["sharded"] = sharded(mesh)
    if part == 1:
        found["time-outs"] = time_outs(process_group, [2, 3], rank)
    torch.save(found, f"{results}{number}")
    dist.barrier()
    os._exit(0)  # see `torch_layers.end_process`
