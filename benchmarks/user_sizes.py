"""Random sizes as users have them, the same as `tilewright bench --random N --seed S` draws.

A port of src/check/user_sizes.cpp, so that a contest on a machine without the program has the same shapes. A test compares it
with the shapes in benchmarks/results/h200_random.jsonl.
"""

from __future__ import annotations

import bisect
import math
from typing import NamedTuple

MASK = (1 << 64) - 1
EVEN_STEP = 64
MOST_BYTES = 1 << 31
LEAST_WEIGHT = 512
N_STEP, K_STEP = 8, 16


def mixed(x: int) -> int:
    """The finaliser of splitmix64."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


class Random:
    """check::Random of src/check/random.h."""

    def __init__(self, seed: int):
        self.state = mixed(seed)

    def bits(self) -> int:
        value = mixed(self.state)
        self.state = (self.state + 1) & MASK
        return value

    def up_to(self, limit: int) -> int:
        return 0 if limit <= 0 else self.bits() % (limit + 1)

    def unit(self) -> float:
        return (self.bits() >> 11) * 2.0**-53

    def normal(self) -> float:
        radius = math.sqrt(-2 * math.log(1 - self.unit()))
        return radius * math.cos(2 * math.pi * self.unit())


class Sizes(NamedTuple):
    groups: int
    m: int  # dense: rows; else the mean of the groups, at least 1
    n: int
    k: int
    max_m: int  # masked only: the capacity of a group
    group_sizes: tuple[int, ...]


def any_size(random: Random, least: float, most: float, step: int) -> int:
    """From `least` to `most` in steps. Each order of magnitude is equally likely."""
    value = least * math.pow(most / least, random.unit())
    return max(1, math.floor(value / step + 0.5)) * step


def odd_size(random: Random, least: float, most: float, step: int) -> int:
    """The same, but no multiple of 64."""
    while True:
        size = any_size(random, least, most, step)
        if size % EVEN_STEP:
            return size


def routed_rows(groups: int, tokens: int, choices: int, skew: float, random: Random) -> tuple[int, ...]:
    """The rows of each group if each token takes `choices` different groups of uneven popularity."""
    if choices >= groups:
        return (tokens,) * groups
    ends, total = [], 0.0
    for _ in range(groups):
        total += math.exp(skew * random.normal())
        ends.append(total)
    rows, inner = [0] * groups, ends[:-1]
    for _ in range(tokens):
        taken: set[int] = set()
        while len(taken) < choices:
            taken.add(bisect.bisect_right(inner, total * random.unit()))
        for group in taken:
            rows[group] += 1
    return tuple(rows)


def weight(random: Random, odd: bool, most_n: int, most_k: int) -> tuple[int, int]:
    if odd:
        return odd_size(random, LEAST_WEIGHT, most_n, N_STEP), odd_size(random, LEAST_WEIGHT, most_k, K_STEP)
    return any_size(random, LEAST_WEIGHT, most_n, EVEN_STEP), any_size(random, LEAST_WEIGHT, most_k, EVEN_STEP)


def drawn(operation: str, random: Random) -> Sizes:
    odd = random.up_to(3) == 0
    if operation == "dense":
        m = odd_size(random, 1, 4096, 1) if odd else any_size(random, 1, 4096, 1)
        n, k = weight(random, odd, 32768, 16384)
        return Sizes(1, m, n, k, 0, ())
    groups = any_size(random, 2, 128, 1)
    n, k = weight(random, odd, 8192, 8192)
    choices = min((1, 2, 4, 6, 8)[random.up_to(4)], groups)
    tokens = any_size(random, 1, 16384, 1)
    sizes = routed_rows(groups, tokens, choices, 1.5 * random.unit(), random)
    room = max(64, 1 << (max(sizes) - 1).bit_length()) if operation == "masked" else 0
    return Sizes(groups, max(1, sum(sizes) // groups), n, k, room, sizes)


def bytes_of(sizes: Sizes) -> int:
    """Those of the values of A and B, and of D in bf16."""
    rows = (sizes.max_m or sizes.m) * sizes.groups
    return rows * (sizes.k + 2 * sizes.n) + sizes.groups * sizes.n * sizes.k


def user_sizes(operation: str, random: Random) -> Sizes:
    """operation: "dense", "contiguous" or "masked". Sizes of more than 2 GiB are drawn again."""
    while True:
        sizes = drawn(operation, random)
        if bytes_of(sizes) <= MOST_BYTES:
            return sizes


def random_sizes(operation: str, count: int, seed: int) -> list[Sizes]:
    random = Random(seed)
    return [user_sizes(operation, random) for _ in range(count)]
