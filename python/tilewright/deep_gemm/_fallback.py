"""A real DeepGEMM under another name, which gets the names that are missing here, and the settings."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from types import ModuleType
from typing import Any

from tilewright.deep_gemm._checks import refuse

VARIABLE = "TILEWRIGHT_DEEP_GEMM_FALLBACK"
"""The environment variable that names the module in processes that do not call `fall_back_to`, such as spawned workers."""

_module: ModuleType | None = None
# Imported at the first missing name, not now: the named module may itself import this package.
_named = os.environ.get(VARIABLE, "")
_settings: dict[str, Any] = {}


def fall_back_to(module: ModuleType | str | None) -> None:
    """Forwards names of DeepGEMM that are missing here to a real DeepGEMM, in this process, until the next call.

    The settings (`set_num_sms` and the others) are forwarded too, also those set earlier. For spawned processes, set the
    environment variable TILEWRIGHT_DEEP_GEMM_FALLBACK to the name of the module.

    Args:
        module: the module or its name, e.g. "vllm.third_party.deep_gemm". None ends the forwarding.

    Raises:
        ImportError: no module has that name.
        ValueError: the argument is not a module, or it is this package.
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
        refuse("module", f"{__package__} itself", "a real DeepGEMM", 'For example "vllm.third_party.deep_gemm".')
    return found


def module() -> ModuleType | None:
    """The module of the last `fall_back_to`; without a call, the module that the environment variable names."""
    global _named
    if _named:
        name, _named = _named, ""
        try:
            fall_back_to(name)
        except Exception as error:  # DeepGEMM asserts when it is imported without a compiler, for example
            warnings.warn(f"{VARIABLE}: got {name}; expected a module that can be imported. {error}", stacklevel=2)
    return _module


def part(name: str) -> Any:
    """The submodule of this name, such as "utils.math", or the module itself for ""; None if it does not exist."""
    found = module()
    for step in name.split(".") if name else ():
        found = getattr(found, step, None)
    return found


def tell(setter: str, value: Any) -> None:
    """Calls the setter of this name in the real DeepGEMM, now and each time another module is chosen."""
    _set(setter, value)
    _settings[setter] = value


def _set(setter: str, value: Any) -> None:
    function = getattr(_module, setter, None)
    if function is not None:
        function(value)
