"""Computes the experts of one layer of gpt-oss from its checkpoint, with packed MXFP4 weights, and checks each product.

    python examples/gpt_oss_layer/gpt_oss_layer.py gpt-oss-20b/ --layer 0
    python examples/gpt_oss_layer/gpt_oss_layer.py gpt-oss-20b/ --tokens 1 64 --device cuda

Random bf16 tokens are routed to their experts. They go through up (gate and up in one product), SwiGLU and down: `tw.moe`
computes all of it in one call. Its two products are also computed one by one, so that checks 2 to 4 of docs/numerics.md judge
each. The columns are:

    rows           rows of all experts together
    wrong bits     elements with wrong bits; `fast` arithmetic does not guarantee bits
    error / bound  the largest ratio of an error to its bound
    relL2          the relative error of the whole product
    relL2 / limit  the largest ratio of a relative error to its limit

The exit code is 1 if a product fails a check.
"""

import argparse
import sys
from typing import NamedTuple

import ml_dtypes
import numpy as np
import tilewright as tw
from checkpoint import read_layer
from gates import Part, Verdict, judge

BF16 = ml_dtypes.bfloat16
LIMIT, SHARPNESS = 7.0, 1.702  # the constants of SwiGLU in gpt-oss


class Result(NamedTuple):
    tokens: int
    product: str
    shape: tuple[int, int, int]  # rows, n, k
    arithmetic: str
    verdict: Verdict


def on_device(array, device):
    if device == "cpu":
        return array
    import torch

    if array.dtype == BF16:
        return torch.from_numpy(np.array(array).view(np.int16)).view(torch.bfloat16).to(device)
    return torch.from_numpy(np.array(array)).to(device)


def on_host(array):
    return array if isinstance(array, np.ndarray) else array.cpu().float().numpy().astype(BF16)


class Product:
    """One grouped product: bf16 rows [rows, k], sorted by expert, times the weights of the expert, plus its bias."""

    def __init__(self, name, experts, device):
        self.name, self.experts, self.device = name, experts, device
        packed = tw.pack_weights(tw.Quantized(experts.codes, "mxfp4", experts.scales), "bf16")
        self.weights = packed if device == "cpu" else tw.PackedWeights(on_device(packed.data, device), packed.header)
        self.bias = on_device(experts.bias, device)

    def arithmetics(self):
        """The arithmetics to test, with their options. A GPU has only one.

        `invariant` forbids plans that split k, so that the bits are the same on all machines.
        """
        invariant = {"invariant": True}
        return {"bit_exact": invariant} if self.device != "cpu" else {"fast": {}, "bit_exact": invariant}

    def __call__(self, x, ends, **options):
        x, ends = on_device(x, self.device), on_device(np.array(ends, np.int32), self.device)
        return on_host(tw.grouped_gemm(x, self.weights, offsets=ends, bias=self.bias, **options))

    def parts(self, x, ends, d):
        """The operands and the result of each expert that has rows."""
        begins = [0, *ends[:-1]]
        for expert, rows in enumerate(map(slice, begins, ends)):
            if rows.start < rows.stop:
                bias = self.experts.bias[expert].astype(np.float64)
                yield Part(x[rows].astype(np.float64), self.experts.real(expert), bias, d[rows].astype(np.float64))


def swiglu(gate_and_up):
    """SwiGLU in float32, for columns that alternate between gate and up."""
    gate = np.minimum(gate_and_up[:, 0::2].astype(np.float32), LIMIT)
    up = np.clip(gate_and_up[:, 1::2].astype(np.float32), -LIMIT, LIMIT)
    return ((up + 1) * gate / (1 + np.exp(-SHARPNESS * gate))).astype(BF16)


def choose(layer, tokens):
    """The experts of each token and their weights, [tokens, experts per token]."""
    scores = tokens.astype(np.float32) @ layer.router.T + layer.router_bias
    chosen = np.argsort(-scores, axis=1, kind="stable")[:, : layer.experts_per_token]
    weights = np.exp(np.take_along_axis(scores, chosen, axis=1))
    return chosen, weights / weights.sum(axis=1, keepdims=True)


def through_experts(products, tokens, chosen, weights):
    """The layer's output [tokens, hidden], in one call."""
    up, down = products
    device = up.device
    return on_host(
        tw.moe(
            on_device(tokens, device),
            up.weights,
            down.weights,
            experts=on_device(chosen, device),
            weights=on_device(weights, device),
            alpha=SHARPNESS,
            beta=1.0,
            limit=LIMIT,
            interleaved=True,
            up_bias=up.bias,
            down_bias=down.bias,
        )
    )


def forward(layer, products, tokens):
    """The layer's output [tokens, hidden], and the Result of each product."""
    results = []
    chosen, weights = choose(layer, tokens)
    output = through_experts(products, tokens, chosen, weights)
    routed = tw.route(chosen, len(layer.router))
    ends = routed.ends.tolist()
    x = tokens[routed.sources // layer.experts_per_token]
    for product in products:
        for arithmetic, options in product.arithmetics().items():
            d = product(x, ends, **options)
            verdict = judge(product.parts(x, ends, d), arithmetic == "bit_exact")
            results.append(Result(len(tokens), product.name, (len(x), d.shape[1], x.shape[1]), arithmetic, verdict))
        x = swiglu(d) if product.name == "up" else d
    return output, results


def line(result):
    rows, n, k = result.shape
    wrong, bound, relative, worst = result.verdict
    return (
        f"{result.tokens:6}  {result.product:7}  {rows:5}  {n:5}  {k:5}  {result.arithmetic:10}"
        f"  {'-' if wrong is None else wrong:>10}  {bound:13.3f}  {relative:9.2e}  {worst:13.3f}"
        f"  {'passes' if result.verdict.passes else 'FAILS'}"
    )


def parsed(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="a folder with model.safetensors.index.json and config.json")
    parser.add_argument("--layer", type=int, default=0)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 7, 64])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda: a Hopper GPU, with torch")
    return parser.parse_args(words)


def main(words=None):
    arguments = parsed(words)
    layer = read_layer(arguments.checkpoint, arguments.layer)
    products = [Product("up", layer.up, arguments.device), Product("down", layer.down, arguments.device)]
    random = np.random.default_rng(0)
    print("tokens  product   rows      n      k  arithmetic  wrong bits  error / bound   relL2     relL2 / limit")
    passes = True
    for count in arguments.tokens:
        tokens = random.standard_normal((count, layer.router.shape[1])).astype(BF16)
        _, results = forward(layer, products, tokens)
        passes = passes and all(result.verdict.passes for result in results)
        for result in results:
            print(line(result), flush=True)
    return 0 if passes else 1


if __name__ == "__main__":
    sys.exit(main())
