"""Times a layer of experts, its products and the same layer of others, each as the replay of a CUDA graph with L2 flushed.

    python benchmarks/moe_layer.py --tokens 1,512 --random 8 --json FILE
    python benchmarks/moe_layer.py --only gpt-oss --peers triton_kernels --tokens 1,32,512
    python benchmarks/moe_layer.py --device cpu    # tiny layers, to try the program

The layers of Qwen3-30B-A3B and Qwen3-235B-A22B have fp8 weights with 128x128 scales. Those of gpt-oss have packed MXFP4 weights, bf16
tokens, biases and its unit. `--random` adds fp8 layers of random sizes, `--json` appends to a file.

Columns, in microseconds:

- layer: `tw.moe` of bf16 tokens. products: its two products, timed separately. target: the most that the layer
  may take: products + 1.25 x the bytes between them at the rate of a copy + 2.4 per further launch, and `route`.
- mxfp4: the same layer with MXFP4 weights that are packed for fp8, and tokens quantized to fp8.
- triton: benchmarks/triton_moe.py, its best configurations, and 6 us in which an engine sorts the ids. fp8 layers only.
- deep_gemm: benchmarks/deep_gemm_moe.py, DeepGEMM's products with Triton kernels between them, and the same 6 us. fp8 layers from 512 tokens.
- triton_kernels: benchmarks/triton_kernels_layer.py. gpt-oss only: its unit adds 1 to ups, and its fp8 has one scale per tensor.
- torch: two bf16 `torch._grouped_mm`, with the other steps compiled.
- overlap (by --peers only): the layer with programmatic dependent launch.

A peer that cannot run, or whose result is wrong, is named with the reason. The exit code is 2 without a GPU.
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import tilewright as tw
import torch
from device_clock import FLUSH_BYTES
from moe_cases import LAYERS, TINY, Layer, Weights, products, random_layers, routed
from moe_peers import Contest
from origin import origin

REPEATS = 20
LAUNCH_US = 2.4
PERMUTE_CHOICES = 1024  # up to which routing is part of the permuting kernel
TOKENS = (1, 8, 32, 128, 512, 2048, 4096)
TINY_TOKENS = (1, 40)
PEERS = "triton,deep_gemm,triton_kernels,torch,mxfp4"


class Clock:
    """The median time of a graph's replay."""

    device, copied = "cuda", 1 << 30

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


class HostClock:
    """Microseconds of one call on the CPU, which mean nothing."""

    device, copied = "cpu", 1 << 20

    def __call__(self, call: Callable[[], Any], repeats: int = 1) -> float:
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        return (time.perf_counter() - begin) / repeats * 1e6


def copy_rate(clock: Clock | HostClock) -> float:
    """Bytes read and written per microsecond by a copy."""
    source = torch.empty(clock.copied, dtype=torch.uint8, device=clock.device)
    target = torch.empty_like(source)
    return 2 * source.numel() / clock(lambda: target.copy_(source))


def glue_bytes(layer: Layer, tokens: int) -> float:
    """Permuting and quantizing, SwiGLU and quantizing, the sum. gpt-oss does not quantize."""
    rows, element = tokens * layer.top, 2 if layer.is_gpt_oss else 1 + 4 / 128
    permute = tokens * layer.hidden * 2 + rows * layer.hidden * element
    activate = rows * layer.inner * (4 + element)
    return permute + activate + rows * layer.hidden * 2 + tokens * layer.hidden * 2


def target(layer: Layer, tokens: int, of_products: float, rate: float) -> float:
    alone = tokens * layer.top > PERMUTE_CHOICES
    route = 10.0 if alone else 0.0
    return of_products + 1.25 * glue_bytes(layer, tokens) / rate + route + LAUNCH_US * 3


def measure(layer: Layer, tokens: int, weights: Weights, peers: list[str], skew: bool, clock: Clock | HostClock, rate: float) -> dict[str, Any]:
    given = routed(layer, tokens, skew, clock.device)
    out = torch.empty(tokens, layer.hidden, device=clock.device, dtype=torch.bfloat16)
    row: dict[str, Any] = {"layer": layer.name, "experts": layer.experts, "top": layer.top, "hidden": layer.hidden,
                           "inner": layer.inner, "gpt_oss": layer.is_gpt_oss, "tokens": tokens, "skew": skew}  # fmt: skip
    layer_of = functools.partial(tw.moe, given.x, experts=given.ids, weights=given.weights, out=out, **weights.options)
    row["us"] = clock(lambda: layer_of(*weights.ours))
    if "overlap" in peers:
        row["overlap_us"] = clock(lambda: layer_of(*weights.ours, overlap=True))
    parts = [clock(call) for call in products(layer, given, weights)]
    row["products_us"], row["target_us"] = sum(parts), target(layer, tokens, sum(parts), rate)
    row["up_us"], row["down_us"] = parts
    row |= Contest(layer, given, weights, out, clock).measured(peers)
    if weights.mxfp4:
        row["mxfp4_us"] = clock(lambda: layer_of(*weights.mxfp4, activations="1x128"))
    return row


def printed(row: dict[str, Any], peers: list[str]) -> str:
    us = row["us"]

    def against(key: str) -> str:
        return f"{row[key]:8.1f} {row[key] / us:5.2f}x" if key in row else f"{'-':>15}"

    return (
        f"{row['layer']:16s} {row['tokens']:6d} {us:8.1f} {row['products_us']:9.1f} {row['target_us']:8.1f} {us / row['target_us']:6.2f}"
        + "".join(f" {against(peer + '_us')}" for peer in peers)
    )


def chosen_layers(options: argparse.Namespace, named: tuple[Layer, ...]) -> list[Layer]:
    of_models = [] if options.only_random else [layer for layer in named if options.only in layer.name]
    return [*of_models, *random_layers(options.random, options.seed)]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", help="numbers of tokens, as 1,512")
    parser.add_argument("--only", default="", help="the models' layers whose name has this in it, as gpt-oss")
    parser.add_argument("--random", type=int, default=0, help="layers of random sizes in addition")
    parser.add_argument("--only-random", action="store_true", help="without the models' layers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skew", action="store_true", help="one expert is chosen 30 times as often, half of them never")
    parser.add_argument("--peers", default=PEERS, help="others that are timed; empty: none")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: tiny layers, whose times mean nothing")
    parser.add_argument("--json", type=pathlib.Path, help="append a line per row")
    options = parser.parse_args(words)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.exit(2, "moe_layer: no GPU (--device cpu tries the program)\n")
    named = TINY if options.device == "cpu" else LAYERS
    layers = chosen_layers(options, named)
    if not layers:
        parser.exit(2, f"moe_layer: --only: got {options.only}; expected a part of one of {', '.join(layer.name for layer in named)}\n")
    torch.manual_seed(options.seed)
    clock = Clock() if options.device == "cuda" else HostClock()
    peers, fields = [peer for peer in options.peers.split(",") if peer], origin()
    tokens_of = map(int, options.tokens.split(",")) if options.tokens else TOKENS if options.device == "cuda" else TINY_TOKENS
    rate, numbers, told = copy_rate(clock), list(tokens_of), set[str]()
    card = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"{card}, copy {rate / 1e6:.2f} TB/s; times in us; x: time over ours")
    print(f"{'layer':16s} {'tokens':>6} {'layer':>8} {'products':>9} {'target':>8} {'ratio':>6}"
          + "".join(f" {peer:>15}" for peer in peers))  # fmt: skip
    for layer in layers:
        weights = Weights(layer, peers, clock.device)
        for tokens in numbers:
            row = measure(layer, tokens, weights, peers, options.skew, clock, rate)
            print(printed(row, peers), flush=True)
            for peer, why in row["missing"].items():
                if f"{peer}: {why}" not in told:
                    told.add(f"{peer}: {why}")
                    print(f"left out: {peer}: {why}", flush=True)
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps({**fields, "device": card, "copy_bytes_per_us": rate, **row}) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
