"""Gates 2 to 4 of docs/numerics.md for a product of bf16 with MXFP4, with a bias and in bf16, in numpy alone.

Gate 2 wants the bits of the canonical order, in which a tensor core adds 16 products at a time; gate 3 an error below what
that order, or any order of fp32 additions, can lose; gate 4 relative errors of rows, experts and the whole below limits.
"""

from typing import NamedTuple

import ml_dtypes
import numpy as np

STEP = 16  # products that the tensor core adds at once
FP32, BF16 = 2.0**-24, 2.0**-8  # what rounding to nearest loses
SMALLEST = 2.0**-133  # of bf16
GROUP_LIMIT, ROW_LIMIT = 2.5e-3, 4.0e-3
FULL_GROUP, CHUNK, SHORTEST_ROW = 1024, 256, 64  # elements
SAMPLE = 1 << 14  # elements of each expert whose sums are followed step by step,
AT_ONCE = 1 << 11  # so many at a time


class Part(NamedTuple):
    """What one expert multiplies and what the library made of it, in float64."""

    x: np.ndarray  # [rows, k]
    w: np.ndarray  # [n, k]
    bias: np.ndarray  # [n]
    d: np.ndarray  # [rows, n]


class Verdict(NamedTuple):
    wrong_bits: int | None  # None: no bits are promised
    bound: float  # the largest error over its bound
    relative: float  # the relative error of the whole
    worst: float  # the worst relative error of a row, an expert or the whole over its limit

    @property
    def passes(self):
        return not self.wrong_bits and self.bound <= 1 and self.worst <= 1


def to_bf16(values):
    return values.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)


def exponent(values):
    return np.maximum(np.frexp(values)[1] - 1, -126)


def tensor_core(a, b):
    """Sums of the products [elements, k], and how far the cuts can have moved them."""
    total, lost = np.zeros(len(a)), np.zeros(len(a))
    for k in range(0, a.shape[1], STEP):
        x, y = a[:, k : k + STEP], b[:, k : k + STEP]
        addends = np.column_stack([x * y, total])
        exponents = np.column_stack([exponent(x) + exponent(y), exponent(total)])
        unit = np.ldexp(1.0, np.max(exponents, axis=1, initial=-133, where=addends != 0) - 25)
        cut = np.trunc(addends / unit[:, None]) * unit[:, None]
        exact = cut.sum(axis=1)
        last = np.ldexp(1.0, np.maximum(np.frexp(exact)[1] - 24, -149))
        total = np.trunc(exact / last) * last
        lost += (cut != addends).sum(axis=1) * unit + np.where(total != exact, last, 0)
    return total, lost


def over_bound(d, exact, of_sum):
    """Errors over what the sum and its two roundings can lose."""
    return np.abs(d - exact) / ((BF16 + FP32) * (np.abs(exact) + of_sum) + of_sum + SMALLEST)


def follow(part, exact, sizes, random):
    """Gates 2 and 3: how many elements have wrong bits, and the largest error over its bound.

    The order divides a row of w by its largest scale and multiplies the sum by it: powers of two, which change no bit
    while nothing leaves the range of fp32.
    """
    sample = random.permutation(part.d.size)[:SAMPLE]
    wrong, worst = 0, 0.0
    for begin in range(0, len(sample), AT_ONCE):
        at = np.unravel_index(sample[begin : begin + AT_ONCE], part.d.shape)
        total, lost = tensor_core(part.x[at[0]], part.w[at[1]])
        wrong += np.count_nonzero(to_bf16(total + part.bias[at[1]]) != part.d[at])
        worst = max(worst, over_bound(part.d[at], exact[at], lost + 4 * FP32 * sizes[at]).max())
    return wrong, worst


def relative_error(d, exact):
    return np.linalg.norm(d - exact) / max(np.linalg.norm(exact), SMALLEST)


def over_limit(d, exact, limit):
    """Gate 4: few unlucky values may round worse than the limit is."""
    return relative_error(d, exact) / max(limit, 1.3 * relative_error(to_bf16(exact), exact))


def over_limits(d, exact):
    """The worst of the rows, in chunks, and of all of them."""
    yield over_limit(d, exact, GROUP_LIMIT if d.size >= FULL_GROUP else ROW_LIMIT)
    for row in range(len(d)):
        for begin in range(0, d.shape[1] - SHORTEST_ROW + 1, CHUNK):
            chunk = row, slice(begin, begin + CHUNK)
            yield over_limit(d[chunk], exact[chunk], ROW_LIMIT)


def judge(parts, bit_exact):
    """The verdict on the parts of a product; `bit_exact`: its arithmetic, else `fast`."""
    random = np.random.default_rng(1)
    wrong, bounds, limits, given, expected = 0, [0.0], [0.0], [], []
    for part in parts:
        exact = part.x @ part.w.T + part.bias
        sizes = np.abs(part.x) @ np.abs(part.w).T
        if bit_exact:
            different, bound = follow(part, exact, sizes, random)
            wrong += different
        else:
            roundings = (part.x.shape[1] + 7) * FP32
            bound = over_bound(part.d, exact, roundings / (1 - roundings) * sizes).max()
        bounds.append(bound)
        limits.extend(over_limits(part.d, exact))
        given.append(part.d)
        expected.append(exact)
    d, exact = np.concatenate(given), np.concatenate(expected)
    limits.append(over_limit(d, exact, GROUP_LIMIT if d.size >= FULL_GROUP else ROW_LIMIT))
    return Verdict(wrong if bit_exact else None, max(bounds), relative_error(d, exact), max(limits))
