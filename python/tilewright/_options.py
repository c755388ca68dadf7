"""Types of the keywords that multiplications take, and messages for arguments that a function does not take."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar, cast

Layout: TypeAlias = Literal["nt", "nn", "tn", "tt"]
OutputFormat: TypeAlias = Literal["bf16", "f16", "f32", "bfloat16", "float16", "float32"] | Any
Accumulation: TypeAlias = Literal["promoted", "unpromoted"]
Arithmetic: TypeAlias = Literal["fast", "bit_exact"]
Backend: TypeAlias = Literal["automatic", "cpu", "hopper"]

# Names of these keywords in other libraries, and other words for the same thing.
_OTHER_WORDS = {
    "ends": "offsets",
    "offs": "offsets",
    "sizes": "offsets",
    "group_sizes": "offsets",
    "m_sizes": "offsets",
    "dtype": "out_dtype",
    "output": "out",
    "output_dtype": "out_dtype",
    "device": "planned_device",
    "reproducibility": "invariant",
    "recipe": "activations",
    "topk_ids": "experts",
    "top_k_index": "experts",
    "topk_weights": "weights",
    "top_k_weights": "weights",
    "probs": "row_weights",
}
_GROUPS = ("indices", "offsets", "aligned_offsets", "counts")

Function = TypeVar("Function", bound=Callable[..., Any])


def _about_unknown(function: Callable[..., Any], unknown: str, known: list[str]) -> str:
    """The keyword that was meant, and all that there are."""
    meant = _OTHER_WORDS.get(unknown, "")
    if meant not in known:
        meant = next(iter(difflib.get_close_matches(unknown, known, 1)), "")
    advice = f" Did you mean {meant}=?" if meant else ""
    if meant == "offsets" and "sizes" in unknown:
        advice += " It takes the running sum of the sizes."
    if meant == "planned_device":
        advice += " A call runs where its arrays are."
    return f"{function.__name__}() has no keyword '{unknown}'.{advice} Keywords: {', '.join(known)}."


def _about_positions(function: Callable[..., Any], operands: list[str], known: list[str]) -> str:
    groups = [f"{name}=" for name in known if name in _GROUPS]
    rest = f"groups by keyword: {', '.join(groups[:-1])} or {groups[-1]}" if groups else "the rest by keyword, e.g. out="
    if "experts" in known:
        rest = "the rest by keyword, e.g. experts="
    if operands == ["a", "b"]:
        return f"{function.__name__}() takes only a and b by position. Pass {rest}."
    return f"{function.__name__}() takes only {', '.join(operands[:-1])} and {operands[-1]} by position. Pass {rest}."


def helpful(function: Function) -> Function:
    """Says more than Python where a call has arguments that the function does not take."""
    parameters = inspect.signature(function).parameters.values()
    operands = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # from inside of the function: its arguments were taken
            unknown = next((name for name in keywords if name not in known and name not in operands), None)
            if unknown is not None:
                message = _about_unknown(function, unknown, known)
            elif len(args) > len(operands):
                message = _about_positions(function, operands, known)
            else:
                raise  # an operand is missing, or given twice: Python says which
        raise TypeError(message)

    return cast(Function, call)
