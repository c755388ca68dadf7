"""Checks 2 to 4 of docs/numerics.md, in numpy only, for bf16 x MXFP4 with a bias and bf16 output.

- Check 2 compares bits with the canonical order, in which a tensor core adds 16 products at a time.
- Check 3 bounds the error by the loss that this order, or any order of fp32 additions, can have.
- Check 4 limits the relative errors of rows, of experts and of the whole product.
"""

from typing import NamedTuple

import ml_dtypes
import numpy as np

STEP = 16  # products per addition of the tensor core
FP32, BF16 = 2.0**-24, 2.0**-8  # the relative loss of rounding to nearest
SMALLEST = 2.0**-133  # the smallest positive bf16
GROUP_LIMIT, ROW_LIMIT = 2.5e-3, 4.0e-3
FULL_GROUP, CHUNK, SHORTEST_ROW = 1024, 256, 64  # elements
SAMPLE = 1 << 14  # elements of each expert whose sums are computed step by step
AT_ONCE = 1 << 11  # elements that are computed together


class Part(NamedTuple):
    """The operands of one expert and the result of the library, in float64."""

    x: np.ndarray  # [rows, k]
    w: np.ndarray  # [n, k]
    bias: np.ndarray  # [n]
    d: np.ndarray  # [rows, n]


class Verdict(NamedTuple):
    wrong_bits: int | None  # None: the arithmetic guarantees no bits
    bound: float  # the largest ratio of an error to its bound
    relative: float  # the relative error of the whole product
    worst: float  # the largest ratio of a relative error (of a row, an expert or the whole) to its limit

    @property
    def passes(self):
        return not self.wrong_bits and self.bound <= 1 and self.worst <= 1


def to_bf16(values):
    return values.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)


def exponent(values):
    return np.maximum(np.frexp(values)[1] - 1, -126)


def tensor_core(a, b):
    """Sums of the products [elements, k] in the order of the tensor core, and bounds of what truncation has lost."""
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
    """The ratios of the errors to the loss of the sum and its two roundings."""
    return np.abs(d - exact) / ((BF16 + FP32) * (np.abs(exact) + of_sum) + of_sum + SMALLEST)


def follow(part, exact, sizes, random):
    """Checks 2 and 3: the number of elements with wrong bits, and the largest ratio of an error to its bound.

    The library divides a row of w by its largest scale and multiplies the sum by it. This function does not: scales are
    powers of two, which change no bit while all values stay in the range of fp32.
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
    """Check 4. The limit is raised for short rows whose values happen to round badly."""
    return relative_error(d, exact) / max(limit, 1.3 * relative_error(to_bf16(exact), exact))


def over_limits(d, exact):
    """The ratio to the limit for the whole part, and for each chunk of each row."""
    yield over_limit(d, exact, GROUP_LIMIT if d.size >= FULL_GROUP else ROW_LIMIT)
    for row in range(len(d)):
        for begin in range(0, d.shape[1] - SHORTEST_ROW + 1, CHUNK):
            chunk = row, slice(begin, begin + CHUNK)
            yield over_limit(d[chunk], exact[chunk], ROW_LIMIT)


def judge(parts, bit_exact):
    """The verdict on the parts of a product, computed with arithmetic `bit_exact` or `fast`."""
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
