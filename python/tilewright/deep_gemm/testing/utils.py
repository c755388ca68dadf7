"""Which GPU this is, and decorators for test functions."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import torch


def get_arch_major() -> int:
    """The current GPU's compute capability without its fraction; 9, whose API this is, where there is no GPU."""
    return torch.cuda.get_device_capability()[0] if torch.cuda.is_available() else 9


def test_filter(condition: Callable[[], bool]) -> Callable[..., Any]:
    """The function runs only if the condition holds when it is called; else it says that it does not."""

    def decorated(function: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> None:
            if condition():
                function(*args, **kwargs)
            else:
                print(f"{function.__name__}: left out, its condition does not hold\n")

        return wrapper

    return decorated


test_filter.__test__ = False  # type: ignore[attr-defined]  # pytest takes it for a test


def ignore_env(name: str, condition: Callable[[], bool]) -> Callable[..., Any]:
    """The function runs without the environment variable if the condition holds when it is called."""

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
