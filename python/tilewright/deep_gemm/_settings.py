"""DeepGEMM's settings of the process. Those without an effect here are stored, so that callers read what they set. The
DeepGEMM of `fall_back_to`, if there is one, is told all of them."""

from __future__ import annotations

from typing import Any

import torch

from tilewright._settings import current
from tilewright.deep_gemm._fallback import tell

DEFAULT_ALIGNMENT = 128
HOPPER_SMS = 132  # of an H100 or H200 in SXM form

_values = {"tc_util": 0, "alignment": DEFAULT_ALIGNMENT}

call_options: dict[str, Any] = {"sm_limit": 0, "overlap": None}
"""Options of every call of the library."""


def _whole(name: str, value: int, low: int, high: int | None, advice: str) -> int:
    """`value` if it is an integer from low to high."""
    upper = "" if high is None else f" to {high}"
    if isinstance(value, bool) or not isinstance(value, int) or value < low or (high is not None and value > high):
        raise ValueError(f"{name}: {value!r} given, an integer from {low}{upper or ' up'} expected; {advice}")
    return value


def _switch(name: str, value: bool) -> None:
    if value is not True and value is not False and value not in (0, 1):
        raise ValueError(f"{name}: {value!r} given, True or False expected")


def _device_sms() -> int | None:
    """Streaming multiprocessors of the current GPU; None without one."""
    if not torch.cuda.is_available():
        return None
    return int(torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count)


def set_num_sms(new_num_sms: int) -> None:
    """Lets later calls use at most so many streaming multiprocessors; 0 lets them use all."""
    limit = _whole("new_num_sms", new_num_sms, 0, _device_sms(), "0 lifts the limit")
    tell("set_num_sms", limit)
    # callers put back what get_num_sms answered: that is no limit either
    call_options["sm_limit"] = 0 if limit == (_device_sms() or HOPPER_SMS) else limit


def get_num_sms() -> int:
    """The limit of `set_num_sms`, or else all that the GPU has (132 where there is no GPU)."""
    return int(call_options["sm_limit"] or _device_sms() or HOPPER_SMS)


def set_tc_util(new_tc_util: int) -> None:
    """Kept only: no kernel here holds its tensor cores back."""
    _values["tc_util"] = _whole("new_tc_util", new_tc_util, 0, 100, "it is a percentage, 0 means 100")
    tell("set_tc_util", new_tc_util)


def get_tc_util() -> int:
    """What `set_tc_util` kept; 0 reads as 100."""
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
    """Checked only: every product here repeats bit for bit, whether it is asked for or not.

    DeepGEMM 2.8.0 may add parts of a sum in any order unless this was called. Results that do not depend on the rest of the
    batch are another matter: `tilewright.options(invariant=True)`.
    """
    _switch("enabled", enabled)
    tell("use_deterministic_algorithms", bool(enabled))


def set_ignore_compile_dims(new_value: bool) -> None:
    """Checked only: one compiled kernel serves all shapes."""
    _switch("new_value", new_value)
    tell("set_ignore_compile_dims", bool(new_value))


def set_block_size_multiple_of(new_value: int | tuple[int, int]) -> None:
    """Checked only: the planner chooses among the compiled tiles."""
    for value in new_value if isinstance(new_value, tuple | list) else (new_value,):
        _whole("new_value", value, 1, None, "give one number, or one for m and one for n")
    tell("set_block_size_multiple_of", new_value)


def set_mk_alignment_for_contiguous_layout(new_value: int) -> None:
    """Where groups start: multiples of it, and so many rows have the group of the first."""
    alignment = _whole("new_value", new_value, 1, None, "128 is what DeepGEMM starts with")
    tell("set_mk_alignment_for_contiguous_layout", alignment)
    _values["alignment"] = alignment


def get_mk_alignment_for_contiguous_layout() -> int:
    """128, unless `set_mk_alignment_for_contiguous_layout` said otherwise."""
    return int(_values["alignment"])


def get_theoretical_mk_alignment_for_contiguous_layout(
    expected_m: int | None = None, num_groups: int | None = None
) -> int:
    """128, as DeepGEMM answers on Hopper whatever rows are expected. Any multiple of 4 is as fast.

    expected_m: rows of a group, or of all of them together where num_groups, which newer callers add, is given.
    """
    if expected_m is not None:
        _whole("expected_m", expected_m, 0, None, "it counts rows; leave it out if it is not known")
    if num_groups is not None:
        _whole("num_groups", num_groups, 1, None, "it counts groups; leave it out with expected_m of one group")
    return DEFAULT_ALIGNMENT
