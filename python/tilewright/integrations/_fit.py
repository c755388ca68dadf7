"""Whether a layer of an engine fits, and how an engine's user learns that one does not."""

from __future__ import annotations

import functools
import logging
import os
from importlib import metadata
from typing import TYPE_CHECKING, Literal, NoReturn

if TYPE_CHECKING:
    import torch

HOPPER = (9, 0)


class Unfit(Exception):
    """Why a layer does not qualify: `operand: got X; expected Y`, without a period at the end."""


def unfit(operand: str, got: object, expected: str) -> NoReturn:
    """Raises `Unfit` with the text `operand: got X; expected Y`."""
    raise Unfit(f"{operand}: got {got}; expected {expected}")


def enabled() -> bool:
    """Whether the environment asks for Tilewright: TILEWRIGHT_ENGINE=1. For engines that load doors by themselves."""
    return os.environ.get("TILEWRIGHT_ENGINE", "") == "1"


def is_strict() -> bool:
    """Whether a layer that does not qualify is an error: TILEWRIGHT_STRICT=1."""
    return os.environ.get("TILEWRIGHT_STRICT", "") == "1"


def mxfp4_activations() -> Literal["bf16", "fp8"]:
    """Activations of vLLM's and SGLang's MXFP4 layers: bf16, or with TILEWRIGHT_MXFP4_ACTIVATIONS=fp8 fp8 (1x128).

    Raises:
        Unfit: another word.
    """
    word = os.environ.get("TILEWRIGHT_MXFP4_ACTIVATIONS", "bf16")
    if word == "bf16" or word == "fp8":
        return word
    unfit("TILEWRIGHT_MXFP4_ACTIVATIONS", word, "bf16 or fp8")


_told: set[tuple[str, str, str]] = set()


def decline(engine: str, layer: str, reason: str | Unfit, instead: str, logger: logging.Logger | None = None) -> None:
    """Says once per layer and reason that the engine's own code runs it.

    Args:
        engine: the name of the engine's module, e.g. "transformers".
        layer: the name of the layer, as the engine's user knows it.
        reason: an `Unfit`, or its text.
        instead: what runs instead.
        logger: the engine's own. None: `tilewright.integrations.<engine>`. The line is a warning.

    Raises:
        RuntimeError: the same line, with TILEWRIGHT_STRICT=1.
    """
    line = f"tilewright does not run {layer}: {reason}. {instead} runs instead."
    if is_strict():
        raise RuntimeError(f"{line} It is an error because TILEWRIGHT_STRICT=1.")
    if (engine, layer, str(reason)) in _told:
        return
    _told.add((engine, layer, str(reason)))
    (logger or logging.getLogger(f"tilewright.integrations.{engine}")).warning(line)


def tested_version(engine: str, package: str, tested: tuple[str, ...]) -> None:
    """Checks the installed version of a package, without importing it. A local part, as in 0.33.0+cu130, does not matter.

    Args:
        engine: the engine as a reader knows it, e.g. "vLLM".
        package: the name of its distribution, e.g. "vllm".
        tested: the versions with which the door was tested.

    Raises:
        Unfit: the package is missing, or its version was not tested. The text has both.
    """
    try:
        installed = metadata.version(package)
    except metadata.PackageNotFoundError:
        unfit(engine, "no installation", f"{package} {_either(tested)}, the tested versions")
    if installed.partition("+")[0] not in tested:
        unfit(engine, f"{package} {installed}", f"{_either(tested)}, the tested versions")


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(names)


def check_device(device: torch.device) -> None:
    """Checks that the library runs on a device: the CPU, or a GPU of compute capability 9.0.

    Raises:
        Unfit: another device. The text has its compute capability.
    """
    if device.type == "cpu":
        return
    if device.type != "cuda":
        unfit("device", device.type, "cpu, or a GPU of compute capability 9.0")
    name, capability = _card(device.index)
    if capability != HOPPER:
        unfit("device", f"{name} of compute capability {capability[0]}.{capability[1]}", "9.0")


@functools.cache
def _card(index: int | None) -> tuple[str, tuple[int, int]]:
    import torch

    return torch.cuda.get_device_name(index), torch.cuda.get_device_capability(index)
