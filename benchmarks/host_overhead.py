"""What a call costs the host: batches of 100 on an idle stream of a GPU, from Python, beside an empty CUDA kernel of torch.

python benchmarks/host_overhead.py [--json FILE]

The mark is 7 us a call with the same tensors; with fresh addresses every call (new outputs, and operands in turn) as a
second figure.
"""

import argparse
import json
import statistics
import time

import tilewright as tw
import torch

BATCH, REPEATS = 100, 50


def operands(count, recipes, rows=(128, 512), k=1024):
    """`count` different pairs on the GPU."""
    return [
        [
            tw.Quantized(q.values.cuda(), recipe, q.scales.cuda())
            for q, recipe in (
                (tw.quantize(torch.randn(r, k), recipe), recipe) for r, recipe in zip(rows, recipes, strict=True)
            )
        ]
        for _ in range(count)
    ]


def microseconds(call):
    """Median over batches of the host's time for one of 100 calls, the GPU idle before each batch."""
    times = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for turn in range(BATCH):
            call(turn)
        times.append((time.perf_counter() - begin) / BATCH * 1e6)
    torch.cuda.synchronize()
    return statistics.median(times)


def measure(recipes):
    pairs = operands(BATCH, recipes)
    a, b = pairs[0]
    out = torch.empty(128, 512, dtype=torch.bfloat16, device="cuda")
    outs = [torch.empty_like(out) for _ in range(BATCH)]
    values, other = a.values, b.values
    return {
        "same tensors": lambda _: tw.gemm(a, b, out=out),
        "fresh addresses": lambda turn: tw.gemm(*pairs[turn], out=outs[turn]),
        "new output": lambda _: tw.gemm(a, b),
        "operands described anew": lambda _: tw.gemm(
            tw.Quantized(values, recipes[0], a.scales), tw.Quantized(other, recipes[1], b.scales), out=out
        ),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="append a line for each figure to this file")
    path = parser.parse_args().json
    if not torch.cuda.is_available():
        raise SystemExit("host_overhead: needs a GPU that torch can use")
    device = torch.cuda.get_device_name()
    scratch = torch.zeros(1, device="cuda")
    lines = [("torch", "one element set to zero", microseconds(lambda _: scratch.zero_()))]
    for recipes in (("1x128", "128x128"), ("tensor", "tensor")):
        for what, call in measure(recipes).items():
            lines.append((":".join(recipes), what, microseconds(call)))
    print(f"{device}: host time of a call, median of {REPEATS} batches of {BATCH}")
    for recipe, what, us in lines:
        print(f"{recipe:16}{what:28}{us:7.2f} us")
    if path:
        with open(path, "a") as file:
            for recipe, what, us in lines:
                line = {"figure": "host time of a call", "recipe": recipe, "what": what, "us": round(us, 3)}
                file.write(
                    json.dumps(line | {"batch": BATCH, "device": device, "date": time.strftime("%Y-%m-%d")}) + "\n"
                )


if __name__ == "__main__":
    main()
