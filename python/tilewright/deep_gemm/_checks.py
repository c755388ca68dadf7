"""Checks that the library cannot make: whether arguments are tensors, and the values of arguments without an effect."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NoReturn

from torch import Tensor

from tilewright import _core

_PAIR = "a pair of tensors: (values, scale factors)"
_SEQUENCES = (tuple, list)  # a union in the call would be built again each time
_COMPILED_DIMS = frozenset(("", "m", "n", "k", "mn", "mk", "nk", "mnk"))


def refuse(operand: str, got: object, expected: str, advice: str = "") -> NoReturn:
    """Raises InvalidCall with the text `operand: got X; expected Y. Advice.`

    Args:
        operand: the name of the argument, as the caller wrote it.
        got: the value, shape, dtype or kind that it has.
        expected: what it must be. No period at its end.
        advice: sentences about what to do; may be empty.
    """
    _core.refuse(operand, str(got), expected, advice)


def shape_text(tensor: Tensor) -> str:
    return str(list(tensor.shape))


def pair(name: str, given: Any) -> tuple[Tensor, Tensor]:
    """The argument as (values, scale factors)."""
    if type(given) is not tuple and not isinstance(given, _SEQUENCES):
        refuse(name, _kind(given), _PAIR)
    if len(given) != 2:
        refuse(name, f"{len(given)} elements", _PAIR)
    values, factors = given
    if not isinstance(values, Tensor) or not isinstance(factors, Tensor):
        refuse_all_but_tensors(((f"{name}[0]", False), (f"{name}[1]", False)), (values, factors))
    return values, factors


def _kind(given: object) -> str:
    return "None" if given is None else type(given).__name__


def refuse_all_but_tensors(named: Sequence[tuple[str, bool]], given: Sequence[object]) -> None:
    """Refuses the first argument that is not a tensor.

    Args:
        named: the name of each argument, and whether it may be None.
        given: the arguments.
    """
    for (name, optional), value in zip(named, given, strict=True):
        if not isinstance(value, Tensor) and not (optional and value is None):
            advice = "Convert it with torch.from_numpy(x)." if hasattr(value, "__array_interface__") else ""
            refuse(name, _kind(value), "a torch.Tensor" + (" or None" if optional else ""), advice)


def check_unused(
    compiled_dims: str, disable_ue8m0_cast: bool = False, use_psum_layout: bool = False, ensure_zero_padding: bool = True
) -> None:
    """Checks arguments of DeepGEMM: letters of sizes and switches. All except use_psum_layout have no effect here."""
    if compiled_dims not in _COMPILED_DIMS and not (
        isinstance(compiled_dims, str) and set(compiled_dims.lower()) <= set("mnk")
    ):
        refuse("compiled_dims", repr(compiled_dims), "letters from m, n and k")
    switches = disable_ue8m0_cast, use_psum_layout, ensure_zero_padding
    for i, switch in enumerate(switches):
        if switch is not True and switch is not False and switch not in (0, 1):
            name = ("disable_ue8m0_cast", "use_psum_layout", "ensure_zero_padding")[i]
            refuse(name, repr(switch), "True or False")


def check_alpha(alpha: float) -> None:
    """Checks the factor of the product of DeepGEMM 2.8.0, which supports it only on other GPUs than Hopper."""
    if alpha != 1.0:
        refuse("alpha", repr(alpha), "None or 1 on Hopper", "Multiply the scale factors of one operand, or d, by it.")


def whole_numbers(name: str, given: Sequence[int]) -> list[int]:
    """The numbers as Python integers. Accepts integers of Python, numpy and torch, but neither bool nor float."""
    numbers = []
    for i, number in enumerate(given):
        if isinstance(number, bool) or not hasattr(type(number), "__index__"):
            refuse(f"{name}[{i}]", repr(number), "an integer")
        try:
            numbers.append(operator.index(number))
        except TypeError:  # a tensor of floats
            refuse(f"{name}[{i}]", repr(number), "an integer")
    return numbers
