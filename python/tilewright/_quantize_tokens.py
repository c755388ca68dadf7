"""Quantization for training: the operands of forward, dgrad and wgrad from one read of a matrix, or of its codes."""

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
    index: Array | None = None,
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
    """Quantizes h [tokens, features] for a product along features (rows), for one along tokens (columns), or for both.

    h depends on `activation`. It is computed in float32 and not rounded before it is quantized.

    - "none": h is x.
    - "swiglu": h = g * sigmoid(alpha * g) * (u + beta). g is min(gate, limit), and u is up, clamped to -limit .. limit.
    - "swiglu_gradient": h is the gradient of swiglu with respect to x.

    The defaults of alpha, beta, limit and interleaved are DeepSeek's. gpt-oss has alpha 1.702, beta 1, limit 7, interleaved.

    Args:
        x: [tokens, features] of float32, bfloat16 or float16. For swiglu and its gradient: [tokens, 2 * features], gate
            first, then up, or `interleaved`.
        ends: The token at which each group ends. It is int32 or int64 [groups], an array or a list. An array on a GPU is read
            there, never on the host, and its values are not checked. An end below the previous end counts as that end.
            An end beyond tokens counts as tokens. `validate` of a product finds mistakes of ends on the host.
            Tokens after the last end have no group. Their part of rows, and columns after the last group, are not written
            and may hold anything. Products with equal ends do not read them. Default: None.
        index: int32 [tokens], the row of x that each token is, with activation "none" only. Tokens of a layer of experts are
            gathered while they are quantized. Values are clamped, not checked. None: the rows of x are the tokens. Default: None.
        rows: Recipe of h [tokens, features]. It is tensor, row, 1x128 or 128x128 (the last only without ends), also with
            formats written out: e5m2.1x128.ue8m0. None: not written.
        columns: Recipe of the transpose [features, columns]. Each group begins at a multiple of 128, and zeros fill the
            space before it. With ends there are (tokens + 127 * groups) // 128 * 128 columns. Scales of 1x128 are
            [features, columns / 128] with features adjacent in memory, which products load fastest. None: not written.
        activation: "none", "swiglu" or "swiglu_gradient". Default: "none".
        gradient: [tokens, features], for swiglu_gradient: the gradient of swiglu's result. Default: None.
        alpha, beta, limit: Numbers of swiglu. Default: 1, 0 and infinity.
        interleaved: True: gate and up alternate along the features of x. Default: False.
        rows_token_factors, columns_token_factors: float32 [tokens], multiplied into h before it is quantized. This is the
            folded form, for scales of the product's other operand that vary along k. Default: None.
        rows_feature_factors, columns_feature_factors: float32 [features] or [groups, features], used likewise. Default:
            None.
        round_up: True: scales are powers of two. Default: False.
        threads: CPU threads; 0 = all. Default: 0.
        stream: The stream of a GPU. None: torch's current one.

    Returns:
        (rows, columns), each a new `Quantized` or None.

    Raises:
        ValueError: the call is wrong. The message names the argument and what it must be.

    >>> import numpy as np
    >>> rows, columns = quantize_tokens(np.float32([[448, 0], [1, -448]]), rows="1x128", columns="1x128")
    >>> rows.dequantize().tolist(), columns.dequantize().tolist()
    ([[448.0, 0.0], [1.0, -448.0]], [[448.0, 1.0], [0.0, -448.0]])
    """
    if ends is not None:
        ends = integers("ends", ends)
    form = (alpha, beta, limit, interleaved)
    factors = (rows_token_factors, rows_feature_factors, columns_token_factors, columns_feature_factors)
    made = _core.quantize_tokens(x, ends, rows, columns, activation, gradient, index, form, factors, round_up, threads, stream)
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
    """Transposes codes whose 1x128 scales are powers of two, without quantizing again: forward's X for wgrad.

    Each block of 128 tokens x 128 features gets one scale. It is the largest scale of the tokens with a code other than zero
    in the block, or 1 without such a token. Codes of the other tokens are shifted to that scale: encode(value * (scale of the token /
    scale of the block)). The shift is exact, except that values which become subnormal are rounded to nearest even.
    Quantizing again would add a second rounding error. The idea is FP8-Flow-MoE's scaling-aware transpose (arXiv
    2511.02302). With a scale that is not a power of two the product is rounded.

    Args:
        rows: `Quantized` [tokens, features] of 1x128, e4m3 or e5m2. Scales are float32 or ue8m0
            [tokens, ceil(features / 128)]. `quantize(x, "1x128", round_up=True)` and `quantize_tokens` make such rows.
            Rows without scales ("e4m3" or "e5m2") are moved as they are.
        ends: int32 or int64 [groups], an array or a list, as in `quantize_tokens`: clamped and not checked. Default: None.
        columns: Recipe of the result: 1x128, with equal scales for the 128 features of a block, or 128x128. It has the
            format of rows and scales of float32 or ue8m0. None: the recipe of rows.
        threads: CPU threads; 0 = all. Default: 0.
        stream: The stream of a GPU. None: torch's current one.

    Returns:
        A new `Quantized` [features, columns] on the device of rows. Each group begins at a multiple of 128, and zeros fill
        the space before it. With ends there are (tokens + 127 * groups) // 128 * 128 columns, without ends as many as tokens.
        Scales are [features, ceil(columns / 128)] with features adjacent in memory for 1x128. For 128x128 they are
        [ceil(features / 128), ceil(columns / 128)].

    Raises:
        ValueError: the call is wrong. The message names the argument and what it must be.

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
