"""The keywords that all multiplications take, stated once: types for editors, a signature for help()."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from typing import Any, Literal, NoReturn, TypeAlias, TypedDict, TypeVar

from tilewright import _settings
from tilewright._arrays import Array
from tilewright._settings import Reproducibility

Layout: TypeAlias = Literal["nt", "nn", "tn", "tt"]
OutputFormat: TypeAlias = Literal["bf16", "f16", "f32", "bfloat16", "float16", "float32"] | Any
Accumulation: TypeAlias = Literal["promoted", "unpromoted"]
Arithmetic: TypeAlias = Literal["fast", "bit_exact", "hopper"]
Device: TypeAlias = Literal["h200", "h100", "h100-pcie", "h100-nvl", "h800", "h200-nvl", "h20", "gh200"]
Backend: TypeAlias = Literal["automatic", "cpu", "hopper"]
Grouping: TypeAlias = Literal[
    "dense",
    "batched",
    "m_grouped_indices",
    "m_grouped_offsets",
    "m_grouped_aligned_offsets",
    "m_grouped_masked",
    "k_grouped",
    "k_grouped_aligned_offsets",
    "k_grouped_flat",
]


class Options(TypedDict, total=False):
    """What a multiplication is asked to do; `help(tilewright)` describes each. C++ reads it (options.cpp)."""

    layout: Layout
    out: Array | None
    out_dtype: OutputFormat | None
    c: Array | None
    bias: Array | None
    alpha: float
    accumulation: Accumulation
    arithmetic: Arithmetic
    reproducibility: Reproducibility | None
    backend: Backend
    threads: int
    sm_limit: int
    stream: object | None
    overlap: bool | None
    workspace: Array | None
    device: Device | None


# As C++ has them; None for what the process chooses.
DEFAULTS: Options = {
    "layout": "nt",
    "out": None,
    "out_dtype": None,
    "c": None,
    "bias": None,
    "alpha": 1.0,
    "accumulation": "promoted",
    "arithmetic": "fast",
    "reproducibility": None,
    "backend": "automatic",
    "threads": 0,
    "sm_limit": 0,
    "stream": None,
    "overlap": None,
    "workspace": None,
    "device": None,
}

_KNOWN = frozenset(DEFAULTS)
# What other libraries call these keywords, and words of ours for the same thing.
_OTHER_WORDS = {
    "ends": "offsets",
    "offs": "offsets",
    "sizes": "offsets",
    "group_sizes": "offsets",
    "m_sizes": "offsets",
    "dtype": "out_dtype",
    "output": "out",
    "output_dtype": "out_dtype",
}

# The keywords of grouped_gemm, and what validate and explain call them.
M_GROUPINGS = {
    "indices": "m_grouped_indices",
    "offsets": "m_grouped_offsets",
    "aligned_offsets": "m_grouped_aligned_offsets",
    "counts": "m_grouped_masked",
}

Function = TypeVar("Function", bound=Callable[..., Any])


def refuse_unknown(function: Callable[..., Any], options: Options) -> NoReturn:
    """Raises TypeError for the first keyword that `function` does not take: the one meant, and all that it takes."""
    known = list(inspect.signature(function).parameters)[2:]  # behind a and b
    unknown = next(name for name in options if name not in _KNOWN)
    meant = _OTHER_WORDS.get(unknown, "")
    if meant not in known:
        meant = next(iter(difflib.get_close_matches(unknown, known, 1)), "")
    advice = f"; perhaps {meant} is meant" if meant else ""
    if meant == "offsets" and "sizes" in unknown:
        advice += ", which takes the running sum of the sizes"
    if unknown in M_GROUPINGS and "grouping" in known:
        advice = f"; perhaps grouping='{M_GROUPINGS[unknown]}', sizes={unknown} is meant"
    words = ", ".join(known)
    raise TypeError(f"{function.__name__}: unexpected keyword argument '{unknown}'{advice}; there are {words}")


def completed(options: Options, function: Callable[..., Any]) -> Options:
    """The caller's options; where they leave one out or pass None, the setting of the process.

    function: the public one that was called, whose signature the message about an unknown keyword lists.
    """
    if not options.keys() <= _KNOWN:
        refuse_unknown(function, options)
    if options.get("reproducibility") is None:
        options["reproducibility"] = _settings.reproducibility
    if options.get("overlap") is None:
        options["overlap"] = _settings.overlap
    if _settings.device is not None and options.get("device") is None:
        options["device"] = _settings.device
    return options


def with_options(function: Function) -> Function:
    """Replaces `**options` by every keyword of Options in the signature that help(), inspect and shells show."""
    shown = inspect.signature(function)
    unnamed = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)  # the latter only to refuse them
    own = [parameter for parameter in shown.parameters.values() if parameter.kind not in unnamed]
    annotations = Options.__annotations__
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=_text(annotations[name]))
        for name, default in DEFAULTS.items()
    ]
    function.__signature__ = shown.replace(parameters=[*own, *common])  # type: ignore[attr-defined]
    for parameter in shown.parameters.values():
        if parameter.kind in unnamed:
            del function.__annotations__[parameter.name]
    function.__annotations__.update({parameter.name: parameter.annotation for parameter in common})
    return function


def _text(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else annotation.__forward_arg__
