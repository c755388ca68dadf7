"""The products of training_peers.py and their targets: sizes of the experts of three models, of weight gradients, and random.

Weights are W [groups, n, k], X [tokens, k], dY [tokens, n]. Per group, forward is Y = X W^T, dgrad dX = dY W, wgrad dW = dY^T X.
"""

from __future__ import annotations

import math
import random
from typing import Any, NamedTuple

from layer_tables import EXPERTS

# Groups of weight gradients begin at multiples of these: 16 for torch's fp8 product, 128 for DeepGEMM.
STEP, ALIGNMENT = 16, 128


class Case(NamedTuple):
    """One product, which all contestants compute from the same matrices."""

    section: str
    name: str  # the name of the weights in tables
    n: int
    k: int
    sizes: tuple[int, ...]  # tokens of each group, as drawn
    mean: int

    @property
    def groups(self) -> int:
        return len(self.sizes)

    @property
    def tokens(self) -> int:
        return sum(self.sizes)

    @property
    def shape(self) -> list[int]:
        """The shape in records: groups, then m, n and k of the product. Where tokens vary, their mean."""
        kind = SECTIONS[self.section].product
        if kind == "wgrad":
            return [self.groups, self.n, self.k, self.mean]
        return [self.groups, self.mean, *((self.n, self.k) if kind == "forward" else (self.k, self.n))]

    def rounded(self, step: int) -> Case:
        """The case with the tokens of each group rounded up to a multiple of `step`."""
        return self._replace(sizes=tuple(-(-size // step) * step for size in self.sizes))


class Target(NamedTuple):
    """A required speed relative to a peer. None: the ratio is shown, without a target."""

    ours: str
    peer: str
    factor: float | None


class Section(NamedTuple):
    product: str  # "forward", "dgrad" or "wgrad"
    words: str
    targets: tuple[Target, ...]


TENSOR_AGAINST_TORCH = (Target("tensor", "torch row", 1.15),)
OF_OTHER_SIZES = (Target("row", "torch row", 1.2), Target("1d1d", "DeepGEMM 1d1d", 1.1))
SECTIONS = {
    "forward": Section("forward", "forward, 8 groups of about 2,048 tokens", TENSOR_AGAINST_TORCH),
    "dgrad": Section("dgrad", "dgrad, 8 groups of about 2,048 tokens", TENSOR_AGAINST_TORCH),
    "wgrad": Section("wgrad", "wgrad", tuple(target._replace(factor=None) for target in OF_OTHER_SIZES)),
    "wgrad-other": Section("wgrad", "wgrad, other sizes", OF_OTHER_SIZES),
    "from-bf16": Section(
        "wgrad", "from bf16 tensors to bf16 dW",
        (Target("fold", "torch bf16", 1.3), Target("1x128:128x128", "torch bf16", 1.2)),
    ),
    "forward-random": Section("forward", "forward, random sizes", TENSOR_AGAINST_TORCH),
    "dgrad-random": Section("dgrad", "dgrad, random sizes", TENSOR_AGAINST_TORCH),
    "wgrad-random": Section("wgrad", "wgrad, random sizes", OF_OTHER_SIZES),
}  # fmt: skip
RANDOM = tuple(name for name in SECTIONS if name.endswith("-random"))

# groups, n and k of the weights, and the mean tokens per group.
WGRAD = ((4, 4096, 7168, 8192), (4, 7168, 2048, 8192), (8, 4096, 7168, 4096), (8, 7168, 2048, 4096),
         (8, 1536, 4096, 1000), (32, 1536, 4096, 500), (8, 5760, 2880, 1000))  # fmt: skip
# Experts of Qwen3-30B, Qwen3-235B, DeepSeek-V2-Lite, Mixtral 8x7B and gpt-oss-120b, with few and with many tokens.
OTHER_WGRAD = ((128, 1536, 2048, 512), (128, 2048, 768, 512), (128, 3072, 4096, 512), (64, 2816, 2048, 768), (64, 2048, 1408, 2048),
               (16, 4096, 1536, 1024), (8, 4096, 14336, 2048), (128, 2880, 2880, 512))  # fmt: skip
FROM_BF16 = WGRAD[:4]


def drawn(mean: int, groups: int, seed: int) -> tuple[int, ...]:
    """Group sizes, drawn as in benchmarks/peers/README.md: seed 1 for rows, seed 3 for k."""
    numbers = random.Random(seed)
    return tuple(int(mean * numbers.uniform(0.7, 1.3)) for _ in range(groups))


def experts(section: str) -> list[Case]:
    sizes = drawn(2048, 8, 1)
    return [Case(section, f"{model}, {part}", n, k, sizes, 2048)
            for model, (outer, inner) in EXPERTS.items()
            for part, n, k in (("gate and up", 2 * inner, outer), ("down", outer, inner))]  # fmt: skip


def gradients(section: str, shapes: tuple[tuple[int, int, int, int], ...]) -> list[Case]:
    return [Case(section, "", n, k, drawn(mean, groups, 3), mean) for groups, n, k, mean in shapes]


def fixed() -> list[Case]:
    return [*experts("forward"), *experts("dgrad"), *gradients("wgrad", WGRAD), *gradients("wgrad-other", OTHER_WGRAD),
            *gradients("from-bf16", FROM_BF16)]  # fmt: skip


MOST_ELEMENTS = 1 << 29  # limit of one matrix: X, dY, or the weights of all groups


def random_case(section: str, numbers: random.Random) -> Case:
    """A case of 2 to 128 groups with uneven tokens, as from a router. n and k are 512 to 8,192 in steps of 16, as torch requires."""

    def between(least: int, most: int) -> int:
        return int(math.exp(numbers.uniform(math.log(least), math.log(most))))

    while True:
        groups, n, k = between(2, 128), between(32, 512) * 16, between(32, 512) * 16
        mean = between(64, 8192)
        popular = [math.exp(numbers.gauss(0, 0.5)) for _ in range(groups)]
        sizes = tuple(max(1, int(mean * groups * p / sum(popular))) for p in popular)
        if max(groups * n * k, sum(sizes) * max(n, k)) <= MOST_ELEMENTS:
            return Case(section, "", n, k, sizes, sum(sizes) // groups)


def random_cases(count: int, seed: int) -> list[Case]:
    """`count` cases per product. They depend only on the seed."""
    return [case for section in RANDOM for numbers in [random.Random(f"{section} {seed}")]
            for case in [random_case(section, numbers) for _ in range(count)]]  # fmt: skip


def smaller(case: Case) -> Case:
    """The case with some hundred elements, for a trial of the program without meaningful times."""
    groups = min(case.groups, 3)
    n, k = 16 * max(1, case.n // 1024), 16 * max(1, case.k // 1024)
    sizes = tuple(max(1, size // 32 % 200) for size in case.sizes[:groups])
    return case._replace(n=n, k=k, sizes=sizes, mean=sum(sizes) // groups)


def words_of_case(case: Case) -> dict[str, Any]:
    """The fields of its lines except the shape. They include the drawn groups, so that a record does not depend on the draw."""
    named = {"weights": case.name} if case.name else {}
    return named | ({"group_sizes": [*case.sizes]} if case.section in RANDOM else {})


def from_json(words: list[Any]) -> Case:
    section, name, n, k, sizes, mean = words
    return Case(section, name, n, k, tuple(sizes), mean)
