"""`reuse_weights`: fp8 copies of weights that serve several calls, while the caller does not write the weights."""

from __future__ import annotations

import weakref
from contextvars import ContextVar
from types import TracebackType
from typing import Any, NamedTuple

import torch

from tilewright.torch import _checks, _operators
from tilewright.torch._memory import Memory, memory_of
from tilewright.torch._recipes import RECIPES
from tilewright.torch._weights import Copies, copies_of


class _Entry(NamedTuple):
    weight: weakref.ref[torch.Tensor]
    memory: Memory
    version: int | None  # None: an inference tensor, which has no version counter
    copies: Copies


class _Store:
    """The copies of one context, by the weight, the recipe, and the stream that quantized the weight."""

    def __init__(self, captured: bool) -> None:
        self.captured = captured  # whether the context began during the capture of a CUDA graph
        self._entries: dict[tuple[int, str, int], _Entry] = {}

    def copies(self, w: torch.Tensor, recipe: str, dgrad: bool) -> Copies:
        key = (id(w), recipe, _stream(w))
        entry = self._entries.get(key)
        if entry is not None and (entry.weight() is not w or entry.memory != memory_of(w)):
            entry = None
        if entry is not None and entry.version != _version(w):
            _checks.refuse(
                "w",
                "a weight that was written after reuse_weights() quantized it",
                "a weight that is not written inside of the context",
                "Leave the context before the optimizer's step.",
            )
        if entry is None or (dgrad and entry.copies.dgrad is None):
            self._entries[key] = entry = self._made(w, recipe, dgrad, None if entry is None else entry.copies)
        return entry.copies if dgrad else Copies(entry.copies.forward, None)

    def _made(self, w: torch.Tensor, recipe: str, dgrad: bool, known: Copies | None) -> _Entry:
        with torch.inference_mode(False):  # a later call cannot save an inference tensor for backward
            if known is None:
                copies = copies_of(w, recipe, True, dgrad)
            elif known.forward is not None and RECIPES[recipe].backward_weights is None:
                copies = Copies(known.forward, known.forward)
            else:
                copies = Copies(known.forward, copies_of(w, recipe, False, dgrad).dgrad)
        return _Entry(weakref.ref(w), memory_of(w), _version(w), copies)

    def clear(self) -> None:
        self._entries.clear()


_STORES: ContextVar[tuple[_Store, ...]] = ContextVar("tilewright.torch.reuse_weights", default=())
"""The stores of the contexts that this thread has entered, the innermost last."""


class reuse_weights:  # noqa: N801: a context, named as torch.no_grad is
    """A context in which each weight is quantized once, by the first call that uses it:

        with tilewright.torch.reuse_weights():
            for x, target in microbatches:
                loss(model(x), target).backward()
        optimizer.step()

    Do not write weights inside. The end of the context drops the copies, also after an exception. An inner context uses the
    copies of the outer one. A context serves only the thread that entered it.

    These quantize at each call, also inside:

    - layers that keep W itself: `keep="weight"`, and weights sharded by FSDP
    - compiled layers
    - a CUDA graph whose capture begins inside. A context entered during the capture serves the captured calls.

    Raises:
        ValueError: in the call of a layer, if torch counted a write to its weight after the copy was made.
    """

    def __init__(self) -> None:
        self._entered: list[tuple[tuple[_Store, ...], _Store | None]] = []

    def __enter__(self) -> reuse_weights:
        if _operators.is_compiling():  # compiled calls quantize at each call
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


def reusable_copies(w: torch.Tensor, recipe: str, dgrad: bool) -> Copies | None:
    """The copies of the innermost context. None outside of any context."""
    stores = _STORES.get()
    # A replay of a graph would read copies that the context has dropped. Calls outside of the graph would read copies that no
    # replay has written yet.
    if stores and stores[-1].captured == _captures():
        return stores[-1].copies(w, recipe, dgrad)
    return None


def is_active() -> bool:
    """Whether this thread has entered a context."""
    return bool(_STORES.get())


def _captures() -> bool:
    """Whether the current stream is captured in a CUDA graph."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def _stream(w: torch.Tensor) -> int:
    """The current stream, part of the key: a call on another stream would not wait for the quantizer."""
    return int(torch.cuda.current_stream(w.device).cuda_stream) if w.is_cuda else 0


def _version(w: Any) -> int | None:
    return None if w.is_inference() else int(w._version)
