"""A layer of experts in one call, and the routing of its tokens."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, TypeAlias

from tilewright import _core, _grouping
from tilewright._arrays import Array
from tilewright._multiply import Operand
from tilewright._options import Accumulation, Arithmetic, Backend, OutputFormat, helpful
from tilewright._settings import PlannedDevice, settled

Unit: TypeAlias = Literal["swiglu", "situ", "geglu", "relu_squared"]
WeightsAt: TypeAlias = Literal["combine", "activation", "input"]


class Routed(NamedTuple):
    """What `route` returns. T tokens have C = k + shared choices each, and there are T * C rows."""

    rows: Array
    """int32 [T, C]: the row of each choice, sorted by expert. -1 for a choice that names no expert."""
    sources: Array
    """int32 [T * C]: the choice of each row, token * C + its place among the token's choices. 0 after the last end."""
    ends: Array
    """int32 [experts]: the row at which each expert ends, as `offsets` of `grouped_gemm` and `ends` of `quantize_tokens`."""
    weights: Array | None
    """float32 [T * C]: the weight of each row, 0 after the last end. None if no weights were given."""


def route(
    experts: Array,
    num_experts: int,
    weights: Array | None = None,
    *,
    expert_map: Array | None = None,
    shared: int = 0,
    stream: object = None,
) -> Routed:
    """Sorts the choices of all tokens by expert: the first step of `moe`.

    The choices of an expert keep their order: by token, then by choice. On a GPU the host reads nothing.

    Args:
        experts: int32 or int64 [T, k], the experts that each token chose. A number that names no local expert is skipped,
            whatever it is: -1, or an expert of another GPU. A token may choose an expert more than once.
        num_experts: The number of local experts, 1 to 2048.
        weights: float32, bfloat16 or float16 [T, k], or None: nothing is returned for them. Default: None.
        expert_map: int32 [global experts], the local number of each global expert, -1 for experts that are elsewhere.
            None: `experts` has local numbers. Default: None.
        shared: The last `shared` local experts take every token, with weight 1, after its choices. Default: 0.
        stream: The stream of a GPU. None: torch's current one.

    Returns:
        `Routed`: rows, sources, ends and weights, new arrays of torch on the device of `experts`, else of numpy.

    Raises:
        InvalidCall: a ValueError that lists every mistake.

    >>> import numpy as np
    >>> found = route(np.int32([[2, 0], [0, -1]]), 3)
    >>> found.rows.tolist(), found.sources.tolist(), found.ends.tolist()
    ([[2, 0], [1, -1]], [1, 2, 0, 0], [2, 2, 3])
    """
    return Routed(*_core.route(experts, num_experts, weights, expert_map, shared, stream))


@helpful
def moe(
    x: Operand,
    up: Operand,
    down: Operand,
    *,
    experts: Array | None = None,
    weights: Array | None = None,
    expert_map: Array | None = None,
    shared: int = 0,
    offsets: Array | None = None,
    aligned_offsets: Array | None = None,
    alignment: int = 128,
    counts: Array | None = None,
    expected_m: int = 0,
    row_weights: Array | None = None,
    activation: Unit = "swiglu",
    alpha: float = 1.0,
    beta: float = 0.0,
    limit: float = math.inf,
    gate_bound: float = 4.0,
    up_bound: float = 25.0,
    interleaved: bool = False,
    activations: str | None = None,
    round_up: bool = False,
    weights_at: WeightsAt = "combine",
    up_bias: Array | None = None,
    down_bias: Array | None = None,
    addend: Array | None = None,
    out: Array | None = None,
    out_dtype: OutputFormat | None = None,
    accumulation: Accumulation = "promoted",
    arithmetic: Arithmetic = "fast",
    invariant: bool | None = None,
    chunk: int = 16384,
    backend: Backend = "automatic",
    threads: int = 0,
    sm_limit: int = 0,
    stream: object | None = None,
    overlap: bool | None = None,
    workspace: Array | None = None,
    planned_device: PlannedDevice | None = None,
) -> Array:
    """Computes a layer of experts: each token goes through the experts that it chose, and their results are summed.

        gate_up = bf16(x up^T + up_bias)          per expert
        h       = unit(gate_up), quantized
        y       = bf16(h down^T + down_bias)      per expert
        out[t]  = addend[t] + the sum over the choices c of token t of weight[t, c] * y

    Exactly one of `experts`, `offsets`, `aligned_offsets` and `counts` gives the form of the input:

    - `experts`: x has tokens [T, hidden]. The call sorts them, and out is [T, hidden].
    - `offsets` or `aligned_offsets`: x has rows [rows, hidden], sorted by expert. out is [rows, hidden].
    - `counts`: x has rows [experts, room, hidden]. out is alike.

    In the last two forms there is no sum over choices, and rows of no expert are neither read nor written. On a GPU the
    host reads no sizes, so that a CUDA graph of the call can be replayed with other routing.

    Args:
        x: float32, bfloat16 or float16 in one of the three forms, rows of adjacent numbers. Or a `Quantized` by the
            recipe `activations`.
        up: Weights [experts, 2 * inner, hidden], gates first, then ups, or `interleaved`. relu_squared has no gates:
            [experts, inner, hidden]. A `Quantized`, `PackedWeights`, or an array without scales.
        down: Weights [experts, hidden, inner], as up.
        experts: int32 or int64 [T, k], the experts that each token chose, 1 to 2048 experts. A number that names no
            local expert is skipped, whatever it is: -1, or an expert of another GPU. Default: None.
        weights: float32, bfloat16 or float16 [T, k], the weight of each choice. None: 1. Default: None.
        expert_map: int32 [global experts], the local number of each global expert, -1 for experts that are elsewhere.
            None: `experts` has local numbers. Default: None.
        shared: The last `shared` of the experts take every token, with weight 1, after its choices. Default: 0.
        offsets: int32 or int64 [experts], the row at which each expert ends. An array or a list. Default: None.
        aligned_offsets: The same, where each expert begins at the next multiple of `alignment`. Default: None.
        alignment: Experts of aligned_offsets begin at its multiples. Default: 128.
        counts: int32 or int64 [experts], the valid rows of each expert of x [experts, room, hidden]. Default: None.
        expected_m: Typical rows of an expert, a hint, with counts or where choices name experts that are elsewhere. 0: unknown,
            and with expert_map as many as of other experts. Default: 0.
        row_weights: float32 [rows] or [experts, room], the weight of each row where x has rows. None: 1. Default: None.
        activation: The unit between the products, of gate g and up u of each feature.

            - "swiglu": g * sigmoid(alpha * g) * (u + beta), with g at most `limit` and u within -limit .. limit.
            - "situ": G * sigmoid(g) * U, with G = gate_bound * tanh(g / gate_bound). U is up_bound * tanh(u / up_bound).
            - "geglu": gelu(g) * u, with the tanh form of gelu.
            - "relu_squared": max(u, 0) ** 2.

            Default: "swiglu".
        alpha, beta, limit: Numbers of swiglu. gpt-oss: 1.702, 1 and 7. Default: 1, 0 and infinity.
        gate_bound, up_bound: Numbers of situ. up_bound=math.inf: u as it is. Default: 4 and 25, those of Kimi-K3.
        interleaved: True: gates and ups alternate along the rows of up. Default: False.
        activations: How x and h are quantized: one side of a recipe, e.g. "1x128", "row", "mxfp8", "bf16". bf16, f16 and
            f32 are not quantized. None: the recipe of x if x is a `Quantized`, else what goes with up:

            - 128x128, 1x128, and fp8 without scales: 1x128. row and tensor: row and tensor.
            - mxfp8: mxfp8. bf16, f16 and f32: the same.
            - MXFP4: bf16, or 1x128 if packed for fp8. NVFP4: bf16.

            Default: None.
        round_up: True: scales of x and h are powers of two, as in `quantize`. Default: False.
        weights_at: Where the weight of a choice is multiplied. Default: "combine".

            - "combine": y, in the sum.
            - "activation": h, ahead of its quantization.
            - "input": x, ahead of its quantization, as in Llama 4.

        up_bias: float32 or bfloat16 [experts, 2 * inner], relu_squared: [experts, inner]. None: 0. Default: None.
        down_bias: float32 or bfloat16 [experts, hidden]. None: 0. Default: None.
        addend: float32, bfloat16 or float16 of the shape of out: a shared expert's result or a residual. It is added in
            float32 before the one rounding of out. It may be `out` itself. Default: None.
        out: Array of bfloat16, float16 or float32 that is written. None: a new array of torch on x's device if x is of
            torch, else of numpy. Other libraries' arrays on a GPU need `out`. Default: None.
        out_dtype: As in `gemm`. None: the dtype of x, or bfloat16 if x is a `Quantized`. Default: None.
        accumulation: How fp8 products are summed: "promoted" to float32 every 128 elements, or "unpromoted". Default:
            "promoted".
        arithmetic: On the CPU, "fast" sums in the fastest order; "bit_exact" returns the bits of a Hopper GPU. Default:
            "fast".
        invariant: True: the result of a token does not depend on the rest of the batch. None: `options`, then `defaults`
            (False). Default: None.
        chunk: Tokens that are computed at a time. It bounds the workspace. Default: 16384.
        backend, threads, sm_limit, stream, overlap, planned_device: As in `grouped_gemm`.
        workspace: On a GPU: contiguous uint8, at a multiple of 128 bytes. The call overwrites it until its work on the
            stream has ended. A message says how many bytes are needed. None: torch's allocator for arrays of torch; other
            libraries pass one. Default: None.

    Returns:
        out. Rows of no expert of a new array are zeros.

    Raises:
        InvalidCall: a ValueError that lists every mistake, before anything is written.
        TypeError: an unknown keyword.
        RuntimeError: the machine fails.

    >>> import numpy as np
    >>> x, up = np.eye(2, 4, dtype=np.float32), np.ones((3, 8, 4), np.float32)
    >>> down = np.ones((3, 4, 4), np.float32)
    >>> moe(x, up, down, experts=np.int32([[2, 0], [1, -1]]))[:, 0].round(2)
    array([5.84, 2.92], dtype=float32)
    """
    invariant, overlap, planned_device = settled(invariant, overlap, planned_device)
    layer = {
        "experts": experts,
        "weights": weights,
        "expert_map": expert_map,
        "shared": shared,
        "row_weights": row_weights,
        "activation": activation,
        "alpha": alpha,
        "beta": beta,
        "limit": limit,
        "gate_bound": gate_bound,
        "up_bound": up_bound,
        "interleaved": interleaved,
        "activations": activations,
        "round_up": round_up,
        "weights_at": weights_at,
        "up_bias": up_bias,
        "down_bias": down_bias,
        "addend": addend,
        "chunk": chunk,
    }
    options = {
        "out": out,
        "out_dtype": out_dtype,
        "accumulation": accumulation,
        "arithmetic": arithmetic,
        "invariant": invariant,
        "backend": backend,
        "threads": threads,
        "sm_limit": sm_limit,
        "stream": stream,
        "overlap": overlap,
        "workspace": workspace,
        "planned_device": planned_device,
    }
    groups = _grouping.of_layer(offsets, aligned_offsets, counts, alignment, expected_m)
    return _core.moe(x, up, down, layer=layer, groups=groups, options=options)
