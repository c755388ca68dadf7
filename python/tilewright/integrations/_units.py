"""The unit between the two products, from the names and the functions that engines have for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch

from tilewright import _core
from tilewright.integrations._fit import unfit
from tilewright.torch._units import Unit

SWIGLU = Unit("swiglu", 1.0, 0.0, math.inf, 4.0, 25.0, False)
"""silu(gate) * up, gates first."""

_SILU = ("silu", "swish", "swiglu")
_OPENAI = ("swigluoai", "swigluoai_uninterleave", "swiglu_oai")
_TANH_GELU = ("gelu_tanh", "gelu_pytorch_tanh", "gelu_new", "geglu")
_SQUARE = ("relu2", "relu_squared", "squared_relu")
_OPENAI_ALPHA, _OPENAI_LIMIT = 1.702, 7.0  # of gpt-oss, where an engine does not say


def gated_unit(
    name: str,
    alpha: float | None = None,
    beta: float | None = None,
    limit: float | None = None,
    interleaved: bool = False,
    *,
    gated: bool = True,
    gate_bound: float | None = None,
    up_bound: float | None = None,
) -> Unit:
    """The unit that an engine calls `name`.

    Args:
        name: e.g. "silu", "swigluoai", "gelu_tanh", "relu2". The suffix "_no_mul" means `gated=False`.
        alpha, beta, limit: numbers of SwiGLU. None: those of the name. "swigluoai" has 1.702, 1 and 7, "silu" 1, 0 and none.
        interleaved: True: gates and ups alternate along the rows of up.
        gated: whether the unit multiplies by the ups. Only relu2 exists without.
        gate_bound, up_bound: numbers of "situ". None: `tilewright.moe`'s.

    Raises:
        Unfit: no unit of `tilewright.moe` computes it.
    """
    bare = name.removesuffix("_no_mul")
    gated = gated and bare == name
    if not gated:
        if bare not in _SQUARE:
            unfit("activation", f"{bare!r} without gates", "relu2 without gates, or a unit with gates")
        return SWIGLU._replace(kind="relu_squared")
    if bare in _SILU:
        return SWIGLU._replace(alpha=_or(alpha, 1.0), beta=_or(beta, 0.0), limit=_or(limit, math.inf), interleaved=interleaved)
    if bare in _OPENAI:
        numbers = {"alpha": _or(alpha, _OPENAI_ALPHA), "beta": _or(beta, 1.0), "limit": _or(limit, _OPENAI_LIMIT)}
        return SWIGLU._replace(**numbers, interleaved=interleaved)
    if limit is not None and not math.isinf(limit):
        unfit("activation", f"{name!r} with a limit of {limit}", "a limit only with SwiGLU")
    if bare in _TANH_GELU:
        return SWIGLU._replace(kind="geglu", interleaved=interleaved)
    if bare == "situ":
        bounds = {"gate_bound": _or(gate_bound, 4.0), "up_bound": _or(up_bound, 25.0)}
        return SWIGLU._replace(kind="situ", **bounds, interleaved=interleaved)
    unfit("activation", repr(name), "silu, swigluoai, gelu with tanh, situ, or relu2 without gates")


def _or(given: float | None, usual: float) -> float:
    return usual if given is None else float(given)


def same_unit(function: Callable[[torch.Tensor], torch.Tensor], candidates: Iterable[Unit]) -> Unit | None:
    """The candidate that computes what an engine's function computes, found by computing both. None: no candidate does.

    Args:
        function: maps gates and ups [rows, 2 * inner] (without gates: [rows, inner]) to [rows, inner], in float32 on the CPU.
            The numbers are those of bf16, which the library's units read.
        candidates: units to try, all with gates or all without.

    The numbers are gates and ups of many sizes, up to 10,000: a limit below is seen.
    """
    units = list(candidates)
    gate_up = _probes(units[0].gates)
    try:
        with torch.no_grad():
            given = function(gate_up)
    except Exception:  # noqa: BLE001: an engine's function may need what it does not have on the CPU
        return None
    for unit in units:
        expected = activated(gate_up, unit)
        if given.shape == expected.shape and bool(((given.float() - expected).abs() <= _allowed(gate_up, expected, unit)).all()):
            return unit
    return None


def activated(gate_up: torch.Tensor, unit: Unit) -> torch.Tensor:
    """h [rows, inner] in float32 of numbers of bf16, by the library."""
    made: torch.Tensor = _core.activate(gate_up.bfloat16(), None, unit.keywords)
    return made


def _parts(gate_up: torch.Tensor, interleaved: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Gates and ups."""
    if interleaved:
        return gate_up[..., 0::2], gate_up[..., 1::2]
    gate, up = gate_up.chunk(2, dim=-1)
    return gate, up


def _allowed(gate_up: torch.Tensor, expected: torch.Tensor, unit: Unit) -> torch.Tensor:
    """The difference that two orders of the same operations in float32 may have. 1 + tanh, as in gelu, cancels."""
    gate, up = (gate_up, gate_up) if unit.gates == 1 else _parts(gate_up, unit.interleaved)
    return 2e-5 * expected.abs() + 1e-6 * gate.abs() * (up.abs() + 1)


def _probes(gates: int) -> torch.Tensor:
    """[rows, gates * 64]: numbers of both signs from 0.001 to 10,000, each as a gate and as an up of many others."""
    sizes = torch.logspace(-3, 4, 211)
    numbers = torch.cat([-sizes, torch.zeros(1), sizes, torch.linspace(-12, 12, 97)])
    order = torch.Generator().manual_seed(0)
    rows = 64
    drawn = numbers[torch.randint(len(numbers), (rows, gates * 64), generator=order)]
    near = torch.linspace(-9, 9, rows * gates * 64)[torch.randperm(rows * gates * 64, generator=order)].view(rows, -1)
    return torch.cat([drawn, near, near * 4]).bfloat16().float()
