"""A real DeepGEMM under another name, to which names that are missing here are forwarded, and settings with them."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from types import ModuleType
from typing import Any

from tilewright.deep_gemm._checks import refuse

VARIABLE = "TILEWRIGHT_DEEP_GEMM_FALLBACK"
"""The environment variable that names the module in processes where nobody calls `fall_back_to`: spawned workers."""

_module: ModuleType | None = None
# Imported at the first missing name: the caller of this package may be the one that is being imported.
_named = os.environ.get(VARIABLE, "")
_settings: dict[str, Any] = {}


def fall_back_to(module: ModuleType | str | None) -> None:
    """Forwards names of DeepGEMM that are missing here to a real DeepGEMM, in this process and until told otherwise.

    `set_num_sms` and the other settings reach it too, those that were set before included. In processes that a program
    spawns, the environment variable TILEWRIGHT_DEEP_GEMM_FALLBACK with the module's name does the same.

    Args:
        module: the module or its name, e.g. "vllm.third_party.deep_gemm"; None forwards nothing any more.

    Raises:
        ImportError: there is no module of that name.
        ValueError: it is no module, or it is this package.
    """
    global _module, _named
    _module, _named = _checked(module), ""
    for setter, value in _settings.items():
        _set(setter, value)


def _checked(module: ModuleType | str | None) -> ModuleType | None:
    found = importlib.import_module(module) if isinstance(module, str) else module
    if found is not None and not isinstance(found, ModuleType):
        refuse("module", type(found).__name__, "a module, its name, or None")
    if found is sys.modules[__package__]:
        refuse("module", f"{__package__} itself", "a real DeepGEMM", 'e.g. "vllm.third_party.deep_gemm"')
    return found


def module() -> ModuleType | None:
    """That of the last `fall_back_to`, or else of the environment."""
    global _named
    if _named:
        name, _named = _named, ""
        try:
            fall_back_to(name)
        except Exception as error:  # DeepGEMM asserts when it is imported without a compiler, for example
            warnings.warn(f"{VARIABLE}: {name} given, a module expected that can be imported: {error}", stacklevel=2)
    return _module


def part(name: str) -> Any:
    """The submodule of this name, or the module itself for ""; None where there is none."""
    found = module()
    return getattr(found, name, None) if name else found


def tell(setter: str, value: Any) -> None:
    """Calls the function of this name there too, now and whenever another module is chosen."""
    _set(setter, value)
    _settings[setter] = value


def _set(setter: str, value: Any) -> None:
    function = getattr(_module, setter, None)
    if function is not None:
        function(value)
