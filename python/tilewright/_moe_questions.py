"""Questions about a layer of experts, with the arguments of `moe`. Written by tools/generate_calls.py."""

from __future__ import annotations

import math

from tilewright import _core, _grouping
from tilewright._arrays import Array
from tilewright._core import Finding
from tilewright._errors import InvalidCall
from tilewright._explanation import MoeExplanation
from tilewright._moe import Unit, WeightsAt
from tilewright._multiply import Operand
from tilewright._options import Accumulation, Arithmetic, Backend, OutputFormat, helpful
from tilewright._settings import PlannedDevice, settled


@helpful
def validate_moe(
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
) -> list[Finding]:
    """Lists all mistakes of a call of `moe`, and runs nothing.

    It takes the arguments of the call itself: change the name. Arrays in host memory are read too: ends that decrease or exceed the
    last row are mistakes.

    Args:
        x, up, down: As in `moe`, and so are all keywords.

    Returns:
        One `Finding` per mistake; an empty list if the call can run.

    Raises:
        TypeError: an unknown keyword.

    >>> import numpy as np
    >>> x, up, down = (np.ones(shape, np.float32) for shape in ((2, 4), (3, 8, 4), (3, 4, 4)))

    >>> validate_moe(x, up, down, experts=np.int32([[0, 2], [1, -1]]))
    []

    >>> [finding.operand for finding in validate_moe(x, up, down[:2], offsets=[0, 1, 2])]
    ['down']
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
    try:
        groups = _grouping.of_layer(offsets, aligned_offsets, counts, alignment, expected_m)
    except InvalidCall as error:
        return error.findings
    return _core.validate_moe(x, up, down, layer=layer, groups=groups, options=options)


@helpful
def explain_moe(
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
) -> MoeExplanation:
    """Explains how a GPU would compute a call of `moe`: its kernels and their predicted times. It needs no GPU.

    It takes the arguments of the call itself: change the name. The GPU is `planned_device`. Experts are expected to have as many rows
    each. A call of several chunks is explained by the first.

    Args:
        x, up, down: As in `moe`, and so are all keywords. Only shapes, formats and recipes count.

    Returns:
        A `MoeExplanation`. `print` shows it as text, a notebook as a table.

    Raises:
        InvalidCall: a ValueError that lists every mistake.
        TypeError: an unknown keyword.

    >>> import numpy as np
    >>> up, down = (quantize(np.ones(shape, np.float32), "128x128") for shape in ((4, 512, 256), (4, 256, 256)))

    >>> found = explain_moe(np.ones((16, 256), np.float32), up, down, experts=np.zeros((16, 2), np.int32))
    >>> [step.name for step in found.steps], found.launches
    (['permute', 'up', 'activate', 'down', 'combine'], 5)
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
    return MoeExplanation(*_core.explain_moe(x, up, down, layer=layer, groups=groups, options=options))
