"""The options of a layer's call as a word, which goes through the operators to backward, on any thread of autograd.

`_in_force.word` is the word of `tilewright.options.current()`. It is an attribute of the module, because torch.compile guards
attributes of modules by reading them again at each call: under other options it compiles again. A ContextVar it cannot trace.
"""

from __future__ import annotations

from typing import cast

from tilewright._settings import PlannedDevice, options


def __getattr__(name: str) -> str:
    if name != "word":
        raise AttributeError(name)
    now = options.current()
    return f"{int(now.invariant)}{int(now.overlap)}{now.planned_device}"


def applied(word: str) -> options:
    """The `with` block of these options."""
    return options(invariant=word[0] == "1", overlap=word[1] == "1", planned_device=cast(PlannedDevice, word[2:]))
