"""Times a training step of one layer and of torch's bf16 layer: forward, backward and SGD(foreach), with bf16 weights.

    python benchmarks/training_step.py                  eight layers, layers of experts, and host time
    python benchmarks/training_step.py --json FILE      append lines to a file

- A step is the time between CUDA events around 12 steps, divided by 12; the median of three. The optimizer clears no
  gradients: each step drops them.
- Groups have random sizes that are multiples of 16, from one seed.
- A layer of experts is `Experts` with its routing, forward and backward without the optimizer. torch's has two bf16
  `_grouped_mm`, and compiled SwiGLU and sum. Each token chooses its experts at random.
- Host time is that of forward and backward on tensors so small that the GPU waits for the host; the best of five batches.
- "captured" is the same step as the replay of a CUDA graph, where the host plays no part.
- "speed" is torch's time over ours. Targets are in the column `target`; the best recipe of a layer counts.

The exit code is 1 if a target is missed, and 2 without a GPU.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from origin import origin
from tilewright.torch import Experts, GroupedLinear, Linear

RECIPES = ("1x128", "1x128:128x128", "row", "tensor", "fold")
STEPS, RUNS, WARM = 12, 3, 4
HOST_STEPS, HOST_RUNS, HOST_TARGET = 300, 5, 150.0


class Layer(NamedTuple):
    groups: int  # 0: dense
    tokens: int  # of a group
    k: int
    n: int
    target: float

    @property
    def name(self) -> str:
        tokens = f"{self.groups} x {self.tokens}" if self.groups else str(self.tokens)
        return f"{tokens} x {self.k} -> {self.n}"


LAYERS = (
    Layer(0, 8192, 4096, 14336, 1.55),
    Layer(0, 8192, 14336, 4096, 1.55),
    Layer(0, 8192, 8192, 8192, 1.55),
    Layer(0, 2048, 4096, 4096, 1.3),
    Layer(8, 2048, 7168, 4096, 1.3),
    Layer(8, 2048, 2048, 7168, 1.3),
    Layer(32, 512, 2048, 1536, 1.2),
    Layer(128, 256, 2048, 1536, 1.1),
)


class ExpertsLayer(NamedTuple):
    experts: int
    rows: int  # of an expert in the mean
    hidden: int
    inner: int
    target: float
    top: int = 8

    @property
    def name(self) -> str:
        return f"{self.experts} experts x {self.rows}, {self.hidden}, {self.inner}"


EXPERTS = (ExpertsLayer(8, 2048, 4096, 1536, 1.35, 2), ExpertsLayer(128, 256, 2048, 768, 1.15))


class TorchExperts(torch.nn.Module):
    """A layer of experts of torch's grouped bf16 products."""

    def __init__(self, layer: ExpertsLayer):
        super().__init__()
        shapes = (layer.experts, 2 * layer.inner, layer.hidden), (layer.experts, layer.hidden, layer.inner)
        self.up, self.down = (torch.nn.Parameter(torch.randn(shape, device="cuda", dtype=torch.bfloat16) * 0.02) for shape in shapes)
        self.activate = torch.compile(lambda z: torch.nn.functional.silu(z[:, : layer.inner]) * z[:, layer.inner :], dynamic=False)
        self.combine = torch.compile(
            lambda y, place, weights: (y[place].view(*weights.shape, -1) * weights[..., None]).sum(1).to(torch.bfloat16), dynamic=False
        )

    def forward(self, x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        flat = ids.flatten()
        order = torch.argsort(flat, stable=True)
        counts = torch.zeros(self.up.shape[0], dtype=torch.int64, device="cuda").scatter_add_(0, flat, torch.ones_like(flat))
        ends = counts.cumsum(0).to(torch.int32)
        z = torch._grouped_mm(x[order // ids.shape[1]], self.up.transpose(1, 2), offs=ends)
        y = torch._grouped_mm(self.activate(z), self.down.transpose(1, 2), offs=ends)
        place = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device="cuda"))
        made: torch.Tensor = self.combine(y, place, weights)
        return made


def expert_inputs(layer: ExpertsLayer) -> list[torch.Tensor]:
    torch.manual_seed(0)
    tokens = layer.experts * layer.rows // layer.top
    x = torch.randn(tokens, layer.hidden, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    weights, ids = torch.randn(tokens, layer.experts, device="cuda").softmax(-1).topk(layer.top)
    return [x, ids, weights.requires_grad_()]


class TorchGrouped(torch.nn.Module):
    """A layer of torch's grouped bf16 product."""

    def __init__(self, groups: int, k: int, n: int):
        super().__init__()
        weight = torch.randn(groups, n, k, device="cuda", dtype=torch.bfloat16) * k**-0.5
        self.weight = torch.nn.Parameter(weight)

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = torch._grouped_mm(x, self.weight.transpose(1, 2), offs=ends)
        return made


def torch_layer(layer: Layer) -> torch.nn.Module:
    if layer.groups:
        return TorchGrouped(layer.groups, layer.k, layer.n)
    return torch.nn.Linear(layer.k, layer.n, bias=False, device="cuda", dtype=torch.bfloat16)


def our_layer(layer: Layer, recipe: str) -> torch.nn.Module:
    how: dict[str, Any] = {"recipe": recipe, "device": "cuda", "dtype": torch.bfloat16}
    if layer.groups:
        return GroupedLinear(layer.groups, layer.k, layer.n, **how)
    return Linear(layer.k, layer.n, bias=False, **how)


def inputs(layer: Layer) -> list[torch.Tensor]:
    """The tokens, and with groups their ends."""
    torch.manual_seed(0)
    tokens = max(layer.groups, 1) * layer.tokens
    x = torch.randn(tokens, layer.k, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    if not layer.groups:
        return [x]
    drawn = torch.multinomial(torch.ones(layer.groups), tokens, replacement=True)
    sizes = drawn.bincount(minlength=layer.groups) // 16 * 16
    sizes[-1] += tokens - sizes.sum()
    return [x, sizes.cumsum(0).int().cuda()]


def step_of(module: torch.nn.Module, given: list[torch.Tensor], optimizes: bool) -> Callable[[], None]:
    parameters = list(module.parameters())
    optimizer = torch.optim.SGD(parameters, lr=1e-5, foreach=True)
    dy = torch.randn_like(module(*given))

    def step() -> None:
        module(*given).backward(dy)
        if optimizes:
            optimizer.step()
        for tensor in given:
            tensor.grad = None
        for parameter in parameters:
            parameter.grad = None

    return step


def loop_time(step: Callable[[], None]) -> float:
    times = []
    for _ in range(RUNS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in "be")
        torch.cuda.synchronize()
        begin.record()
        for _ in range(STEPS):
            step()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / STEPS * 1e3)
    return statistics.median(times)


def step_time(module: torch.nn.Module, given: list[torch.Tensor], optimizes: bool = True) -> float:
    step = step_of(module, given, optimizes)
    for _ in range(WARM):
        step()
    return loop_time(step)


def captured_time(module: torch.nn.Module, given: list[torch.Tensor]) -> float:
    """The step with SGD as a graph's replay. Gradients stay where the capture put them."""
    parameters = list(module.parameters())
    optimizer = torch.optim.SGD(parameters, lr=1e-5, foreach=True)
    dy = torch.randn_like(module(*given))
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for _ in range(WARM):
            for tensor in [*given, *parameters]:
                tensor.grad = None
            module(*given).backward(dy)
            optimizer.step()
        for tensor in [*given, *parameters]:
            tensor.grad = None
        with torch.cuda.graph(graph, stream=stream):
            module(*given).backward(dy)
            optimizer.step()
    time_of_step = loop_time(graph.replay)
    for tensor in given:
        tensor.grad = None
    return time_of_step


def host_time(module: torch.nn.Module, given: list[torch.Tensor]) -> float:
    step = step_of(module, given, False)
    best = float("inf")
    for _ in range(HOST_RUNS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(HOST_STEPS):
            step()
        best = min(best, (time.perf_counter() - begin) / HOST_STEPS * 1e6)
    torch.cuda.synchronize()
    return best


def reported(figure: str, layer: Layer | ExpertsLayer, peer: float, ours: dict[str, float]) -> dict[str, Any]:
    """A row of the record, which is printed too."""
    best = min(ours, key=lambda recipe: ours[recipe])
    speed = peer / ours[best]
    name = layer.name + (", captured" if figure.startswith("captured") else "")
    print(f"{name:34}{peer:10.0f}{ours[best]:10.0f}  {best:14}{speed:7.2f}{layer.target:8.2f}", flush=True)
    return {
        "figure": figure,
        "layer": layer.name,
        "torch_bf16_us": round(peer, 1),
        "us": ours,
        "speed": round(speed, 3),
        "target": layer.target,
        "reached": speed >= layer.target,
    }


def steps() -> Iterator[dict[str, Any]]:
    for layer in LAYERS:
        given = inputs(layer)
        peer = step_time(torch_layer(layer), given)
        ours = {recipe: round(step_time(our_layer(layer, recipe), given), 1) for recipe in RECIPES}
        yield reported("training step", layer, peer, ours)
        peer = captured_time(torch_layer(layer), given)
        ours = {recipe: round(captured_time(our_layer(layer, recipe), given), 1) for recipe in RECIPES}
        yield reported("captured training step", layer, peer, ours)


def expert_steps() -> Iterator[dict[str, Any]]:
    for layer in EXPERTS:
        given = expert_inputs(layer)
        peer = step_time(TorchExperts(layer), given, optimizes=False)
        how: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
        ours = {}
        for recipe in RECIPES:
            experts = Experts(layer.experts, layer.hidden, layer.inner, recipe=recipe, **how)
            ours[recipe] = round(step_time(experts, given, optimizes=False), 1)
        yield reported("forward and backward of experts", layer, peer, ours)


def hosts() -> Iterator[dict[str, Any]]:
    small = Layer(0, 128, 256, 256, 0)
    grouped = Layer(4, 32, 256, 256, 0)
    for layer in (small, grouped):
        given = inputs(layer)
        peer = host_time(torch_layer(layer), given)
        ours = {recipe: round(host_time(our_layer(layer, recipe), given), 1) for recipe in RECIPES}
        best = min(ours.values())
        print(f"{'host, ' + layer.name:34}{peer:10.0f}{best:10.0f}  {'':14}{peer / best:7.2f}{HOST_TARGET:6.0f} us", flush=True)
        yield {
            "figure": "host time of a layer",
            "layer": layer.name,
            "torch_bf16_us": round(peer, 1),
            "us": ours,
            "target_us": HOST_TARGET,
            "reached": best <= HOST_TARGET,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("steps", "experts", "host"), help="one of the three parts")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="append the lines to this file")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(2, "training_step: no GPU that torch can use\n")
    print(f"{torch.cuda.get_device_name()}; us")
    print(f"{'layer':34}{'torch bf16':>10}{'ours':>10}  {'recipe':14}{'speed':>7}{'target':>8}")
    lines = []
    for part, make in (("steps", steps), ("experts", expert_steps), ("host", hosts)):
        if arguments.only in (None, part):
            lines += list(make())
    if arguments.json:
        shared = {"device": torch.cuda.get_device_name(), "torch": torch.__version__} | origin()
        with arguments.json.open("a") as file:
            file.writelines(json.dumps(line | shared) + "\n" for line in lines)
    raise SystemExit(0 if all(line["reached"] for line in lines) else 1)


if __name__ == "__main__":
    main()
