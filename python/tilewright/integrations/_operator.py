"""Calls with quantized weights in programs of torch.compile, as the operator torch.ops.tilewright.moe_quantized.

A compiler cannot look into the library's operands, which are not of Python. Their tensors and names go through it separately.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch

from tilewright._packing import PackedWeights
from tilewright.torch import _in_force, _moe_checks
from tilewright.torch._moe_passes import Layer
from tilewright.torch._units import Unit

Parts: TypeAlias = tuple[list[torch.Tensor], str]
"""The tensors of quantized weights and their recipe, as the operator takes them."""


def parts_of(w: Any) -> Parts:
    if isinstance(w, PackedWeights):
        return [w.data], "packed:" + w.header.hex()
    return [tensor for tensor in (w.values, w.scales, w.tensor_scale) if tensor is not None], w.recipe


def by_operator(
    x: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor | None,
    parts: tuple[Parts, Parts],
    biases: tuple[torch.Tensor | None, torch.Tensor | None],
    unit: Unit,
    activations: str | None,
    expert_map: torch.Tensor | None = None,
    addend: torch.Tensor | None = None,
    weights_at: str = "combine",
) -> torch.Tensor:
    """`tilewright.moe`, whose arguments are checked when the program runs.

    Raises:
        ValueError: a tensor requires a gradient.
    """
    _moe_checks.check_no_gradient(
        "the weights are quantized", "Pass real weights to train.", x=x, weights=weights, addend=addend
    )
    numbers = [unit.alpha, unit.beta, unit.limit, unit.gate_bound, unit.up_bound]
    layer = Layer("1x128", "e4m3", True, unit.kind, numbers, unit.interleaved, weights_at, 0, _in_force.word)
    tensors = (x, weights, *biases, addend, ids, expert_map)
    out: torch.Tensor = torch.ops.tilewright.moe_quantized(*tensors, *parts[0], *parts[1], activations or "", *layer)
    return out
