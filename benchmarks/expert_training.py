"""Times training steps of layers of experts that are spread over the GPUs of a host: forward and backward, without an optimizer.

    torchrun --nproc-per-node 2 benchmarks/expert_training.py --json FILE
    torchrun --nproc-per-node 2 benchmarks/expert_training.py --device cpu    # tiny layers, to try the program

Times are microseconds of CUDA graphs, with L2 flushed and the ranks aligned before each replay. The slower rank counts. T is the
number of tokens of a rank.

- local: a step of a rank's experts, with the tokens of all ranks and the gradients of their results at hand.
- peer, dense: a step over the ranks, of an `ExpertGroup` with this `exchange`.
- gather, to all: an all-gather and an all-to-all of the tokens in bf16 by the process group, by themselves. A dense step has two of
  each.

Both exchanges must have the same bits: results, and the gradients of x, of the weights of choices and of the experts. The exit code
is 2 without GPUs, and 1 if they differ.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from expert_parallel import MODELS, TINY
from expert_parallel_chains import Model
from origin import origin
from ranks import Ranks, arguments, chosen_models, clock_of
from tilewright.torch import ExpertGroup, moe

EXCHANGES = ("peer", "dense")
CHOSEN = ("qwen3-30b", "qwen3-235b")
TOKENS = (512, 4096, 8192)
TINY_TOKENS = (1, 40)
REPEATS = 20

Step = Callable[[], list[torch.Tensor]]


class Layer:
    """This rank's experts in bf16. They keep the size of tokens."""

    def __init__(self, model: Model, ranks: Ranks) -> None:
        self.model, self.ranks, self.local = model, ranks, model.experts // ranks.size
        generator = torch.Generator(ranks.device).manual_seed(1 + ranks.rank)

        def made(*shape: int) -> torch.Tensor:
            weights = torch.empty(self.local, *shape, dtype=torch.bfloat16, device=ranks.device)
            for expert in weights:
                expert.copy_(torch.randn(shape, device=ranks.device, generator=generator) * shape[-1] ** -0.5)
            return weights.requires_grad_()

        self.up, self.down = made(2 * model.inner, model.hidden), made(model.hidden, model.inner)


class Tokens:
    """The tokens of this rank with random choices, and the gradients of their results; those of all ranks too."""

    def __init__(self, layer: Layer, count: int) -> None:
        model, ranks = layer.model, layer.ranks
        generator = torch.Generator(ranks.device).manual_seed(count * ranks.size + ranks.rank)
        self.x, self.d_out = (
            torch.randn(count, model.hidden, device=ranks.device, generator=generator).bfloat16() for _ in range(2)
        )
        logits = torch.randn(count, model.experts, device=ranks.device, generator=generator)
        self.weights, chosen = torch.topk(logits.softmax(-1), model.choices)
        self.ids = chosen.to(torch.int32)
        own = (self.x, self.ids, self.weights, self.d_out)
        self.all_x, all_ids, self.all_weights, self.all_d_out = map(ranks.gathered, own)
        local = all_ids - ranks.rank * layer.local
        self.local_ids = torch.where((local >= 0) & (local < layer.local), local, -1)
        for tensor in (self.x, self.weights, self.all_x, self.all_weights):
            tensor.requires_grad_()


def step_of(layer: Layer, tokens: Tokens, group: ExpertGroup | None) -> Step:
    """Forward and backward over the ranks of a group. Without one: of this rank's experts, with the tokens of all ranks."""
    if group is None:
        x, ids, weights, d_out = tokens.all_x, tokens.local_ids, tokens.all_weights, tokens.all_d_out
    else:
        x, ids, weights, d_out = tokens.x, tokens.ids, tokens.weights, tokens.d_out

    def step() -> list[torch.Tensor]:
        out = moe(x, ids, weights, layer.up, layer.down, group=group)
        # No node of this stream stays until a capture in another one.
        return [out.detach(), *torch.autograd.grad(out, [x, weights, layer.up, layer.down], d_out)]

    return step


def collectives(layer: Layer, tokens: Tokens) -> dict[str, Callable[[], Any]]:
    sums = tokens.all_x.detach()
    received = torch.empty_like(sums)
    return {
        "all_gather": lambda: dist.all_gather_into_tensor(received, tokens.x.detach()),
        "all_to_all": lambda: dist.all_to_all_single(received, sums),
    }


def differing(results: dict[str, list[torch.Tensor]]) -> int:
    """The tensors whose bits are not those of the first exchange."""
    first, *others = results.values()
    return sum(not torch.equal(mine, wanted) for other in others for mine, wanted in zip(other, first, strict=True))


def row_of(layer: Layer, count: int, clock: Any) -> dict[str, Any]:
    model, ranks, tokens = layer.model, layer.ranks, Tokens(layer, count)
    row: dict[str, Any] = {"table": "training", "model": model.name, "hidden": model.hidden, "inner": model.inner, "tokens": count,
                           "experts": model.experts, "choices": model.choices, "ranks": ranks.size, "us": {}, "missing": {}}  # fmt: skip
    groups, calls, results = [], {}, {}
    for exchange in EXCHANGES if ranks.on_gpu else EXCHANGES[1:]:
        group = ExpertGroup(dist.group.WORLD, max_tokens=count, experts=model.experts, choices=model.choices, hidden=model.hidden,
                            recipe="1x128", dtype=torch.bfloat16, exchange=exchange)  # fmt: skip
        groups.append(group)
        call = step_of(layer, tokens, group)
        result, reason = ranks.attempt(call)
        if reason:
            row["missing"][exchange] = reason
        else:
            calls[exchange], results[exchange] = call, result
    row["differing"] = int(ranks.largest([differing(results)])[0]) if results else 0
    del results
    calls |= {"local": step_of(layer, tokens, None)} | collectives(layer, tokens)
    prepared = clock.prepared(list(calls.values()), [False] * len(calls))
    for name, (_, reason) in zip(calls, prepared, strict=True):
        if reason:
            row["missing"][name] = reason
    timed = {name: call for name, (call, _) in zip(calls, prepared, strict=True) if call is not None}
    row["us"] = dict(zip(timed, clock.slowest(list(timed.values())), strict=True))
    del prepared, timed
    for group in groups:
        group.close()
    return row


COLUMNS = {"local": "local", "peer": "peer", "dense": "dense", "all_gather": "gather", "all_to_all": "to all"}
HEAD = f"{'model':15s} {'T':>5}" + "".join(f" {head:>8}" for head in COLUMNS.values()) + "  differing"


def printed(row: dict[str, Any]) -> str:
    times = (f"{row['us'][name]:8.0f}" if name in row["us"] else f"{'-':>8}" for name in COLUMNS)
    left_out = "".join(f"\n  left out: {name}: {reason}" for name, reason in row["missing"].items())
    return " ".join([f"{row['model']:15s} {row['tokens']:5d}", *times, f"{row['differing']:10d}"]) + left_out


def main() -> int:
    parser = arguments(__doc__ or "", "of " + ", ".join(MODELS) + ", or on the CPU of " + ", ".join(TINY), REPEATS)
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    chosen = chosen_models(parser, options, "expert_training", MODELS if on_gpu else TINY, list(CHOSEN if on_gpu else TINY))
    tokens = list(map(int, options.tokens.split(","))) if options.tokens else (TOKENS if on_gpu else TINY_TOKENS)
    began, ranks, differ = time.perf_counter(), Ranks(options.device), 0
    fields = {**origin(), "device": ranks.card, "engine": ranks.engine, "torch": torch.__version__}

    def show(text: str) -> None:
        if ranks.rank == 0:
            print(text, flush=True)

    show(f"{ranks.size} ranks, {ranks.card}, {ranks.engine}, torch {torch.__version__}; T: tokens of a rank; times in us\n{HEAD}")
    clock = clock_of(ranks, options.repeats)
    for model in chosen:
        ranks.expect_progress()
        layer = Layer(model, ranks)
        for count in tokens:
            ranks.expect_progress()
            row = row_of(layer, count, clock)
            differ += row["differing"]
            show(printed(row))
            if ranks.rank == 0 and options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps({**fields, **row}) + "\n")
            gc.collect()
            if ranks.on_gpu:
                torch.cuda.empty_cache()
        del layer
    show(f"done in {time.perf_counter() - began:.0f} s, {differ} tensors differ")
    del clock  # its memory of the group, before the group ends
    ranks.close()
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
