"""Times models of transformers with Tilewright's experts and with transformers' own, grouped_mm in bf16, in turns.

    python benchmarks/generate.py --json FILE
    python benchmarks/generate.py --smoke     # tiny models on the CPU, to try the program

The models are random, with few layers of the width of Qwen3-30B-A3B and gpt-oss-20b. There are three tables.

The table "block" has device times of one layer's experts, as replays of a CUDA graph with L2 flushed. 2,048 tokens are a prefill.
x is grouped_mm's time over ours, target the ratio to reach.

The table "model" has tokens per second, by the host's clock, without compilation. Batches are those of `generate`. A prefill has
2,048 tokens. The column share is the part of the time that our experts take, its the part of grouped_mm's. The column logits is
the largest difference of grouped_mm's logits, relL2 the relative one.

The table "host" has the time of a call of a module of experts, and of `tw.moe` on its operands, without waiting for the GPU. The
column engine is a module's call that does nothing: transformers' own part. The rest is added by us.

The exit code is 2 without a GPU.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import tilewright as tw
import tilewright.integrations.transformers as door
import torch
from device_clock import EventClock, HostClock
from origin import origin
from tilewright.integrations._experts import ExpertLayer
from tilewright.integrations._transformers_layers import layer_of, unit_of
from transformers import AutoModelForCausalLM, GptOssConfig, Qwen3MoeConfig
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

PEER = "grouped_mm"
NOTHING = "nothing"  # experts that return their input
HOST_TARGET = 20.0  # microseconds that we add to `tw.moe` and to transformers' own part
HOST_CALLS = 200
PROMPT = 16
COMPARED = 256  # tokens whose logits are compared


class Shape(NamedTuple):
    """A model and the ratios to reach by recipe, at each of `Sizes.tokens`."""

    name: str
    config: type
    words: dict[str, Any]
    targets: dict[str, tuple[float, ...]]


SHAPES = {
    "qwen3": Shape(
        "Qwen3-30B-A3B",
        Qwen3MoeConfig,
        {"hidden_size": 2048, "moe_intermediate_size": 768, "intermediate_size": 6144, "num_experts": 128, "num_experts_per_tok": 8,
         "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936, "norm_topk_prob": True},
        {"1x128": (1.8, 2.0, 2.0, 1.8), "1x128:mxfp4": (2.0, 2.6, 3.0, 1.5)},
    ),
    "gpt-oss": Shape(
        "gpt-oss-20b",
        GptOssConfig,
        {"hidden_size": 2880, "intermediate_size": 2880, "num_local_experts": 32, "num_experts_per_tok": 4,
         "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088},
        {"bf16:mxfp4": (1.5, 2.5, 2.8, 1.1)},
    ),
}  # fmt: skip
TINY = {"hidden_size": 128, "moe_intermediate_size": 96, "intermediate_size": 96, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 200, "num_experts": 8, "num_local_experts": 8,
        "num_experts_per_tok": 2}  # fmt: skip


class Sizes(NamedTuple):
    device: str
    layers: int
    tokens: tuple[int, ...]
    batches: tuple[int, ...]
    new: int
    prefill: int
    repeats: int


FULL = Sizes("cuda", 4, (1, 8, 64, 2048), (1, 8, 64), 32, 2048, 20)
SMOKE = Sizes("cpu", 2, (1, 8), (1, 2), 2, 32, 2)


def model_of(shape: Shape, sizes: Sizes) -> Any:
    """Made on the device. Its experts have weights of the size that keeps the size of tokens."""
    words = {name: TINY.get(name, value) if sizes is SMOKE else value for name, value in shape.words.items()}
    config = shape.config(**words, num_hidden_layers=sizes.layers, eos_token_id=None, pad_token_id=0, bos_token_id=1)
    config._experts_implementation = PEER
    torch.manual_seed(0)
    with torch.device(sizes.device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    with torch.no_grad():
        for module in experts_of(model):
            for w in (module.gate_up_proj, module.down_proj):
                w.normal_(std=w.shape[1 if module.is_transposed else 2] ** -0.5)
    return model


def experts_of(model: Any) -> list[Any]:
    return [module for name, module in model.named_modules() if name.endswith(".experts")]


def choices(module: Any, top: int, tokens: int, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    hidden = module.down_proj.shape[2 if module.is_transposed else 1]
    x = torch.randn(tokens, hidden, device=device, dtype=torch.bfloat16)
    weights, ids = torch.topk(torch.randn(tokens, module.num_experts, device=device).softmax(-1), top)
    return x, ids, weights.to(torch.bfloat16)


def captured(call: Callable[[], Any]) -> Callable[[], Any]:
    """The replay of a graph of the call."""
    for _ in range(2):
        call()
    torch.cuda.synchronize()
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream), torch.cuda.graph(graph, stream=stream):
        call()
    return graph.replay


def error(given: torch.Tensor, expected: torch.Tensor) -> float:
    return float((given.float() - expected.float()).norm() / expected.float().norm())


def block_rows(shape: Shape, module: Any, layers: dict[str, ExpertLayer], sizes: Sizes, clock: Any) -> list[dict[str, Any]]:
    """One layer's experts with all recipes and the peer, in turns."""
    rows = []
    for i, tokens in enumerate(sizes.tokens):
        x, ids, weights = choices(module, module.config.num_experts_per_tok, tokens, sizes.device)
        theirs = ALL_EXPERTS_FUNCTIONS[PEER]
        calls = [lambda: theirs(module, x, ids, weights)]
        calls += [lambda layer=layer: layer.tokens(x, ids, weights) for layer in layers.values()]
        exact = calls[0]()
        errors = [error(call(), exact) for call in calls[1:]]
        timed = [captured(call) for call in calls] if sizes.device == "cuda" else calls
        peer_us, *ours = clock.medians(timed)
        for (recipe, us), off in zip(zip(layers, ours, strict=True), errors, strict=True):
            rows.append({"table": "block", "model": shape.name, "recipe": recipe, "tokens": tokens, "us": us, "peer_us": peer_us,
                         "ratio": peer_us / us, "target": shape.targets[recipe][i], "error": off})  # fmt: skip
    return rows


def synchronize(sizes: Sizes) -> None:
    if sizes.device == "cuda":
        torch.cuda.synchronize()


def seconds(call: Callable[[], Any], sizes: Sizes) -> float:
    synchronize(sizes)
    begin = time.perf_counter()
    call()
    synchronize(sizes)
    return time.perf_counter() - begin


def share(model: Any, call: Callable[[], Any], sizes: Sizes) -> float:
    """The experts' part of the time of a call. Each module waits for the GPU, so that kernels count where they were launched."""
    spent, begins, hooks = [0.0], [0.0], []

    def before(*_: Any) -> None:
        synchronize(sizes)
        begins[0] = time.perf_counter()

    def after(*_: Any) -> None:
        synchronize(sizes)
        spent[0] += time.perf_counter() - begins[0]

    for module in experts_of(model):
        hooks += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    whole = seconds(call, sizes)
    for hook in hooks:
        hook.remove()
    return spent[0] / whole


def model_rows(shape: Shape, model: Any, recipe: str, sizes: Sizes) -> list[dict[str, Any]]:
    """The model with one recipe, which is prepared, and with the peer, in turns."""
    rows = []
    vocabulary = model.config.vocab_size
    compared = torch.randint(2, vocabulary, (1, min(COMPARED, sizes.prefill)), device=sizes.device)
    logits = {}
    for name in (PEER, door.NAME):
        model.set_experts_implementation(name)
        logits[name] = model(compared).logits.float()
    apart = {"logits": float((logits[door.NAME] - logits[PEER]).abs().max()), "error": error(logits[door.NAME], logits[PEER])}
    for batch in (*sizes.batches, 0):
        words = torch.randint(2, vocabulary, (batch or 1, PROMPT if batch else sizes.prefill), device=sizes.device)
        made = batch * sizes.new or sizes.prefill

        def call(words: torch.Tensor = words, batch: int = batch) -> None:
            if batch:
                mask = torch.ones_like(words)
                model.generate(words, attention_mask=mask, max_new_tokens=sizes.new, do_sample=False)
            else:
                model(words, logits_to_keep=1)

        times: dict[str, list[float]] = {PEER: [], door.NAME: []}
        shares = {}
        for name in times:
            model.set_experts_implementation(name)
            call()
            shares[name] = share(model, call, sizes)
        for _ in range(3):
            for name, of_name in times.items():
                model.set_experts_implementation(name)
                of_name.append(seconds(call, sizes))
        ours, theirs = (made / statistics.median(times[name]) for name in (door.NAME, PEER))
        rows.append({"table": "model", "model": shape.name, "recipe": recipe, "batch": batch, "tokens": made, "per_second": ours,
                     "peer_per_second": theirs, "ratio": ours / theirs, "share": shares[door.NAME], "peer_share": shares[PEER],
                     **apart})  # fmt: skip
    return rows


def host_row(shape: Shape, model: Any, recipe: str, layer: ExpertLayer, sizes: Sizes) -> dict[str, Any]:
    """A module that is prepared, for one token."""
    module = experts_of(model)[0]
    model.set_experts_implementation(door.NAME)
    x, ids, weights = choices(module, module.config.num_experts_per_tok, 1, sizes.device)
    biases = {"up_bias": layer.up_bias, "down_bias": layer.down_bias}
    biases = {name: None if bias is None else bias.detach() for name, bias in biases.items()}
    words = {**layer.unit_words, **biases, "activations": layer.activations}
    calls = {
        "direct_us": lambda: tw.moe(x, layer.up, layer.down, experts=ids, weights=weights, **words),
        "module_us": lambda: module(x, ids, weights),
    }
    found = host_times(calls, sizes)
    if NOTHING not in ALL_EXPERTS_FUNCTIONS:
        ALL_EXPERTS_FUNCTIONS.register(NOTHING, lambda module, x, ids, weights: x)
    model.set_experts_implementation(NOTHING)
    found |= host_times({"engine_us": calls["module_us"]}, sizes)
    model.set_experts_implementation(door.NAME)
    added = found["module_us"] - found["direct_us"] - found["engine_us"]
    return {"table": "host", "model": shape.name, "recipe": recipe, **found, "added_us": added, "target": HOST_TARGET}


def host_times(calls: dict[str, Callable[[], Any]], sizes: Sizes) -> dict[str, float]:
    """The median of each call, in turns, with nothing left to do on the GPU."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(HOST_CALLS):
        for name, call in calls.items():
            synchronize(sizes)
            begin = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - begin) * 1e6)
    return {name: statistics.median(of_name) for name, of_name in times.items()}


HEADS = {
    "block": f"{'model':14s} {'recipe':12s} {'tokens':>6} {'ours us':>9} {PEER:>11} {'x':>6} {'target':>6} {'relL2':>7}",
    "model": f"{'model':14s} {'recipe':12s} {'batch':>7} {'tokens/s':>9} {PEER:>11} {'x':>6} {'share':>6} {'its':>6} "
             f"{'logits':>7} {'relL2':>7}",
    "host": f"{'model':14s} {'recipe':12s} {'tw.moe us':>9} {'module us':>9} {'engine us':>9} {'added':>6} {'target':>6}",
}


def printed(row: dict[str, Any]) -> str:
    begin = f"{row['model']:14s} {row['recipe']:12s}"
    if row["table"] == "block":
        times = f"{row['us']:9.1f} {row['peer_us']:11.1f} {row['ratio']:5.2f}x {row['target']:6.1f}"
        return f"{begin} {row['tokens']:6d} {times} {row['error']:7.3f}"
    if row["table"] == "model":
        what = str(row["batch"]) if row["batch"] else "prefill"
        speeds = f"{row['per_second']:9.0f} {row['peer_per_second']:11.0f} {row['ratio']:5.2f}x"
        return f"{begin} {what:>7} {speeds} {row['share']:6.0%} {row['peer_share']:6.0%} {row['logits']:7.3f} {row['error']:7.3f}"
    return f"{begin} {row['direct_us']:9.1f} {row['module_us']:9.1f} {row['engine_us']:9.1f} {row['added_us']:6.1f} {row['target']:6.0f}"


def rows_of(shape: Shape, sizes: Sizes, parts: list[str], clock: Any, say: Callable[[str], None]) -> list[dict[str, Any]]:
    say(f"{shape.name}: makes {sizes.layers} layers")
    model = model_of(shape, sizes)
    module, rows = experts_of(model)[0], []
    layers = {recipe: layer_of(module, unit_of(module), recipe, False).quantized() for recipe in shape.targets}
    if "block" in parts:
        say(f"{shape.name}: one layer's experts")
        rows += block_rows(shape, module, layers, sizes, clock)
    for recipe in shape.targets if {"model", "host"} & set(parts) else ():
        say(f"{shape.name}, {recipe}: the model")
        if len(door.prepare(model, recipe, free_originals=False)) != sizes.layers:
            raise RuntimeError(f"{shape.name}: Tilewright does not run all experts")
        rows += model_rows(shape, model, recipe, sizes) if "model" in parts else []
        rows += [host_row(shape, model, recipe, layers[recipe], sizes)] if "host" in parts else []
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(SHAPES), help="of " + ", ".join(SHAPES))
    parser.add_argument("--parts", default="block,model,host", help="tables to make")
    parser.add_argument("--layers", type=int, default=FULL.layers, help="layers of each model")
    parser.add_argument("--smoke", action="store_true", help="tiny models on the CPU: tries the program, its times mean nothing")
    parser.add_argument("--json", type=pathlib.Path, help="append a line per row")
    options = parser.parse_args()
    if not options.smoke and not torch.cuda.is_available():
        parser.exit(2, "generate: no GPU (--smoke tries the program on the CPU)\n")
    sizes = SMOKE if options.smoke else FULL._replace(layers=options.layers)
    clock: Any = HostClock(sizes.repeats) if options.smoke else EventClock(sizes.repeats)
    card = "cpu" if options.smoke else torch.cuda.get_device_name()
    began, fields, parts = time.perf_counter(), origin(), options.parts.split(",")

    def say(what: str) -> None:
        print(f"[{time.perf_counter() - began:5.1f} s] {what}", flush=True)

    rows = []
    with torch.no_grad():
        for key in options.models.split(","):
            made = rows_of(SHAPES[key], sizes, parts, clock, say)
            rows += made
            if options.json:
                with options.json.open("a") as file:
                    file.writelines(json.dumps({**fields, "device": card, "layers": sizes.layers, **row}) + "\n" for row in made)
            if sizes.device == "cuda":
                torch.cuda.empty_cache()
    for table, head in HEADS.items():
        of_table = [row for row in rows if row["table"] == table]
        if of_table:
            print("\n".join(["", f"{table}, {card}", head, *map(printed, of_table)]))
    say("done")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
