"""Layers of experts over ranks as expert_parallel.py times them: our call, and chains of other collectives around our products.

All of them compute one thing: a rank's tokens through the experts of all ranks, fp8 1x128 times 128x128. So they differ only in how
tokens travel.

| contestant | tokens travel as | host |
|---|---|---|
| `ours`, `peer_rows` .. `dense_sums` | `ExpertGroup` says | reads nothing |
| `torch` | fp8 rows, a row per choice, by all-to-all with splits; bf16 rows back | reads the splits |
| `gather` | bf16 tokens by all-gather, bf16 sums by reduce-scatter, as vLLM's default | reads nothing |
| `deep_ep` | fp8 tokens and bf16 sums by DeepEP's kernels within a host | waits for counts |
| `one` | nothing: a GPU that holds all experts has the tokens of all ranks | reads nothing |
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import tilewright as tw
import tilewright.torch
import torch
import torch.distributed as dist
from expert_parallel_targets import announced_bytes, summed_bytes
from ranks import Ranks

Call = Callable[[], Any]
EAGER = frozenset({"torch", "deep_ep"})  # the host reads sizes, so that no graph can be captured
DEEP_EP_BYTES = 1 << 30  # of its buffer: the default of vLLM


class Model(NamedTuple):
    name: str
    hidden: int
    inner: int
    experts: int
    choices: int


class Weights:
    """All experts, equal on all ranks, and this rank's part of them."""

    def __init__(self, model: Model, ranks: Ranks) -> None:
        self.local = model.experts // ranks.size
        self.first = ranks.rank * self.local
        self.all_up = self.random(ranks, (model.experts, 2 * model.inner, model.hidden))
        self.all_down = self.random(ranks, (model.experts, model.hidden, model.inner))
        own = slice(self.first, self.first + self.local)
        self.up, self.down = (tw.Quantized(w.values[own], w.recipe, w.scales[own]) for w in (self.all_up, self.all_down))
        self.expert_map = torch.full((model.experts,), -1, dtype=torch.int32, device=ranks.device)
        self.expert_map[own] = torch.arange(self.local, dtype=torch.int32, device=ranks.device)

    @staticmethod
    def random(ranks: Ranks, shape: tuple[int, int, int]) -> tw.Quantized:
        """Weights that keep the size of tokens. A few experts are quantized at a time."""
        experts, rows, width = shape
        generator = torch.Generator(ranks.device).manual_seed(width)
        values = torch.empty(shape, dtype=torch.float8_e4m3fn, device=ranks.device)
        scales = torch.empty(experts, -(-rows // 128), -(-width // 128), device=ranks.device)
        for part in torch.arange(experts).split(8):
            few = slice(int(part[0]), int(part[-1]) + 1)
            real = torch.randn(len(part), rows, width, dtype=torch.bfloat16, device=ranks.device, generator=generator)
            made = tw.quantize(real * width**-0.5, "128x128")
            values[few], scales[few] = made.values, made.scales
        return tw.Quantized(values, "128x128", scales)


class Case:
    """A model's layer and the tokens of this rank, with random choices. Those of all ranks are known too."""

    def __init__(self, model: Model, tokens: int, layer: Weights, ranks: Ranks) -> None:
        self.model, self.tokens, self.layer, self.ranks = model, tokens, layer, ranks
        generator = torch.Generator(ranks.device).manual_seed(tokens * ranks.size + ranks.rank)
        normal = functools.partial(torch.randn, device=ranks.device, generator=generator)
        self.x = normal(tokens, model.hidden, dtype=torch.bfloat16)
        self.weights, chosen = torch.topk(normal(tokens, model.experts).softmax(-1), model.choices)
        self.ids = chosen.to(torch.int32)
        self.all_x, self.all_ids, self.all_weights = map(ranks.gathered, (self.x, self.ids, self.weights))

    def own(self, of_all_ranks: torch.Tensor) -> torch.Tensor:
        return of_all_ranks[self.ranks.rank * self.tokens : (self.ranks.rank + 1) * self.tokens]


class Ours:
    """`tilewright.torch.moe` over a group of ranks."""

    def __init__(self, case: Case, form: dict[str, str]) -> None:
        if not hasattr(tilewright.torch, "ExpertGroup"):
            raise RuntimeError("this tilewright.torch has no ExpertGroup")
        model = case.model
        self.case = case
        self.group = tilewright.torch.ExpertGroup(
            dist.group.WORLD, max_tokens=case.tokens, experts=model.experts, choices=model.choices, hidden=model.hidden,
            recipe="1x128", dtype=torch.bfloat16, **form,
        )  # fmt: skip

    def __call__(self) -> torch.Tensor:
        case = self.case
        return tilewright.torch.moe(case.x, case.ids, case.weights, case.layer.up, case.layer.down, group=self.group)

    def close(self) -> None:
        self.group.close()


def torch_chain(case: Case) -> torch.Tensor:
    """Rows of fp8 with their scales travel to the experts, and rows of bf16 back."""
    layer, hidden, ranks = case.layer, case.model.hidden, case.ranks.size
    choices = case.ids.flatten().long()
    order = torch.argsort(choices, stable=True)
    counts = choices.new_zeros(case.model.experts).scatter_add_(0, choices, torch.ones_like(choices))
    announced = torch.empty_like(counts)
    dist.all_to_all_single(announced, counts)
    of_ranks = torch.stack([counts.view(ranks, -1).sum(1), announced.view(ranks, -1).sum(1)])
    quantized = tw.quantize(case.x, "1x128")
    # int32, because torch gathers bytes one by one.
    packed = torch.cat([quantized.values.view(torch.int32), quantized.scales.view(torch.int32)], 1)
    rows = packed[order // case.model.choices]
    sent, received = of_ranks.tolist()  # the host waits here
    arrived = packed.new_empty(sum(received), packed.shape[1])
    dist.all_to_all_single(arrived, rows, received, sent)

    # Rows of a rank are sorted by expert. Those of all ranks become so.
    places = torch.arange(layer.local, device=choices.device).repeat(ranks)
    by_expert = torch.argsort(places.repeat_interleave(announced, output_size=len(arrived)), stable=True)
    ends = announced.view(ranks, -1).sum(0).cumsum(0).to(torch.int32)
    values, scales = arrived[:, : hidden // 4][by_expert], arrived[:, hidden // 4 :][by_expert]
    rows_in = tw.Quantized(values.view(torch.float8_e4m3fn), "1x128", scales.view(torch.float32))
    results = tw.moe(rows_in, layer.up, layer.down, offsets=ends)
    back = torch.empty_like(results)
    back[by_expert] = results
    returned = back.new_empty(len(order), hidden)
    dist.all_to_all_single(returned, back, sent, received)

    place_of = torch.empty_like(order)
    place_of[order] = torch.arange(len(order), device=order.device)
    of_tokens = returned[place_of].view(case.tokens, -1, hidden)
    return torch.bmm(case.weights.to(torch.bfloat16)[:, None], of_tokens)[:, 0]  # one kernel, with sums in float32


def gather_chain(case: Case) -> torch.Tensor:
    """All-gather of bf16 tokens and their choices, the local layer, reduce-scatter of bf16 sums."""
    ranks, layer = case.ranks.size, case.layer
    own = (case.x, case.ids, case.weights)
    x, ids, weights = (part.new_empty(ranks * case.tokens, part.shape[1]) for part in own)
    # One call of NCCL, as in vLLM's all_gatherv. gloo 2.11's result of such a call is wrong where dtypes differ.
    with dist._coalescing_manager() if case.ranks.on_gpu else contextlib.nullcontext():
        for all_of, part in zip((x, ids, weights), own, strict=True):
            dist.all_gather_into_tensor(all_of, part)
    sums = tilewright.torch.moe(x, ids, weights, layer.up, layer.down, expert_map=layer.expert_map)
    out = torch.empty_like(case.x)
    dist.reduce_scatter_tensor(out, sums)
    return out


class DeepEp:
    """DeepEP within a host. It delivers a token once, with -1 for choices of other ranks, and adds the ranks' sums."""

    def __init__(self, ranks: Ranks) -> None:
        import deep_ep

        self.buffer = deep_ep.Buffer(dist.group.WORLD, DEEP_EP_BYTES, 0)

    def __call__(self, case: Case) -> torch.Tensor:
        layer, ids = case.layer, case.ids.long()
        of_ranks, _, of_experts, is_in_rank, _ = self.buffer.get_dispatch_layout(ids, case.model.experts)
        quantized = tw.quantize(case.x, "1x128")
        (values, scales), chosen, weights, _, handle, _ = self.buffer.dispatch(
            (quantized.values, quantized.scales), num_tokens_per_rank=of_ranks, is_token_in_rank=is_in_rank,
            num_tokens_per_expert=of_experts, topk_idx=ids, topk_weights=case.weights,
        )  # fmt: skip
        x = tw.Quantized(values, "1x128", scales)
        sums = tw.moe(x, layer.up, layer.down, experts=chosen, weights=weights)
        return self.buffer.combine(sums, handle)[0]


def one_gpu(case: Case) -> torch.Tensor:
    layer = case.layer
    return case.own(tilewright.torch.moe(case.all_x, case.all_ids, case.all_weights, layer.all_up, layer.all_down))


def summed_local(case: Case) -> torch.Tensor:
    """The local layer of `parts`, with sums over the ranks. It is not timed, and shows that `local` has the right rows."""
    sums = local_layer(case).float()
    dist.all_reduce(sums)
    return case.own(sums)


def local_layer(case: Case) -> torch.Tensor:
    """This rank's experts of the tokens of all ranks."""
    layer = case.layer
    return tilewright.torch.moe(
        case.all_x, case.all_ids, case.all_weights, layer.up, layer.down, expert_map=layer.expert_map
    )


def chains(case: Case, deep_ep: DeepEp | None) -> dict[str, Call]:
    """All but our calls. Each returns the results of this rank's tokens."""
    found: dict[str, Call] = {
        "one": functools.partial(one_gpu, case),
        "torch": functools.partial(torch_chain, case),
        "gather": functools.partial(gather_chain, case),
    }
    return found | ({"deep_ep": functools.partial(deep_ep, case)} if deep_ep else {})


def parts(case: Case) -> dict[str, list[Call]]:
    """The parts of targets by name, each with calls whose times are added.

    `local` is the layer of this rank's experts and the tokens of all ranks, `products` its two products, of its rows and ends.
    `all_gather` moves what a rank announces, `all_to_all` a bf16 sum per token and rank.
    """
    layer, model, size = case.layer, case.model, case.ranks.size
    local_ids = layer.expert_map[case.all_ids.long()]
    routed = tw.route(local_ids, layer.local)
    rows = tw.quantize_tokens(case.all_x[routed.sources // model.choices], routed.ends, rows="1x128")[0]
    expected = -(-size * case.tokens * model.choices // model.experts)  # about half of the rows belong to no expert here
    gate_up = tw.grouped_gemm(rows, layer.up, offsets=routed.ends, expected_m=expected)
    h = tw.quantize_tokens(gate_up, routed.ends, rows="1x128", activation="swiglu")[0]
    y = tw.grouped_gemm(h, layer.down, offsets=routed.ends, expected_m=expected)

    announced = torch.zeros(announced_bytes(model.hidden, model.choices, case.tokens), dtype=torch.uint8, device=case.x.device)
    gathered = announced.repeat(size)
    sums = torch.zeros(size * summed_bytes(model.hidden, case.tokens), dtype=torch.uint8, device=case.x.device)
    received = torch.empty_like(sums)
    return {
        "local": [lambda: local_layer(case)],
        "products": [
            lambda: tw.grouped_gemm(rows, layer.up, offsets=routed.ends, expected_m=expected, out=gate_up),
            lambda: tw.grouped_gemm(h, layer.down, offsets=routed.ends, expected_m=expected, out=y),
        ],
        "all_gather": [lambda: dist.all_gather_into_tensor(gathered, announced)],
        "all_to_all": [lambda: dist.all_to_all_single(received, sums)],
    }
