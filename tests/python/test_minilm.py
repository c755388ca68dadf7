"""A real model with every recipe: floors for how near quantised embeddings stay to those of fp32."""

import numpy as np
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

import minilm
from encoder import Encoder


@pytest.fixture(scope="module")
def rows():
    return {row.name: row for row in minilm.rows()}


def test_fp32_gives_the_published_similarities():
    """Source: sbert.net, the first example of the quickstart, with this model."""
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    x = Encoder("f32:f32")(texts)
    published = [[1.0000, 0.6660, 0.1046], [0.6660, 1.0000, 0.1411], [0.1046, 0.1411, 1.0000]]
    np.testing.assert_allclose(x @ x.T, published, atol=6e-5)


def test_there_are_enough_sentences():
    texts = minilm.sentences()
    assert 200 <= len(texts) == len(set(texts)) <= 240
    assert all(len(text.split()) > 4 and text[-1] in ".?!" for text in texts)


# recipe: mean cosine, worst cosine, share of sentences that keep their nearest neighbour, weight bytes against fp32
FLOORS = {
    "fp32": (1, 1, 1, 1),
    "fp8, a scale per tensor": (0.996, 0.99, 0.84, 0.2501),
    "fp8, a scale per row": (0.996, 0.99, 0.86, 0.252),
    "fp8, 1x128 : 128x128": (0.996, 0.99, 0.86, 0.2502),
    "MXFP8": (0.993, 0.985, 0.83, 0.258),
    "MXFP4 weights, MXFP8 activations": (0.94, 0.89, 0.65, 0.133),
    "NVFP4 weights, bf16 activations": (0.965, 0.93, 0.76, 0.141),
}


@pytest.mark.parametrize("name", FLOORS)
def test_embeddings_stay_near(rows, name):
    mean, worst, neighbours, size = FLOORS[name]
    row = rows[name]
    assert row.mean_cosine >= mean - 1e-6 and row.worst_cosine >= worst - 1e-6
    assert row.same_neighbour >= neighbours
    assert row.weight_bytes <= size * rows["fp32"].weight_bytes


def test_every_recipe_has_a_floor(rows):
    assert list(rows) == list(FLOORS)


def test_the_table_is_aligned(rows):
    header, *lines = minilm.table(rows.values())
    assert len(lines) == len(minilm.RECIPES) and {len(line) for line in lines} == {len(header)}
