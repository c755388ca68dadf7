"""The products of `make gpu-contest`: the lists of peers and peers-ragged, random shapes, and the layers of twelve models.

Each case belongs to one class of shapes, and each class has a target: the speed of the drop-in, in times of DeepGEMM's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import peer_shapes
from model_layers import MODELS, Layer, Model, layers
from user_sizes import Sizes, random_sizes

OPERATIONS = {"dense": "dense", "contiguous": "m_grouped_contiguous", "masked": "m_grouped_masked"}
DROP_IN, NATIVE, DEEP_GEMM = "drop-in", "native", "DeepGEMM"
BLAS_TENSOR, BLAS_BLOCKS, TORCH_ROWS = "cuBLASLt tensor", "cuBLASLt blocks", "torch rows"
PEERS = {"dense": (DEEP_GEMM, BLAS_TENSOR, BLAS_BLOCKS, TORCH_ROWS), "contiguous": (DEEP_GEMM, TORCH_ROWS), "masked": (DEEP_GEMM,)}
WORST = 0.95  # the target of every single shape


class ShapeClass(NamedTuple):
    words: str
    target: float | None  # of the geometric mean


CLASSES = {
    "few": ShapeClass("dense m = 64, 128", 1.06),
    "1024": ShapeClass("dense m = 1024", 1.06),
    "4096": ShapeClass("dense m >= 4096", 1.00),
    "ragged": ShapeClass("dense ragged", 1.23),
    "contiguous": ShapeClass("contiguous", 1.06),
    "masked": ShapeClass("masked", 1.05),
    "random": ShapeClass("random shapes", None),
    "models": ShapeClass("layers of models", None),
}


class Case(NamedTuple):
    """One product, which all contestants compute from the same values."""

    shape_class: str
    name: str  # of the weights; empty for the lists
    operation: str  # "dense", "contiguous" or "masked"
    shape: list[int]  # as records have it: see benchmarks/peers/README.md
    rows: list[int]  # of each group

    @property
    def n(self) -> int:
        return self.shape[-2]

    @property
    def k(self) -> int:
        return self.shape[-1]

    @property
    def words(self) -> str:
        return f"{self.operation} {' x '.join(map(str, self.shape))}" + (f", {self.name}" if self.name else "")

    @property
    def fields(self) -> dict[str, Any]:
        """Those of its lines in a record. Random groups are in it, so that a record does not depend on the draw."""
        named = {"weights": self.name} if self.name else {}
        drawn = {"group_sizes": self.rows} if self.shape_class == "random" and self.operation != "dense" else {}
        return {"class": self.shape_class, "op": OPERATIONS[self.operation], "shape": self.shape, **named, **drawn}


def group_rows(operation: str, shape: tuple[int, ...] | list[int]) -> list[int]:
    """The rows of each group, drawn as in benchmarks/peers/README.md."""
    if operation == "dense":
        return [shape[0]]
    numbers = random.Random(1 if operation == "contiguous" else 2)
    mean = shape[-3]
    sizes = [int(mean * numbers.uniform(0.7, 1.3)) for _ in range(shape[0])]
    return [min(size, shape[1]) for size in sizes] if operation == "masked" else sizes


def class_of(operation: str, suite: str, shape: tuple[int, ...]) -> str:
    if operation != "dense":
        return operation
    return "ragged" if suite == "peers-ragged" else "few" if shape[0] <= 128 else "1024" if shape[0] < 4096 else "4096"


def listed() -> Iterator[Case]:
    for operation in OPERATIONS:
        for suite in peer_shapes.suites():
            for shape in peer_shapes.shapes(suite, OPERATIONS[operation]):
                yield Case(class_of(operation, suite, shape), "", operation, list(shape), group_rows(operation, shape))


def random_case(operation: str, sizes: Sizes) -> Case:
    heads = {"dense": [], "contiguous": [sizes.groups], "masked": [sizes.groups, sizes.max_m]}
    shape = [*heads[operation], sizes.m, sizes.n, sizes.k]
    return Case("random", "", operation, shape, [*sizes.group_sizes] or [sizes.m])


def random_cases(count: int, seed: int) -> Iterator[Case]:
    """A third of `count` for each operation: the first of `tilewright bench --random N --seed S`."""
    each, more = divmod(count, len(OPERATIONS))
    for i, operation in enumerate(OPERATIONS):
        yield from (random_case(operation, sizes) for sizes in random_sizes(operation, each + (i < more), seed))


# Rows of a dense layer: decoding of 32 requests, and prefill. The lists have neither.
DENSE_ROWS = (32, 2048)
# Tokens that all experts share: contiguous groups in prefill, masked ones in decoding.
PREFILL_TOKENS, DECODE_TOKENS = 8192, 256
LEAST_ROOM = 64


def expert_cases(name: str, layer: Layer) -> Iterator[Case]:
    assert layer.experts
    groups = layer.experts.count // layer.experts.ranks
    for operation, tokens in (("contiguous", PREFILL_TOKENS), ("masked", DECODE_TOKENS)):
        mean = max(1, tokens * layer.experts.top_k // layer.experts.count)
        room = [max(LEAST_ROOM, 2 * mean)] if operation == "masked" else []
        shape = [groups, *room, mean, layer.n, layer.k]
        rows = [max(1, size) for size in group_rows(operation, shape)]
        yield Case("models", name, operation, shape, rows)


def layer_cases(model: Model, layer: Layer) -> Iterator[Case]:
    name = f"{model.name}, {layer.name}"
    if layer.experts:
        yield from expert_cases(name, layer)
    else:
        yield from (Case("models", name, "dense", [m, layer.n, layer.k], [m]) for m in DENSE_ROWS)


def model_cases() -> Iterator[Case]:
    """A product that two models share has one case, with the name of the first."""
    seen = set()
    for model in MODELS:
        for case in (case for layer in layers(model) for case in layer_cases(model, layer)):
            key = (case.operation, *case.shape)
            if key not in seen:
                seen.add(key)
                yield case


def all_cases(random_count: int, seed: int) -> list[Case]:
    return [*listed(), *random_cases(random_count, seed), *model_cases()]


def limited(cases: list[Case], only: list[str], limit: int | None) -> list[Case]:
    """The first `limit` cases of each class in `only`, in the order of the classes."""
    return [case for name in only for case in [case for case in cases if case.shape_class == name][:limit]]


def smaller(case: Case) -> Case:
    """The case with some hundred elements, for a trial of the program without meaningful times."""
    rows = [max(1, size // 64 % 100) for size in case.rows[:3]]
    n, k = 16 * max(1, case.n // 1024), 128 * max(1, case.k // 4096)
    heads = {"dense": [], "contiguous": [len(rows)], "masked": [len(rows), 128]}[case.operation]
    return case._replace(shape=[*heads, sum(rows) // len(rows), n, k], rows=rows)


def from_json(words: list[Any]) -> Case:
    return Case(*words)
