"""A real model with every recipe: how far quantisation moves the embeddings of 216 sentences.

    python examples/minilm/minilm.py

Columns: the cosine of a sentence's embedding to its fp32 embedding (mean and worst), for how many sentences the nearest
other sentence stays the same, bytes of all linear weights with their scales, time to embed all sentences.
"""

import pathlib
import time
from typing import NamedTuple

import numpy as np
from encoder import Encoder

# What a line calls it -> recipe of activations : weights.
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


def sentences():
    lines = (pathlib.Path(__file__).parent / "sentences.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def nearest(embeddings):
    similarity = embeddings @ embeddings.T
    np.fill_diagonal(similarity, -1)
    return similarity.argmax(axis=1)


def rows():
    """A Row for each recipe, as they are done."""
    texts = sentences()
    reference = None
    for name, recipe in RECIPES.items():
        encoder = Encoder(recipe)
        begin = time.perf_counter()
        embeddings = encoder(texts)
        seconds = time.perf_counter() - begin
        reference = embeddings if reference is None else reference
        cosines = (embeddings * reference).sum(axis=1)
        same = (nearest(embeddings) == nearest(reference)).mean()
        yield Row(name, cosines.mean(), cosines.min(), same, encoder.weight_bytes(), seconds)


def table(results):
    """The lines of the table, each as soon as its Row is there."""
    yield f"{'recipe':34}{'mean cosine':>12}{'worst':>9}{'same neighbour':>16}{'weights':>10}{'time':>8}"
    for row in results:
        yield (
            f"{row.name:34}{row.mean_cosine:12.5f}{row.worst_cosine:9.5f}{row.same_neighbour:16.1%}"
            f"{row.weight_bytes / 1e6:7.1f} MB{row.seconds:6.2f} s"
        )


def main():
    print(f"all-MiniLM-L6-v2, {len(sentences())} sentences, every linear layer through Tilewright on the CPU\n")
    for line in table(rows()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
