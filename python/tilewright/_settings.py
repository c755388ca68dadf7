"""Options that a call takes from its surroundings: a `with` block of the thread or task, or the process."""

from __future__ import annotations

import os
import threading
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple, TypeAlias

from tilewright import _core

# A name, or the path of a device file.
PlannedDevice: TypeAlias = (
    Literal["automatic", "h200", "h100", "h100-pcie", "h100-nvl", "h800", "h200-nvl", "h20", "gh200"] | str | os.PathLike[str]
)


class Settings(NamedTuple):
    """The values of all three options, as `tw.options.current()` returns them."""

    invariant: bool = False
    overlap: bool = False
    planned_device: PlannedDevice = "automatic"


def _checked(name: str, value: Any) -> Any:
    """The value, or InvalidCall about the option."""
    if name == "planned_device":
        if value is None:
            _core.refuse(name, "None", '"automatic", the name of a GPU, e.g. "h100", or a device file')
        return _core.device_word(value)
    if type(value).__name__ not in ("bool", "bool_"):  # the latter is numpy's
        _core.refuse(name, repr(value), "True or False")
    return bool(value)


class Defaults:
    """Options of the process, for every thread: what a call uses if neither it nor a `with tw.options` block says more.

    Assign to an attribute to change it. The next call of any thread sees the change.

    Attributes:
        invariant: bool. False at first.
        overlap: bool. False at first.
        planned_device: a name, a device file, or "automatic", which it is at first.

    `help(tw.options)` describes the three options.

    Raises:
        InvalidCall: the value is not one of the option's.
        AttributeError: there is no such option.

    >>> defaults.invariant = True
    >>> options.current().invariant
    True
    >>> defaults.invariant = False
    """

    __slots__ = ("_changing", "_values")
    invariant: bool
    overlap: bool
    planned_device: PlannedDevice

    def __init__(self) -> None:
        object.__setattr__(self, "_values", Settings())
        object.__setattr__(self, "_changing", threading.Lock())

    def __getattr__(self, name: str) -> Any:
        if name in Settings._fields:
            return getattr(self._values, name)
        raise AttributeError(f"tilewright.defaults has no option {name!r}. It has {', '.join(Settings._fields)}.")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in Settings._fields:
            raise AttributeError(f"tilewright.defaults has no option {name!r}. It has {', '.join(Settings._fields)}.")
        checked = _checked(name, value)
        with self._changing:
            object.__setattr__(self, "_values", self._values._replace(**{name: checked}))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *Settings._fields]

    def __repr__(self) -> str:
        return "defaults(" + ", ".join(f"{name}={value!r}" for name, value in self._values._asdict().items()) + ")"


defaults = Defaults()


class _Block:
    """One `with` block that was entered. The same `options` object may have several, in several threads."""

    __slots__ = ("ended", "given")

    def __init__(self, given: options) -> None:
        self.given = given
        self.ended = False


_entered: ContextVar[tuple[_Block, ...]] = ContextVar("tilewright.options", default=())  # the innermost is last


class options:  # noqa: N801
    """Sets options for the calls inside of a `with` block, in this thread or asyncio task only.

    A call uses its own keyword first, then the innermost block that gives the option, then `tw.defaults`.

    - Blocks nest, and end with an exception too.
    - A new thread starts with `tw.defaults`. An asyncio task and `asyncio.to_thread` start with the options of their creator.
    - In a generator, a block also reaches the caller between two `next()`: put it around the calls, not around `yield`.
    - The backward of a layer of `tilewright.torch` uses the options of its forward, on any thread.
    - `torch.compile` compiles a layer again for other options. Enter a block outside of the compiled function.

    Args:
        invariant: bool. True: an element of D depends only on its own row, column, scales and C (or bias), not on the rest
            of the batch. False: results repeat from run to run.
        overlap: bool. On a GPU: the kernel may start while the previous kernel of the stream ends, and waits for it
            inside (programmatic dependent launch). A sequence of short calls takes less time. Results do not change.
        planned_device: a name or a path: calls follow the plans, and so the bits, of that GPU. The plan decides where k is
            split. Nothing moves to another GPU, because a call runs where its arrays are.

            - "h200", "h100", "h100-pcie", "h100-nvl", "h800", "h200-nvl", "h20", "gh200": plan as that GPU would. The CPU
              follows it for bit-exact and invariant results. A GPU then plans at each call.
            - "automatic": the GPU that holds the arrays. On the CPU: the GPU that is present, or else the H200. Looking for
              a GPU opens its driver, after which a forked child cannot use CUDA.
            - A path with a "/" or ending in ".tsv", or an `os.PathLike`: the GPU that this device file describes. It is read
              now, and again when it has changed. `tools/measure_device` writes one for the GPU that is present.

    None, the default of all three, keeps what is in force outside of the block.

    Raises:
        InvalidCall: the value is not one of the option's, or the device file has a mistake. The message names its line.

    >>> with options(invariant=True):
    ...     with options(planned_device="h100"):
    ...         options.current()
    Settings(invariant=True, overlap=False, planned_device='h100')
    >>> options.current()
    Settings(invariant=False, overlap=False, planned_device='automatic')
    """

    __slots__ = ("_open", "invariant", "overlap", "planned_device")

    def __init__(
        self,
        *,
        invariant: bool | None = None,
        overlap: bool | None = None,
        planned_device: PlannedDevice | None = None,
    ) -> None:
        self.invariant = None if invariant is None else _checked("invariant", invariant)
        self.overlap = None if overlap is None else _checked("overlap", overlap)
        self.planned_device = None if planned_device is None else _checked("planned_device", planned_device)
        self._open: list[_Block] = []

    def __enter__(self) -> options:
        block = _Block(self)
        self._open.append(block)
        _entered.set((*(outer for outer in _entered.get() if not outer.ended), block))
        return self

    def __exit__(self, *_: object) -> None:
        # Not ContextVar.reset: blocks of two generators may end in another order than they began.
        for block in reversed(_entered.get()):
            if block.given is self and not block.ended:
                break
        else:  # A generator that is closed by another thread or task than began its block.
            if len(self._open) != 1:
                return  # whose block ends is not known
            block = self._open[0]
        block.ended = True
        self._open.remove(block)
        _entered.set(tuple(outer for outer in _entered.get() if not outer.ended))

    def __repr__(self) -> str:
        given = ((name, getattr(self, name)) for name in Settings._fields)
        return "options(" + ", ".join(f"{name}={value!r}" for name, value in given if value is not None) + ")"

    @staticmethod
    def current() -> Settings:
        """The options in force here and now: `invariant`, `overlap` and `planned_device`."""
        entered = _entered.get()
        values: Settings = defaults._values
        if not entered:
            return values
        invariant, overlap, planned_device = values
        for block in (entry.given for entry in entered if not entry.ended):
            invariant = invariant if block.invariant is None else block.invariant
            overlap = overlap if block.overlap is None else block.overlap
            planned_device = planned_device if block.planned_device is None else block.planned_device
        return Settings(invariant, overlap, planned_device)


current = options.current


def settled(invariant: Any, overlap: Any, planned_device: Any) -> tuple[Any, Any, Any]:
    """The call's own values; where it gives None, those in force."""
    now = current()
    return (
        now.invariant if invariant is None else invariant,
        now.overlap if overlap is None else overlap,
        now.planned_device if planned_device is None else planned_device,
    )
