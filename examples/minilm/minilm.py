"""Measures how far quantization moves the embeddings of 216 sentences, with a real model and each recipe.

    python examples/minilm/minilm.py
    python examples/minilm/minilm.py --device cuda      # products on a Hopper GPU, with torch, compared with the CPU's bits

The columns are:

    mean cosine, worst  cosine of the embedding of a sentence to its fp32 embedding
    same neighbour      share of sentences whose nearest other sentence stays the same
    weights             bytes of all linear weights with their scales
    time                time to embed all sentences (CPU only)
    wrong bits          elements of all products whose bits differ from the CPU's bit-exact arithmetic (GPU only)

On a GPU the exit code is 1 if any bits differ. There is no time on a GPU, because most of it would be the CPU's.
"""

import argparse
import pathlib
import sys
import time
from typing import NamedTuple

import numpy as np
from encoder import Encoder

# The name in the table, and the recipe as activations : weights.
RECIPES = {
    "fp32": "f32:f32",
    "fp8, a scale per tensor": "tensor:tensor",
    "fp8, a scale per row": "row:row",
    "fp8, 1x128 : 128x128": "1x128:128x128",
    "MXFP8": "mxfp8:mxfp8",
    "MXFP4 weights, MXFP8 activations": "mxfp8:mxfp4",
    "NVFP4 weights, bf16 activations": "bf16:nvfp4",
}


class Row(NamedTuple):
    name: str
    mean_cosine: float
    worst_cosine: float
    same_neighbour: float
    weight_bytes: int
    seconds: float
    wrong_bits: int | None  # None without a GPU


def sentences():
    lines = (pathlib.Path(__file__).parent / "sentences.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def nearest(embeddings):
    similarity = embeddings @ embeddings.T
    np.fill_diagonal(similarity, -1)
    return similarity.argmax(axis=1)


def rows(device="cpu"):
    """Yields a Row per recipe. fp32 always runs on the CPU."""
    texts = sentences()
    reference = None
    for name, recipe in RECIPES.items():
        on_gpu = device == "cuda" and recipe != "f32:f32"
        encoder = Encoder(recipe, "cuda" if on_gpu else "cpu")
        begin = time.perf_counter()
        embeddings = encoder(texts)
        seconds = time.perf_counter() - begin
        reference = embeddings if reference is None else reference
        cosines = (embeddings * reference).sum(axis=1)
        same = (nearest(embeddings) == nearest(reference)).mean()
        yield Row(name, cosines.mean(), cosines.min(), same, encoder.weight_bytes(), seconds, encoder.wrong_bits() if on_gpu else None)


def table(results, device="cpu"):
    """Yields the lines of the table, each as soon as its Row exists."""
    last = f"{'time':>8}" if device == "cpu" else f"{'wrong bits':>12}"
    yield f"{'recipe':34}{'mean cosine':>12}{'worst':>9}{'same neighbour':>16}{'weights':>10}{last}"
    for row in results:
        wrong = f"{'CPU' if row.wrong_bits is None else row.wrong_bits:>12}"
        yield (
            f"{row.name:34}{row.mean_cosine:12.5f}{row.worst_cosine:9.5f}{row.same_neighbour:16.1%}"
            f"{row.weight_bytes / 1e6:7.1f} MB" + (f"{row.seconds:6.2f} s" if device == "cpu" else wrong)
        )


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda: a Hopper GPU, with torch")
    device = parser.parse_args(words).device
    where = "the CPU" if device == "cpu" else "the GPU"
    print(f"all-MiniLM-L6-v2, {len(sentences())} sentences, every linear layer through Tilewright on {where}\n")
    done = []
    for line in table((done.append(row) or row for row in rows(device)), device):
        print(line, flush=True)
    return any(row.wrong_bits for row in done)


if __name__ == "__main__":
    sys.exit(main())
