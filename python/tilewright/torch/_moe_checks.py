"""Checks of the arguments of layers of experts, with messages that name them."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import _core
from tilewright.torch import _checks
from tilewright.torch._checks import REAL, refuse
from tilewright.torch._units import UNITS, Unit

PLACES = ("combine", "activation", "input")


def kind_of(given: Any) -> Any:
    """The dtype of a tensor, the class of anything else: for messages."""
    return given.dtype if isinstance(given, torch.Tensor) else type(given).__name__


def check_unit(unit: Unit) -> None:
    if unit.kind not in UNITS:
        refuse("activation", repr(unit.kind), "one of " + ", ".join(UNITS))
    if not isinstance(unit.interleaved, bool):
        refuse("interleaved", repr(unit.interleaved), "True or False")
    for name in ("alpha", "beta", "limit", "gate_bound", "up_bound"):
        if not isinstance(getattr(unit, name), int | float):
            refuse(name, repr(getattr(unit, name)), "a number")
    if unit.kind == "swiglu" and not unit.limit >= 0:
        refuse("limit", unit.limit, "0 or more, or infinity for no limit")
    if unit.kind == "situ":
        for name in ("gate_bound", "up_bound"):
            if not getattr(unit, name) > 0:
                refuse(name, getattr(unit, name), "a positive number")


def check_place(weights_at: str) -> None:
    if weights_at not in PLACES:
        refuse("weights_at", repr(weights_at), "one of " + ", ".join(PLACES))


def shape_of(weights: Any) -> list[int]:
    return [int(size) for size in weights.shape]


def check_weights(up: Any, down: Any, unit: Unit) -> None:
    """up [E, gates * inner, hidden] and down [E, hidden, inner]: real tensors, or both operands of the library."""
    for name, w, dimensions in (("up", up, "experts, 2 * inner, hidden"), ("down", down, "experts, hidden, inner")):
        if isinstance(w, _core.Operand):
            if not isinstance(w.values, torch.Tensor):
                refuse(name, f"arrays of {type(w.values).__name__}", "tensors of torch in a Quantized or PackedWeights")
        elif not isinstance(w, torch.Tensor) or w.dtype not in REAL[:2]:
            refuse(name, kind_of(w), "a tensor of float32 or bfloat16, a Quantized or PackedWeights")
        else:
            _checks.check_whole(name, w)
        if len(w.shape) != 3 or 0 in w.shape:
            refuse(name, shape_of(w), f"[{dimensions}], none of them 0")
    if isinstance(up, _core.Operand) != isinstance(down, _core.Operand):
        refuse("down", type(down).__name__, "quantized weights where up is quantized, else a tensor")
    experts, rows, hidden = shape_of(up)
    if rows % unit.gates:
        refuse("up", [experts, rows, hidden], "an even number of rows: gates and ups")
    if shape_of(down) != [experts, hidden, rows // unit.gates]:
        refuse("down", shape_of(down), f"{[experts, hidden, rows // unit.gates]}, because up is {[experts, rows, hidden]}")


def check_tokens(x: torch.Tensor, experts: torch.Tensor, weights: torch.Tensor | None, hidden: int, device: torch.device) -> None:
    if not isinstance(x, torch.Tensor) or x.dtype not in REAL:
        refuse("x", kind_of(x), "a tensor of float32, bfloat16 or float16")
    _checks.check_whole("x", x)
    if x.dim() < 1 or x.shape[-1] != hidden:
        refuse("x", list(x.shape), f"[..., {hidden}], because up has {hidden} columns")
    if not isinstance(experts, torch.Tensor) or experts.dtype not in (torch.int32, torch.int64):
        refuse("experts", kind_of(experts), "a tensor of int32 or int64")
    if experts.dim() < 1 or experts.shape[:-1] != x.shape[:-1]:
        refuse("experts", list(experts.shape), f"[{', '.join(map(str, [*x.shape[:-1], 'choices']))}], because x is {list(x.shape)}")
    if weights is not None:
        if not isinstance(weights, torch.Tensor) or weights.dtype not in REAL:
            refuse("weights", kind_of(weights), "a tensor of float32, bfloat16 or float16")
        if weights.shape != experts.shape:
            refuse("weights", list(weights.shape), f"{list(experts.shape)}, as experts")
    for name, tensor in (("x", x), ("experts", experts), ("weights", weights)):
        if tensor is not None and tensor.device != device:
            refuse(name, f"a tensor on {tensor.device}", f"one on {device}, the device of up")


def check_rest(
    x: torch.Tensor,
    up: Any,
    up_bias: torch.Tensor | None,
    down_bias: torch.Tensor | None,
    addend: torch.Tensor | None,
    expert_map: torch.Tensor | None,
    shared: int,
    device: torch.device,
) -> None:
    experts, rows, hidden = shape_of(up)
    for name, bias, shape in (("up_bias", up_bias, [experts, rows]), ("down_bias", down_bias, [experts, hidden])):
        if bias is None:
            continue
        if not isinstance(bias, torch.Tensor) or bias.dtype not in REAL[:2]:
            refuse(name, kind_of(bias), "a tensor of float32 or bfloat16")
        if list(bias.shape) != shape or bias.device != device:
            refuse(name, f"{list(bias.shape)} on {bias.device}", f"{shape} on {device}, the device of up")
    if addend is not None:
        if not isinstance(addend, torch.Tensor) or addend.dtype not in REAL:
            refuse("addend", kind_of(addend), "a tensor of float32, bfloat16 or float16")
        if addend.shape != x.shape or addend.device != device:
            refuse("addend", f"{list(addend.shape)} on {addend.device}", f"{list(x.shape)} on {device}, as x")
    if expert_map is not None:
        if not isinstance(expert_map, torch.Tensor) or expert_map.dtype != torch.int32 or expert_map.dim() != 1:
            dimensions = f" [{', '.join(map(str, expert_map.shape))}]" if isinstance(expert_map, torch.Tensor) else ""
            refuse("expert_map", f"{kind_of(expert_map)}{dimensions}", "a tensor of int32 [global experts]")
        if expert_map.device != device:
            refuse("expert_map", f"a tensor on {expert_map.device}", f"one on {device}, the device of up")
    check_shared(shared, experts)


def check_shared(shared: int, experts: int) -> None:
    if isinstance(shared, bool) or not isinstance(shared, int) or not 0 <= shared <= experts:
        refuse("shared", repr(shared), f"0 to {experts}, the experts of up")


def check_main_grads(up: torch.Tensor, down: torch.Tensor, main_grads: tuple[torch.Tensor | None, torch.Tensor | None]) -> None:
    for name, main_grad, w in (("up_main_grad", main_grads[0], up), ("down_main_grad", main_grads[1], down)):
        if main_grad is None:
            continue
        if not isinstance(main_grad, torch.Tensor):
            refuse(name, kind_of(main_grad), "a tensor like its weight")
        _checks.check_whole(name, main_grad)
        if main_grad.dtype not in REAL[:2] or main_grad.shape != w.shape or main_grad.device != w.device:
            got = f"{main_grad.dtype} {list(main_grad.shape)} on {main_grad.device}"
            refuse(name, got, f"torch.float32 or torch.bfloat16 {list(w.shape)} on {w.device}, like its weight")


def check_no_gradient(why: str, advice: str, **given: torch.Tensor | None) -> None:
    """Refuses tensors that require a gradient, if gradients are recorded."""
    if not torch.is_grad_enabled():
        return
    for name, tensor in given.items():
        if tensor is not None and tensor.requires_grad:
            refuse(name, "a tensor that requires a gradient", f"a call under torch.no_grad(), because {why}", advice)
