"""What the library cannot see of a call: that its arguments are tensors at all, and values that have no effect here."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NoReturn

from torch import Tensor

from tilewright import _core

_SEQUENCES = (tuple, list)  # as a union it would be made anew in each call
_COMPILED_DIMS = frozenset(("", "m", "n", "k", "mn", "mk", "nk", "mnk"))


def refuse(operand: str, given: object, expected: str, advice: str = "") -> NoReturn:
    """Every error of this package that the library does not find itself."""
    _core.refuse(operand, str(given), expected, advice)


def shape_text(tensor: Tensor) -> str:
    return str(list(tensor.shape))


def pair(name: str, given: Any) -> tuple[Tensor, Tensor]:
    """(values, scale factors)."""
    if type(given) is not tuple and not isinstance(given, _SEQUENCES):
        refuse(name, _kind(given), "(values, scale factors), a pair of tensors")
    if len(given) != 2:
        refuse(name, f"{len(given)} elements", "(values, scale factors), a pair of tensors")
    values, factors = given
    if not isinstance(values, Tensor) or not isinstance(factors, Tensor):
        refuse_all_but_tensors(((f"{name}[0]", False), (f"{name}[1]", False)), (values, factors))
    return values, factors


def _kind(given: object) -> str:
    return "None" if given is None else type(given).__name__


def refuse_all_but_tensors(named: Sequence[tuple[str, bool]], given: Sequence[object]) -> None:
    """named: the name of each argument, and whether it may be None."""
    for (name, optional), value in zip(named, given, strict=True):
        if not isinstance(value, Tensor) and not (optional and value is None):
            advice = "torch.from_numpy(x) makes one" if hasattr(value, "__array_interface__") else ""
            refuse(name, _kind(value), "a torch.Tensor" + (" or None" if optional else ""), advice)


def check_unused(compiled_dims: str, *switches: bool) -> None:
    """DeepGEMM's arguments without an effect here: which sizes a kernel is compiled for, and casts of factors."""
    if compiled_dims not in _COMPILED_DIMS and not (
        isinstance(compiled_dims, str) and set(compiled_dims.lower()) <= set("mnk")
    ):
        refuse("compiled_dims", repr(compiled_dims), "some of the letters m, n, k")
    for switch in switches:
        if switch is not True and switch is not False and switch not in (0, 1):
            refuse("disable_ue8m0_cast, ensure_zero_padding, use_psum_layout", repr(switch), "True or False")


def check_alpha(alpha: float) -> None:
    """DeepGEMM 2.8.0's factor of the product, which it has on other GPUs than Hopper only."""
    if alpha != 1.0:
        refuse("alpha", repr(alpha), "None or 1 on Hopper", "multiply a scale factor or d by it")


def whole_numbers(name: str, given: Sequence[int]) -> list[int]:
    """Integers of Python, numpy or torch; no bool, no float."""
    numbers = []
    for i, number in enumerate(given):
        if isinstance(number, bool) or not hasattr(type(number), "__index__"):
            refuse(f"{name}[{i}]", repr(number), "an integer")
        try:
            numbers.append(operator.index(number))
        except TypeError:  # a tensor of floats
            refuse(f"{name}[{i}]", repr(number), "an integer")
    return numbers
