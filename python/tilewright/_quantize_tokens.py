"""Quantisers of a training step: the operands of forward, dgrad and wgrad from one reading of a matrix, or of its codes."""

from __future__ import annotations

import math
from typing import Literal

from tilewright import _core
from tilewright._arrays import Array, integers
from tilewright._quantize import Quantized


def quantize_tokens(
    x: Array,
    ends: Array | None = None,
    *,
    rows: str | None = None,
    columns: str | None = None,
    activation: Literal["none", "swiglu", "swiglu_gradient"] = "none",
    gradient: Array | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    limit: float = math.inf,
    interleaved: bool = False,
    rows_token_factors: Array | None = None,
    rows_feature_factors: Array | None = None,
    columns_token_factors: Array | None = None,
    columns_feature_factors: Array | None = None,
    round_up: bool = False,
    threads: int = 0,
    stream: object = None,
) -> tuple[Quantized | None, Quantized | None]:
    """Quantises h [tokens, features] for a product along features (rows), for one along tokens (columns), or for both.

    h is x, or swiglu(gate, up) = g * sigmoid(alpha * g) * (u + beta) with g = min(gate, limit) and u = up clamped to
    -limit .. limit (DeepSeek's by default; gpt-oss: alpha 1.702, beta 1, limit 7, interleaved), or the gradient of that
    with respect to x. It is computed in f32 and not rounded before it is quantised.

    Args:
        x: [tokens, features] of float32, bfloat16 or float16; for swiglu and its gradient [tokens, 2 * features], gate
            first, then up, or `interleaved`.
        ends: int32 or int64 [groups], an array or a list: the token at which each group ends. On a GPU an
            array there; they are read there, never on the host. What they say is not checked: an end before the one
            before it counts as that one, one beyond tokens as tokens. Tokens behind the last end are of no group:
            what rows has for them is not written and may be anything, as are columns behind the last group; products
            with the same ends do not read it. `validate` of such a product says what is wrong with ends on the host.
        rows: recipe of h as [tokens, features]: tensor, row, 1x128, 128x128 (without ends), or with formats written out:
            e5m2.1x128.ue8m0. None: not written.
        columns: the same of its transpose [features, columns], in which each group begins at a multiple of 128 and zeros
            fill the space before it. With ends there are (tokens + 127 * groups) // 128 * 128 columns. Scales of 1x128 are
            [features, columns / 128] with features adjacent in memory, the order that products load fastest.
        gradient: [tokens, features] for swiglu_gradient: of swiglu's result.
        rows_token_factors, rows_feature_factors, columns_token_factors, columns_feature_factors: float32 [tokens] and
            [features] or [groups, features], multiplied into h before it is quantised: the folded form, for scales of
            the other operand of a product that vary along k.
        round_up: scales are powers of two.
        threads: of the CPU; 0 = all.
        stream: of the GPU; None: the one that torch works on.

    Returns:
        (rows, columns), each a new `Quantized` or None.

    Raises:
        ValueError: the call is wrong; the message names the argument and what it must be.

    >>> import numpy as np
    >>> rows, columns = quantize_tokens(np.float32([[448, 0], [1, -448]]), rows="1x128", columns="1x128")
    >>> rows.dequantize().tolist(), columns.dequantize().tolist()
    ([[448.0, 0.0], [1.0, -448.0]], [[448.0, 1.0], [0.0, -448.0]])
    """
    if ends is not None:
        ends = integers("ends", ends)
    form = (alpha, beta, limit, interleaved)
    factors = (rows_token_factors, rows_feature_factors, columns_token_factors, columns_feature_factors)
    made = _core.quantize_tokens(x, ends, rows, columns, activation, gradient, form, factors, round_up, threads, stream)
    by_rows, by_columns = made
    return (
        None if by_rows is None else Quantized(by_rows[0], str(rows), by_rows[1]),
        None if by_columns is None else Quantized(by_columns[0], str(columns), by_columns[1]),
    )


def transpose_codes(
    rows: Quantized,
    ends: Array | None = None,
    *,
    columns: str | None = None,
    threads: int = 0,
    stream: object = None,
) -> Quantized:
    """The transpose of codes whose 1x128 scales are powers of two, without quantising again: forward's X for wgrad.

    The scale of 128 tokens x 128 features is the largest of those of the tokens that have a code other than zero there
    (1 if none has), and the codes of the others are shifted to it: encode(value * (scale of the token / scale of the
    block)), exact but for what becomes subnormal, which is rounded to nearest even. Codes that are quantised again get
    the errors of both times. The idea is FP8-Flow-MoE's scaling-aware transpose (arXiv 2511.02302). A scale that is no
    power of two is treated as any other: the product is rounded.

    Args:
        rows: [tokens, features] of 1x128, e4m3 or e5m2, scales float32 or ue8m0 [tokens, ceil(features / 128)]:
            `quantize(x, "1x128", round_up=True)`, or rows of `quantize_tokens`.
        ends: int32 or int64 [groups], an array or a list: as in `quantize_tokens`, clamped and not checked.
        columns: recipe of the result, 1x128 (alike for the 128 features of a block) or 128x128, with the format of rows
            and scales of float32 or ue8m0. None: that of rows.
        threads: of the CPU; 0 = all.
        stream: of the GPU; None: the one that torch works on.

    Returns:
        A new `Quantized` [features, columns] on the device of rows, where each group begins at a multiple of 128 and zeros
        fill the space before it: with ends (tokens + 127 * groups) // 128 * 128 columns, without them tokens. Scales are
        [features, ceil(columns / 128)] with features adjacent in memory, or [ceil(features / 128), ceil(columns / 128)].

    Raises:
        ValueError: the call is wrong; the message names the argument and what it must be.

    >>> import numpy as np
    >>> rows = quantize(np.float32([[448, 64], [1.75, 0.25]]), "1x128", round_up=True)
    >>> rows.scales.ravel().tolist(), transpose_codes(rows, columns="128x128").scales.tolist()
    ([1.0, 0.00390625], [[1.0]])
    >>> transpose_codes(rows).dequantize().tolist()
    [[448.0, 1.75], [64.0, 0.25]]
    """
    recipe = rows.recipe if columns is None and isinstance(rows, Quantized) else columns
    if ends is not None:
        ends = integers("ends", ends)
    values, scales = _core.transpose_codes(rows, ends, recipe, threads, stream)
    return Quantized(values, str(recipe), scales)
