"""The door to SGLang: `--moe-runner-backend tilewright`, or TILEWRIGHT_ENGINE=1, and its FP8 and MXFP4 experts run here.

SGLang calls `register` in each of its processes (entry point group `sglang.srt.plugins`). It has a registry of MoE runners, which
`register` uses. Its quantization methods have closed lists of runners, however, and choose one per layer. So `register` also hooks
three of their functions, by SGLang's own registry of hooks, in versions whose sources were read. It refuses others by name.

The name `tilewright` is settled when SGLang initializes its MoE settings (`_sglang_fit.settle`): a layer that does not qualify
runs as with `--moe-runner-backend auto`.
"""

from __future__ import annotations

import importlib
import logging
import sys
from typing import Any

from tilewright.integrations._fit import Unfit, decline, enabled, tested_version

TESTED = ("0.5.21", "0.5.23")
NAME = "tilewright"
LOGGER = logging.getLogger(f"sglang.{NAME}")
_OPTION = "--moe-runner-backend"
_METHODS = ("fp8.Fp8MoEMethod", "mxfp4.Mxfp4MoEMethod")
_registered = False


def register() -> None:
    """Makes `tilewright` a MoE runner of SGLang, once per process. It does nothing unless it is asked for.

    Raises:
        RuntimeError: with TILEWRIGHT_STRICT=1, this SGLang was not tested. Otherwise the log has one line.
    """
    global _registered
    if _registered or not (enabled() or _is_named(sys.argv)):
        return
    try:
        tested_version("SGLang", "sglang", TESTED)
        _install()
    except Unfit as reason:
        decline("sglang", "any layer of SGLang", reason, "SGLang's own code", LOGGER)
    except (AttributeError, ImportError, ValueError) as error:  # a build of a tested version that differs from the release
        decline("sglang", "any layer of SGLang", f"{type(error).__name__}: {error}", "SGLang's own code", LOGGER)
    else:
        _registered = True


def _is_named(arguments: list[str]) -> bool:
    """Whether the command line names the runner. Processes that SGLang starts have its command line."""
    pairs = zip(arguments, [*arguments[1:], ""])
    return any(first == f"{_OPTION}={NAME}" or (first, second) == (_OPTION, NAME) for first, second in pairs)


def _install() -> None:
    hooks, settings, moe_runner = (
        importlib.import_module(f"sglang.srt.{name}") for name in ("plugins.hook_registry", "server_args", "layers.moe.moe_runner")
    )
    around, after = hooks.HookType.AROUND, hooks.HookType.AFTER
    moe_runner.register_moe_runner_core(NAME, _core)  # this registers the name too
    settings.add_moe_runner_backend_choices([NAME])
    hooks.HookRegistry.register("sglang.srt.layers.moe.utils.initialize_moe_config", _lazy("_sglang_fit", "settle"), after)
    for method in _METHODS:
        for function in ("create_moe_runner", "process_weights_after_loading", "apply"):
            target = f"sglang.srt.layers.quantization.{method}.{function}"
            hooks.HookRegistry.register(target, _lazy("_sglang_layers", function), around)


def _core(config: Any) -> Any:
    from tilewright.integrations._sglang_layers import TilewrightRunnerCore

    return TilewrightRunnerCore(config)


def _lazy(file: str, name: str) -> Any:
    """A function of a file that is imported when SGLang first calls it."""

    def hook(*given: Any, **named: Any) -> Any:
        return getattr(importlib.import_module(f"tilewright.integrations.{file}"), name)(*given, **named)

    hook.__name__ = hook.__qualname__ = f"tilewright_{name}"
    return hook
