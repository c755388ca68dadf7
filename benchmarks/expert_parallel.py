"""Times a layer of experts that is spread over the GPUs of a host, against other chains and one GPU, and compares with the targets.

    torchrun --nproc-per-node 2 benchmarks/expert_parallel.py --json FILE
    torchrun --nproc-per-node 2 benchmarks/expert_parallel.py --check
    torchrun --nproc-per-node 2 benchmarks/expert_parallel.py --check --device cpu    # tiny layers, to try the program

Times are microseconds of CUDA graphs, with L2 flushed and the ranks aligned before each replay. The slower rank counts. The chains
`torch` and `deep_ep` cannot be captured, because the host reads sizes, and are timed as eager calls. Every contestant is first
called once, and its result is compared with that of one GPU that holds all experts.

Columns, in microseconds: T is the number of tokens of a rank.

- local: the layer of a rank's experts, with the tokens of all ranks at hand. products: its two products.
- gather, to all: the collectives of the dense exchange, by themselves.
- ours: `tilewright.torch.moe` over a group that chooses its form. Then the forms: p is the exchange "peer", d is "dense", rows and
  sums are the combines.
- goal p, goal d: a time over the target of peer and dense, of the faster combine.
- torch, ag+rs, deep_ep, one: the chains of benchmarks/expert_parallel_chains.py. x is their time over ours.
- error: the largest difference of a token's result from that of one GPU, relative to its norm.

The exit code is 2 without GPUs, and 1 if a result is wrong.
"""

from __future__ import annotations

import functools
import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from expert_parallel_chains import EAGER, Call, Case, DeepEp, Model, Ours, Weights, chains, parts, summed_local
from expert_parallel_targets import CALLS, EXCHANGES, fastest, judged
from origin import origin
from ranks import Ranks, arguments, chosen_models, clock_of, links

MODELS = {
    "qwen3-30b": Model("Qwen3-30B-A3B", 2048, 768, 128, 8),
    "qwen3-235b": Model("Qwen3-235B-A22B", 4096, 1536, 128, 8),
    "deepseek-v3": Model("DeepSeek-V3", 7168, 2048, 256, 8),
}
TOKENS = (8, 32, 128, 512, 2048, 4096, 8192)
TINY = {"tiny": Model("tiny", 256, 128, 8, 2), "tiny-wide": Model("tiny, wide", 384, 256, 6, 3)}
TINY_TOKENS = (1, 7, 40)
REPEATS = 20
# The most that a token's result may differ, relative to its norm. Chains round a token's sum to bf16 once more per rank, and the
# torch chain its weights, each by 0.4 % at most. A choice of eight that is lost or misplaced is about a third of the norm.
BOUND = 0.01


def error(given: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference of a token, relative to its norm."""
    return float(((given.float() - expected.float()).norm(dim=1) / expected.float().norm(dim=1)).max())


class Failures:
    """Contestants that could not run, or were wrong, and why. A reason is printed once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say, self.told, self.wrong = say, set[str](), 0
        self.everywhere: dict[str, str] = {}

    def add(self, row: dict[str, Any], name: str, reason: str) -> None:
        row["missing"][name] = reason
        if reason not in self.told:
            self.told.add(reason)
            self.say(f"left out: {name} of {row['model']}, {row['tokens']} tokens: {reason}")


def contestants(
    case: Case, row: dict[str, Any], ours: dict[str, Ours], deep_ep: DeepEp | None, failures: Failures
) -> dict[str, Call]:
    """Those that run and whose results are right. Each is called once."""
    calls = chains(case, deep_ep) | ours
    expected: torch.Tensor | None = None
    for name, call in [*calls.items(), ("local", functools.partial(summed_local, case))]:
        result, reason = case.ranks.attempt(call)
        if not reason:
            expected = result if expected is None else expected
            row["errors"][name] = case.ranks.largest([error(result, expected)])[0]
            if not row["errors"][name] <= BOUND:  # also for NaN
                reason = f"wrong: a token differs by {row['errors'][name]:.3g} of its norm from one GPU, above {BOUND}"
                failures.wrong += 1
        if reason:
            failures.add(row, name, reason)
    return {name: call for name, call in calls.items() if name not in row["missing"]}


def groups_of(case: Case, row: dict[str, Any], failures: Failures) -> dict[str, Ours]:
    """Our calls, each with a separate group."""
    found = {}
    for name, form in CALLS.items():
        made, reason = case.ranks.attempt(lambda form=form: Ours(case, form))
        if reason:
            failures.add(row, name, reason)
        else:
            found[name] = made
    return found


def measure(case: Case, calls: dict[str, Call], row: dict[str, Any], clock: Any, failures: Failures) -> dict[str, float]:
    """Microseconds of the contestants and of the parts, in turns. A part may have several calls, whose times are added."""
    of_names = {name: [call] for name, call in calls.items()} | parts(case)
    named = [(name, call) for name, of_name in of_names.items() for call in of_name]
    prepared = clock.prepared([call for _, call in named], [name in EAGER for name, _ in named])
    names = [name for name, _ in named]
    for name, (_, reason) in zip(names, prepared, strict=True):
        if reason:
            failures.add(row, name, reason)
    timed = [(name, call) for name, (call, _) in zip(names, prepared, strict=True) if name not in row["missing"]]
    us = dict.fromkeys([name for name, _ in timed], 0.0)
    for (name, _), of_call in zip(timed, clock.slowest([call for _, call in timed]), strict=True):
        us[name] += of_call
    return us


def row_of(case: Case, deep_ep: DeepEp | None, clock: Any | None, rate: float | None, failures: Failures) -> dict[str, Any]:
    model = case.model
    row: dict[str, Any] = {"table": "layer", "model": model.name, "hidden": model.hidden, "inner": model.inner,
                           "experts": model.experts, "choices": model.choices, "ranks": case.ranks.size, "tokens": case.tokens,
                           "us": {}, "errors": {}, "missing": dict(failures.everywhere)}  # fmt: skip
    if rate is not None:
        row["bytes_per_us"] = rate
    ours = groups_of(case, row, failures)
    calls = contestants(case, row, ours, deep_ep, failures)
    if clock is not None:
        row["us"] = measure(case, calls, row, clock, failures)
    for call in ours.values():
        call.close()
    return judged(row)


TIMES = {"local": "local", "products": "products", "all_gather": "gather", "all_to_all": "to all", "ours": "ours",
         "peer_rows": "p rows", "peer_sums": "p sums", "dense_rows": "d rows", "dense_sums": "d sums"}  # fmt: skip
CHAINS = {"torch": "torch", "gather": "ag+rs", "deep_ep": "deep_ep", "one": "one"}
HEAD = (f"{'model':15s} {'T':>5}" + "".join(f" {head:>8}" for head in TIMES.values())
        + "".join(f" {'goal ' + exchange[0]:>6}" for exchange in EXCHANGES)
        + "".join(f" {head:>8}     x" for head in CHAINS.values()) + f" {'error':>6}")  # fmt: skip
CHECK_HEAD = f"{'model':15s} {'T':>5}   largest difference of a token from one GPU, relative to its norm"


def printed(row: dict[str, Any]) -> str:
    us, begin = row["us"], f"{row['model']:15s} {row['tokens']:5d}"
    if not us:
        return f"{begin}   " + ", ".join(f"{name} {off:.4f}" for name, off in row["errors"].items() if name != "one")
    cells = [time_of(us, name) for name in TIMES]
    for exchange in EXCHANGES:
        best = fastest(row, exchange)
        judgable = best is not None and exchange in row["targets_us"]
        cells.append(f"{best / row['targets_us'][exchange]:6.2f}" if judgable else f"{'-':>6}")
    for name in CHAINS:
        cells += [time_of(us, name), f"{row['speeds'][name]:5.2f}" if name in row["speeds"] else f"{'-':>5}"]
    return " ".join([begin, *cells, f"{max(row['errors'].values(), default=float('nan')):6.4f}"])


def time_of(us: dict[str, float], name: str) -> str:
    return f"{us[name]:8.1f}" if name in us else f"{'-':>8}"


def main() -> int:
    parser = arguments(__doc__ or "", "of " + ", ".join(MODELS) + ", or on the CPU of " + ", ".join(TINY), REPEATS)
    parser.add_argument("--check", action="store_true", help="only call everything once and compare the results")
    options = parser.parse_args()
    models = MODELS if options.device == "cuda" else TINY
    chosen = chosen_models(parser, options, "expert_parallel", models, list(models))
    tokens = list(map(int, options.tokens.split(","))) if options.tokens else (TOKENS if options.device == "cuda" else TINY_TOKENS)
    began, ranks = time.perf_counter(), Ranks(options.device)

    def say(text: str) -> None:
        if ranks.rank == 0:
            print(f"[{time.perf_counter() - began:5.1f} s] {text}", flush=True)

    def show(text: str) -> None:
        if ranks.rank == 0:
            print(text, flush=True)

    fields = {**origin(), "device": ranks.card, "engine": ranks.engine, "torch": torch.__version__}

    def write(row: dict[str, Any]) -> None:
        if ranks.rank == 0 and options.json:
            with options.json.open("a") as file:
                file.write(json.dumps({**fields, **row}) + "\n")

    ranks.expect_progress()
    say(f"{ranks.size} ranks, {ranks.card}, {ranks.engine}, torch {torch.__version__}; T: tokens of a rank; times in us; "
        "x: time over ours")  # fmt: skip
    clock = None if options.check else clock_of(ranks, options.repeats)
    figures = links(ranks, clock) if clock else {}
    if figures:
        write({"table": "links", "ranks": ranks.size, **figures})
        say("symmetric memory: " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()))
    failures = Failures(say)
    deep_ep, reason = ranks.attempt(lambda: DeepEp(ranks))
    if reason:
        failures.everywhere["deep_ep"] = reason
        say(f"left out: deep_ep: {reason}")
    with torch.no_grad():
        for model in chosen:
            ranks.expect_progress()
            say(f"{model.name}: makes {model.experts} experts")
            layer = Weights(model, ranks)
            show(CHECK_HEAD if options.check else HEAD)
            for count in tokens:
                ranks.expect_progress()
                row = row_of(Case(model, count, layer, ranks), deep_ep, clock, figures.get("bytes_per_us"), failures)
                show(printed(row))
                if not options.check:
                    write(row)
                gc.collect()
                if ranks.on_gpu:
                    torch.cuda.empty_cache()
            del layer
    say(f"done, {failures.wrong} wrong")
    del clock, deep_ep  # their memory of the group, before the group ends
    ranks.close()
    return 1 if failures.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
