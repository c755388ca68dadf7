"""The options of a layer's call as a word, which goes through the operators to backward, on any thread of autograd.

The word is a digit each for `invariant` and `overlap`, then the planned device. `_core.linear_forward` reads it.

`_in_force.word` is the word of `tilewright.options.current()`. It is an attribute of the module, because torch.compile guards
attributes of modules by reading them again at each call: under other options it compiles again. A ContextVar it cannot trace.
"""

from __future__ import annotations

from tilewright._settings import Settings, options

_last: tuple[Settings, str] = (Settings(), "00automatic")


def __getattr__(name: str) -> str:
    if name != "word":
        raise AttributeError(name)
    return word_now()


def word_now() -> str:
    """`word`, for calls that no compiler traces: in a third of the time."""
    global _last
    now, last = options.current(), _last
    if now is not last[0]:  # outside of any block it is one object until a default changes
        last = _last = now, f"{int(now.invariant)}{int(now.overlap)}{now.planned_device}"
    return last[1]
