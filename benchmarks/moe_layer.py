"""Times a layer of experts, its products and the same layer of others, each as the replay of a CUDA graph with L2 flushed.

    python benchmarks/moe_layer.py --tokens 1,512 --random 8 --json FILE

The layers are those of Qwen3-30B-A3B and Qwen3-235B-A22B. `--random` adds layers of random sizes, `--json` appends to a file.

Columns, in microseconds:

- layer: `tw.moe` of bf16 tokens, fp8 weights with 128x128 scales. products: its two products, timed separately. target: the most that the layer
  may take: products + 1.25 x the bytes between them at the rate of a copy + 2.4 per further launch, and `route`.
- mxfp4: the same layer with packed MXFP4 weights.
- triton: benchmarks/triton_moe.py, its best configurations, and 6 us in which an engine sorts the ids.
- torch: two bf16 `torch._grouped_mm`, with the other steps compiled.
- overlap (by --peers only): the layer with programmatic dependent launch.

The exit code is 2 without a GPU.
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import random
import statistics
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tilewright as tw
import torch
import torch.nn.functional as F
from device_clock import FLUSH_BYTES
from origin import origin

REPEATS = 20
LAUNCH_US = 2.4
PERMUTE_CHOICES = 1024  # up to which routing is part of the permuting kernel


class Layer(NamedTuple):
    name: str
    experts: int
    top: int
    hidden: int
    inner: int


LAYERS = (Layer("Qwen3-30B-A3B", 128, 8, 2048, 768), Layer("Qwen3-235B-A22B", 128, 8, 4096, 1536))
TOKENS = (1, 8, 32, 128, 512, 2048, 4096)


class Clock:
    """The median time of a graph's replay."""

    def __init__(self) -> None:
        self.flushed = torch.empty(FLUSH_BYTES // 4, dtype=torch.float32, device="cuda")

    def __call__(self, call: Callable[[], Any], repeats: int = REPEATS) -> float:
        for _ in range(2):
            call()
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream), torch.cuda.graph(graph, stream=stream):
            call()
        times = []
        for _ in range(repeats):
            self.flushed.fill_(1.0)
            self.flushed.sum()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) * 1e3)
        return statistics.median(times)


def copy_rate(clock: Clock) -> float:
    """Bytes read and written per microsecond by a copy of 1 GiB."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() / clock(lambda: target.copy_(source))


class Routed(NamedTuple):
    x: torch.Tensor
    ids: torch.Tensor
    weights: torch.Tensor


def routed(layer: Layer, tokens: int, skew: bool) -> Routed:
    """Random tokens and choices. skew: one expert is chosen 30 times as often, and half of the experts never."""
    x = torch.randn(tokens, layer.hidden, device="cuda", dtype=torch.bfloat16)
    scores = torch.randn(tokens, layer.experts, device="cuda")
    if skew:
        scores[:, layer.experts // 2 :] = -100
        scores[:, 0] += 3.4
    weights, ids = torch.topk(scores.softmax(-1), layer.top)
    return Routed(x, ids.to(torch.int32), weights)


def weights_of(layer: Layer) -> tuple[torch.Tensor, torch.Tensor]:
    up = torch.randn(layer.experts, 2 * layer.inner, layer.hidden, device="cuda", dtype=torch.bfloat16) * layer.hidden**-0.5
    down = torch.randn(layer.experts, layer.hidden, layer.inner, device="cuda", dtype=torch.bfloat16) * layer.inner**-0.5
    return up, down


def products(layer: Layer, given: Routed, up: Any, down: Any) -> list[Callable[[], Any]]:
    """Only the products of the layer, of rows that are sorted already."""
    order = torch.argsort(given.ids.flatten(), stable=True)
    ends = torch.bincount(given.ids.flatten(), minlength=layer.experts).cumsum(0).to(torch.int32)
    rows = tw.quantize_tokens(given.x[order // layer.top], ends, rows="1x128")[0]
    gate_up = tw.grouped_gemm(rows, up, offsets=ends)
    h = tw.quantize_tokens(gate_up, ends, rows="1x128", activation="swiglu")[0]
    y = torch.empty(order.numel(), layer.hidden, device="cuda", dtype=torch.bfloat16)
    return [
        lambda: tw.grouped_gemm(rows, up, offsets=ends, out=gate_up),
        lambda: tw.grouped_gemm(h, down, offsets=ends, out=y),
    ]


def glue_bytes(layer: Layer, tokens: int) -> float:
    """Permuting and quantizing, SwiGLU and quantizing, the sum."""
    rows, scales = tokens * layer.top, 1 + 4 / 128
    permute = tokens * layer.hidden * 2 + rows * layer.hidden * scales
    activate = rows * layer.inner * (4 + scales)
    return permute + activate + rows * layer.hidden * 2 + tokens * layer.hidden * 2


def target(layer: Layer, tokens: int, of_products: float, rate: float) -> float:
    alone = tokens * layer.top > PERMUTE_CHOICES
    route = 10.0 if alone else 0.0
    return of_products + 1.25 * glue_bytes(layer, tokens) / rate + route + LAUNCH_US * 3


def torch_chain(layer: Layer, given: Routed, up: torch.Tensor, down: torch.Tensor) -> Callable[[], Any]:
    up, down = up.transpose(1, 2), down.transpose(1, 2)
    tokens = given.x.shape[0]

    def activate(z: torch.Tensor) -> torch.Tensor:
        return F.silu(z[:, : layer.inner].float()).mul(z[:, layer.inner :].float()).to(torch.bfloat16)

    def combine(y: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        back = torch.empty_like(order)
        back.scatter_(0, order, torch.arange(order.numel(), device="cuda"))
        return (y[back].view(tokens, layer.top, layer.hidden).float() * given.weights[..., None]).sum(1).to(torch.bfloat16)

    def route() -> tuple[torch.Tensor, torch.Tensor]:
        flat = given.ids.flatten().long()
        order = torch.argsort(flat, stable=True)
        counts = torch.zeros(layer.experts, dtype=torch.int64, device="cuda").scatter_add_(0, flat, torch.ones_like(flat))
        return order, counts.cumsum(0).to(torch.int32)

    torch._dynamo.reset()  # otherwise the ninth size is not compiled
    activate_compiled, combine_compiled = torch.compile(activate, dynamic=False), torch.compile(combine, dynamic=False)

    def call() -> torch.Tensor:
        order, ends = route()
        gate_up = torch._grouped_mm(given.x[order // layer.top], up, offs=ends)
        return combine_compiled(torch._grouped_mm(activate_compiled(gate_up), down, offs=ends), order)

    return call


def error(given: torch.Tensor, expected: torch.Tensor) -> float:
    return float((given.float() - expected.float()).norm() / expected.float().norm())


class Weights:
    """One layer's weights in all forms, made once for all numbers of tokens."""

    def __init__(self, layer: Layer, peers: list[str]):
        self.real = weights_of(layer)
        self.fp8 = [tw.quantize(each, "128x128") for each in self.real]
        self.mxfp4 = [tw.pack_weights(tw.quantize(each, "mxfp4"), "fp8") for each in self.real] if "mxfp4" in peers else None


def measure(layer: Layer, tokens: int, weights: Weights, peers: list[str], skew: bool, clock: Clock, rate: float) -> dict[str, Any]:
    from triton_moe import SORTING_US, TritonLayer

    given = routed(layer, tokens, skew)
    up, down = weights.fp8
    out = torch.empty(tokens, layer.hidden, device="cuda", dtype=torch.bfloat16)
    row: dict[str, Any] = {"layer": layer.name, "experts": layer.experts, "top": layer.top, "hidden": layer.hidden,
                           "inner": layer.inner, "tokens": tokens, "skew": skew}  # fmt: skip
    layer_of = functools.partial(tw.moe, given.x, experts=given.ids, weights=given.weights, out=out)
    row["us"] = clock(lambda: layer_of(up, down))
    if "overlap" in peers:
        row["overlap_us"] = clock(lambda: layer_of(up, down, overlap=True))
    parts = [clock(call) for call in products(layer, given, up, down)]
    row["products_us"], row["target_us"] = sum(parts), target(layer, tokens, sum(parts), rate)
    row["up_us"], row["down_us"] = parts
    if "triton" in peers:
        triton = TritonLayer(given.x, given.ids.long(), given.weights, up, down)
        tuned = triton.tune(lambda call: clock(call, 7))
        row["triton_us"] = clock(triton) + SORTING_US
        row["triton_products_us"] = sum(us for us, _ in tuned)
        row["triton_error"] = error(out, triton.out)
    if "torch" in peers:
        chain = torch_chain(layer, given, *weights.real)
        row["torch_us"] = clock(chain)
        row["torch_error"] = error(out, chain())
    if weights.mxfp4 is not None:
        row["mxfp4_us"] = clock(lambda: layer_of(*weights.mxfp4, activations="1x128"))
    return row


def random_layers(count: int, seed: int) -> Iterator[Layer]:
    draw = random.Random(seed)
    for index in range(count):
        experts = draw.choice((16, 32, 64, 96, 128, 160))
        top = min(draw.choice((1, 2, 4, 6, 8)), experts)
        yield Layer(f"random {index}", experts, top, draw.randrange(8, 40) * 128, draw.randrange(3, 17) * 128)


def printed(row: dict[str, Any], peers: list[str]) -> str:
    us = row["us"]

    def against(key: str) -> str:
        return f"{row[key]:8.1f} {row[key] / us:5.2f}x" if key in row else f"{'-':>15}"

    return (
        f"{row['layer']:16s} {row['tokens']:6d} {us:8.1f} {row['products_us']:9.1f} {row['target_us']:8.1f} {us / row['target_us']:6.2f}"
        + "".join(f" {against(peer + '_us')}" for peer in peers)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", default=",".join(map(str, TOKENS)), help="numbers of tokens, as 1,512")
    parser.add_argument("--random", type=int, default=0, help="layers of random sizes in addition")
    parser.add_argument("--only-random", action="store_true", help="without the models' layers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skew", action="store_true", help="one expert is chosen 30 times as often, half of them never")
    parser.add_argument("--peers", default="triton,torch,mxfp4", help="others that are timed; empty: none")
    parser.add_argument("--json", type=pathlib.Path, help="append a line per row")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(2, "moe_layer: no GPU\n")
    torch.manual_seed(options.seed)
    clock, peers, fields = Clock(), [peer for peer in options.peers.split(",") if peer], origin()
    rate = copy_rate(clock)
    card = torch.cuda.get_device_name()
    print(f"{card}, copy {rate / 1e6:.2f} TB/s; times in us; x: time over ours")
    print(f"{'layer':16s} {'tokens':>6} {'layer':>8} {'products':>9} {'target':>8} {'ratio':>6}"
          + "".join(f" {peer:>15}" for peer in peers))  # fmt: skip
    layers = ([] if options.only_random else list(LAYERS)) + list(random_layers(options.random, options.seed))
    for layer in layers:
        weights = Weights(layer, peers)
        for tokens in map(int, options.tokens.split(",")):
            row = measure(layer, tokens, weights, peers, options.skew, clock, rate)
            print(printed(row, peers), flush=True)
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps({**fields, "device": card, "copy_bytes_per_us": rate, **row}) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
