"""DeepGEMM's settings of the process.

Settings without an effect are stored, so that getters return them. Each setting is also set in the DeepGEMM of
`fall_back_to`, if there is one.
"""

from __future__ import annotations

from typing import Any

import torch

from tilewright._settings import current
from tilewright.deep_gemm._fallback import tell

DEFAULT_ALIGNMENT = 128
HOPPER_SMS = 132  # H100 and H200, SXM

_values = {"tc_util": 0, "alignment": DEFAULT_ALIGNMENT}

call_options: dict[str, Any] = {"sm_limit": 0, "overlap": None}
"""Options that every call of the library gets."""


def _whole(name: str, value: int, low: int, high: int | None, advice: str) -> int:
    """`value`, checked to be an integer from low to high; high None: without an upper limit."""
    limits = f"of at least {low}" if high is None else f"from {low} to {high}"
    if isinstance(value, bool) or not isinstance(value, int) or value < low or (high is not None and value > high):
        raise ValueError(f"{name}: got {value!r}; expected an integer {limits}. {advice}")
    return value


def _switch(name: str, value: bool) -> None:
    if value is not True and value is not False and value not in (0, 1):
        raise ValueError(f"{name}: got {value!r}; expected True or False.")


def _device_sms() -> int | None:
    """The number of streaming multiprocessors of the current GPU; None without a GPU."""
    if not torch.cuda.is_available():
        return None
    return int(torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count)


def set_num_sms(new_num_sms: int) -> None:
    """Limits the streaming multiprocessors that later calls use.

    Args:
        new_num_sms: the limit, from 0 to the number of the GPU. 0 removes the limit.
    """
    limit = _whole("new_num_sms", new_num_sms, 0, _device_sms(), "0 removes the limit.")
    tell("set_num_sms", limit)
    # Callers restore the value of get_num_sms. The number of all multiprocessors is not a limit either.
    call_options["sm_limit"] = 0 if limit == (_device_sms() or HOPPER_SMS) else limit


def get_num_sms() -> int:
    """The limit of `set_num_sms`; without one, the multiprocessors of the GPU, or 132 without a GPU."""
    return int(call_options["sm_limit"] or _device_sms() or HOPPER_SMS)


def set_tc_util(new_tc_util: int) -> None:
    """Stores a percentage from 0 to 100, without effect: Tilewright's kernels do not limit tensor core use."""
    _values["tc_util"] = _whole("new_tc_util", new_tc_util, 0, 100, "It is a percentage; 0 means 100.")
    tell("set_tc_util", new_tc_util)


def get_tc_util() -> int:
    """The value of `set_tc_util`, with 100 for 0."""
    return int(_values["tc_util"] or 100)


def set_pdl(new_enable_pdl: bool) -> None:
    """Whether later calls overlap (programmatic dependent launch), whatever `tilewright.options` and `tilewright.defaults` say."""
    tell("set_pdl", bool(new_enable_pdl))
    call_options["overlap"] = bool(new_enable_pdl)


def get_pdl() -> bool:
    """What `set_pdl` chose; before it was called, the option in force (`tilewright.options`)."""
    chosen = call_options["overlap"]
    return current().overlap if chosen is None else bool(chosen)


def use_deterministic_algorithms(enabled: bool) -> None:
    """Checks its argument and has no effect: every product here repeats bit for bit in any case.

    DeepGEMM 2.8.0 may add parts of a sum in any order unless this was called. Results that do not depend on the rest of the
    batch are another matter: `tilewright.options(invariant=True)`.
    """
    _switch("enabled", enabled)
    tell("use_deterministic_algorithms", bool(enabled))


def set_ignore_compile_dims(new_value: bool) -> None:
    """Checks its argument and has no effect: one compiled kernel serves all shapes."""
    _switch("new_value", new_value)
    tell("set_ignore_compile_dims", bool(new_value))


def set_block_size_multiple_of(new_value: int | tuple[int, int]) -> None:
    """Checks its argument and has no effect: the planner chooses among the compiled tiles."""
    for value in new_value if isinstance(new_value, tuple | list) else (new_value,):
        _whole("new_value", value, 1, None, "Pass one number, or one for m and one for n.")
    tell("set_block_size_multiple_of", new_value)


def set_mk_alignment_for_contiguous_layout(new_value: int) -> None:
    """Sets the alignment of groups in contiguous layouts.

    Args:
        new_value: groups begin at multiples of it, and each block of this many rows belongs to the group of its first row.
    """
    alignment = _whole("new_value", new_value, 1, None, "DeepGEMM's default is 128.")
    tell("set_mk_alignment_for_contiguous_layout", alignment)
    _values["alignment"] = alignment


def get_mk_alignment_for_contiguous_layout() -> int:
    """The value of `set_mk_alignment_for_contiguous_layout`; 128 by default."""
    return int(_values["alignment"])


def get_theoretical_mk_alignment_for_contiguous_layout(
    expected_m: int | None = None, num_groups: int | None = None
) -> int:
    """128, the answer of DeepGEMM on Hopper for any number of rows. Any multiple of 4 is as fast.

    Args:
        expected_m: the expected rows of a group. With num_groups, the expected rows of all groups together.
        num_groups: the number of groups, which newer callers pass.
    """
    if expected_m is not None:
        _whole("expected_m", expected_m, 0, None, "Omit it if the number of rows is unknown.")
    if num_groups is not None:
        _whole("num_groups", num_groups, 1, None, "Omit it if expected_m counts the rows of one group.")
    return DEFAULT_ALIGNMENT
