"""The kind of GPU, and decorators for test functions."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import torch


def get_arch_major() -> int:
    """The major compute capability of the current GPU. Without a GPU it is 9 (Hopper)."""
    return torch.cuda.get_device_capability()[0] if torch.cuda.is_available() else 9


def test_filter(condition: Callable[[], bool]) -> Callable[..., Any]:
    """A decorator: the function runs if the condition holds at the call, and otherwise prints that it is skipped."""

    def decorated(function: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> None:
            if condition():
                function(*args, **kwargs)
            else:
                print(f"{function.__name__}: skipped, because its condition does not hold\n")

        return wrapper

    return decorated


test_filter.__test__ = False  # type: ignore[attr-defined]  # not a test, despite its name


def ignore_env(name: str, condition: Callable[[], bool]) -> Callable[..., Any]:
    """A decorator: the function runs without the environment variable, if the condition holds at the call."""

    def decorated(function: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> None:
            value = os.environ.pop(name, None) if condition() else None
            try:
                function(*args, **kwargs)
            finally:
                if value is not None:
                    os.environ[name] = value

        return wrapper

    return decorated
