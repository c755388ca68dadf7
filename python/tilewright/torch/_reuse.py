"""Copies of weights that serve several calls, because the caller says that the weights stay as they are: `reuse_weights`."""

from __future__ import annotations

import weakref
from contextvars import ContextVar
from types import TracebackType
from typing import Any, NamedTuple

import torch

from tilewright.torch import _checks, _operators
from tilewright.torch._memory import Memory, memory_of
from tilewright.torch._recipes import RECIPES
from tilewright.torch._weights import Copies, copies_of, dgrad_of


class _Entry(NamedTuple):
    weight: weakref.ref[torch.Tensor]
    memory: Memory
    version: int | None  # None: a tensor of inference mode, which counts none
    copies: Copies


class _Store:
    """The copies of one context, by the weight, how it is quantised, and the stream on which that was done."""

    def __init__(self, captured: bool) -> None:
        self.captured = captured  # whether the context began while a CUDA graph was captured
        self._entries: dict[tuple[int, str, int], _Entry] = {}

    def copies(self, w: torch.Tensor, recipe: str, dgrad: bool) -> Copies:
        key = (id(w), recipe, _stream(w))
        entry = self._entries.get(key)
        if entry is not None and (entry.weight() is not w or entry.memory != memory_of(w)):
            entry = None
        if entry is not None and entry.version != _version(w):
            _checks.refuse(
                "w",
                "a weight that was written since a call inside of reuse_weights() quantised it",
                "one that stays as it is until the context ends",
                "leave the context before the optimizer's step",
            )
        if entry is None or (dgrad and entry.copies.dgrad is None):
            self._entries[key] = entry = self._made(w, recipe, dgrad, None if entry is None else entry.copies)
        return entry.copies if dgrad else Copies(entry.copies.forward, None)

    def _made(self, w: torch.Tensor, recipe: str, dgrad: bool, known: Copies | None) -> _Entry:
        with torch.inference_mode(False):  # what is made in inference mode can't be saved for backward by a later call
            if known is None:
                copies = copies_of(w, recipe, True, dgrad)
            elif known.forward is not None and RECIPES[recipe].backward_weights is None:
                copies = Copies(known.forward, dgrad_of(known.forward, recipe))
            else:
                copies = Copies(known.forward, copies_of(w, recipe, False, dgrad).dgrad)
        return _Entry(weakref.ref(w), memory_of(w), _version(w), copies)

    def clear(self) -> None:
        self._entries.clear()


_STORES: ContextVar[tuple[_Store, ...]] = ContextVar("tilewright.torch.reuse_weights", default=())
"""Of the contexts that this thread is inside of, the innermost last."""


class reuse_weights:  # noqa: N801: a context, named as torch.no_grad is
    """Inside, a weight is quantised by its first call, and the copy serves the others: for the microbatches of a step.

        with tilewright.torch.reuse_weights():
            for x, target in microbatches:
                loss(model(x), target).backward()
        optimizer.step()

    The caller promises that weights are not written inside. The copies are dropped at the end, also where an exception ends
    it. A context inside of another one uses its copies. It serves the thread that entered it. Layers that keep W itself
    (`keep="weight"`, shards of FSDP), compiled layers, and a CUDA graph that is captured inside quantise at each call as ever;
    a context within the captured part serves that part.

    Raises:
        ValueError: by a layer's call inside, when torch counts a write to its weight since the copy was made.
    """

    def __init__(self) -> None:
        self._entered: list[tuple[tuple[_Store, ...], _Store | None]] = []

    def __enter__(self) -> reuse_weights:
        if _operators.is_compiling():  # compiled calls quantise on their own
            return self
        outer, captured = _STORES.get(), _captures()
        own = None if outer and outer[-1].captured == captured else _Store(captured)
        self._entered.append((outer, own))
        if own is not None:
            _STORES.set((*outer, own))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if _operators.is_compiling() or not self._entered:
            return
        outer, own = self._entered.pop()
        _STORES.set(outer)
        if own is not None:
            own.clear()


def reusable_copies(w: torch.Tensor, recipe: str, dgrad: bool) -> Copies:
    """Of the context that this call is inside of, if there is one; else made now."""
    stores = _STORES.get()
    # A replay of a graph would read copies that are gone by then, and calls outside of it what no replay has written yet.
    if stores and stores[-1].captured == _captures():
        return stores[-1].copies(w, recipe, dgrad)
    return copies_of(w, recipe, True, dgrad)


def _captures() -> bool:
    """Whether the calls of this moment go into a CUDA graph."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def _stream(w: torch.Tensor) -> int:
    """Another stream would not wait for the quantiser."""
    return int(torch.cuda.current_stream(w.device).cuda_stream) if w.is_cuda else 0


def _version(w: Any) -> int | None:
    return None if w.is_inference() else int(w._version)
