#!/usr/bin/env python3
"""Measures the share of quantizers in the GPU time of a training step of `tilewright.torch`: forward, backward and SGD, in bf16.

    python benchmarks/training_share.py                      # a table
    python benchmarks/training_share.py --recipes 1x128,row
    python benchmarks/training_share.py --microbatches 4     # per step, inside of reuse_weights()
    python benchmarks/training_share.py --kernels            # also the time of each kernel
    python benchmarks/training_share.py --json FILE          # append a line per layer and recipe to a file

Times come from torch's profiler, summed by kernel name, for the last of a few steps without gaps on the host. The columns:

    of W    the part of the quantizers that makes the copies of the weight for forward and dgrad, measured separately
    copies  kernels that write the values of W or X in another order
    torch   kernels of torch: the optimizer, ends of groups, sums of biases

It takes less than a minute. The exit code is 1 if quantizers take more than 20 % of a step, and 2 without a Hopper GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from origin import origin

TARGET = 0.20
WARM, MEASURED = 3, 5

# Dense layers: tokens, K, N. Grouped layers: groups, tokens per group, K, N.
DENSE = ((8192, 4096, 14336), (8192, 14336, 4096), (8192, 8192, 8192), (2048, 4096, 4096))
GROUPED = ((8, 2048, 7168, 4096), (8, 2048, 2048, 7168), (32, 512, 2048, 1536), (128, 256, 2048, 1536))

# In mangled names each word follows its length.
OURS = re.compile(r"hopper(?:::|\d+)([a-z_]+?)(?=[<(IEv]|$)")
QUANTISERS = {"quantize", "measure", "finish_groups", "clear_scales", "finish_scales", "finish_tensor_scales", "quantize_blocks"}
COPIES = {"transpose_codes", "expand_weights", "decode_codes"}


def kind_of(kernel: str) -> str:
    found = OURS.search(kernel)
    if found is None:
        return "torch"
    return "quantisers" if found[1] in QUANTISERS else "copies" if found[1] in COPIES else "products"


def kernel_times(function: Callable[[], Any]) -> Counter[str]:
    """Microseconds of each kernel in one of several calls, by name."""
    import torch

    for _ in range(WARM):
        function()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as run:
        for _ in range(MEASURED):
            function()
        torch.cuda.synchronize()
    found: Counter[str] = Counter()
    for event in run.profiler.kineto_results.events():
        if event.device_type() == torch.autograd.DeviceType.CUDA:
            found[event.name()] += event.duration_ns() / 1e3 / MEASURED
    return found


def by_kind(times: Counter[str]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for name, microseconds in times.items():
        sums[kind_of(name)] += microseconds
    return sums


def ends_of(groups: int, tokens: int) -> Any:
    """Uneven group sizes, multiples of 16, as from a router."""
    import torch

    torch.manual_seed(0)
    sizes = torch.multinomial(torch.ones(groups), tokens, replacement=True).bincount(minlength=groups) // 16 * 16
    sizes[-1] += tokens - sizes.sum()
    return sizes.cumsum(0).int().cuda()


def step_of(layer: Any, x: Any, given: list[Any], microbatches: int) -> Callable[[], None]:
    import tilewright.torch
    import torch

    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-5, foreach=True)
    with torch.no_grad():
        dy = torch.randn_like(layer(x, *given))

    def step() -> None:
        with tilewright.torch.reuse_weights() if microbatches > 1 else contextlib.nullcontext():
            for _ in range(microbatches):
                layer(x, *given).backward(dy)
        optimizer.step()
        optimizer.zero_grad()
        x.grad = None

    return step


def measured(shape: tuple[int, ...], recipe: str, microbatches: int) -> tuple[Counter[str], Counter[str]]:
    """The kernels of a step, and the kernels that copy the weight."""
    import tilewright.torch
    import torch
    from tilewright.torch._weights import copies_of

    *groups, tokens, k, n = shape
    options: dict[str, Any] = {"bias": False, "recipe": recipe, "device": "cuda", "dtype": torch.bfloat16}
    if groups:
        tokens *= groups[0]
        layer: Any = tilewright.torch.GroupedLinear(groups[0], k, n, **options)
    else:
        layer = tilewright.torch.Linear(k, n, **options)
    x = torch.randn(tokens, k, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    given = [ends_of(groups[0], tokens)] if groups else []
    step = kernel_times(step_of(layer, x, given, microbatches))
    return step, kernel_times(lambda: copies_of(layer.weight, recipe, True, True))


def line_of(layer: str, recipe: str, kernels: Counter[str], of_weight: Counter[str]) -> dict[str, Any]:
    """A line of the record. Times are microseconds per step."""
    times, step = by_kind(kernels), sum(kernels.values())
    figures = {"us": step, "products_us": times["products"], "quantizers_us": times["quantisers"],
               "of_weight_us": by_kind(of_weight)["quantisers"], "copies_us": times["copies"], "torch_us": times["torch"]}  # fmt: skip
    share = times["quantisers"] / step
    return {
        "figure": "share of quantizers",
        "layer": layer,
        "recipe": recipe,
        **{name: round(figure, 1) for name, figure in figures.items()},
        "share": round(share, 4),
        "target": TARGET,
        "reached": share <= TARGET,
    }


def lines(recipes: list[str], microbatches: int, shows_kernels: bool) -> Iterator[dict[str, Any]]:
    """The lines of the record; each is printed when it has been measured."""
    for shape in (*DENSE, *GROUPED):
        name = " x ".join(map(str, shape[:-1])) + f" -> {shape[-1]}"
        for recipe in recipes:
            kernels, of_weight = measured(shape, recipe, microbatches)
            line = line_of(name, recipe, kernels, of_weight)
            figures = [figure for key, figure in line.items() if key == "us" or key.endswith("_us")]
            print(f"{name:32}{recipe:8}" + "".join(f"{figure:12.0f}" for figure in figures) + f"{line['share']:12.1%}", flush=True)
            for kernel, microseconds in kernels.most_common() if shows_kernels else ():
                print(f"    {microseconds:10.1f}  {kind_of(kernel):12}{kernel[:160]}")
            yield line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", default="1x128,row,tensor,fold")
    parser.add_argument("--microbatches", type=int, default=1, help="of a step")
    parser.add_argument("--kernels", action="store_true", help="the times of all kernels too")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="append the lines to this file")
    chosen = parser.parse_args()
    import torch

    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        print("training_share: needs a Hopper GPU", file=sys.stderr)
        return 2
    print(f"{torch.cuda.get_device_name()}, {chosen.microbatches} microbatches a step, microseconds")
    head = ("step", "products", "quantisers", "of W", "copies", "torch", "share")
    print(f"{'':32}{'':8}" + "".join(f"{word:>12}" for word in head))
    found = list(lines(chosen.recipes.split(","), chosen.microbatches, chosen.kernels))
    if chosen.json:
        shared = {"microbatches": chosen.microbatches, "device": torch.cuda.get_device_name(), "torch": torch.__version__} | origin()
        with chosen.json.open("a") as file:
            file.writelines(json.dumps(line | shared) + "\n" for line in found)
    print(f"at most {max(line['share'] for line in found):.1%} (target: {TARGET:.0%})")
    return int(not all(line["reached"] for line in found))


if __name__ == "__main__":
    sys.exit(main())
