"""The plan of one module of experts of transformers, and its call.

A plan is an attribute of its module. `prepare` makes it, or the first call, which is the first to know the device. It holds the
unit, and the quantized weights of a module that was prepared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tilewright.integrations._experts import ExpertLayer
from tilewright.integrations._fit import Unfit, check_device, decline
from tilewright.integrations._holding import drop, free, held, hold, place_of_held
from tilewright.integrations._transformers_layers import WEIGHTS, check_unprepared, layer_of, unit_of
from tilewright.torch._units import Unit

ENGINE = "transformers"
_PLAN = "_tilewright"
_INSTEAD = "grouped_mm"


@dataclass
class Settings:
    """What `register` was told."""

    recipe: str | None = None
    refusal: str | None = None  # why no module qualifies: an untested version


settings = Settings()


@dataclass(eq=False)
class Plan:
    name: str
    device: torch.device
    unit: Unit | None = None
    reason: str | None = None  # why the module does not qualify
    prepared: ExpertLayer | None = None
    recipe: str | None = None  # of `prepared`
    holds: bool = False  # whether `prepared` is in buffers of the module
    freed: tuple[str, ...] = ()


def run(module: Any, x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, interface: Any) -> torch.Tensor:
    """The module's call: by the library, or by transformers with a line in its log."""
    plan: Plan | None = getattr(module, _PLAN, None)
    if plan is None or plan.device != x.device:
        plan = make_plan(module, x.device)
    with_gradient = torch.is_grad_enabled() and (x.requires_grad or weights.requires_grad or _trains(module))
    if plan.prepared is not None:
        if with_gradient:
            raise RuntimeError(_of_prepared(plan, "a call with gradients", "one under torch.no_grad()"))
        return plan.prepared.tokens(x, ids, weights)
    reason = plan.reason
    if reason is None and plan.unit is not None:
        try:
            check_unprepared(settings.recipe, module)
            return layer_of(module, plan.unit, settings.recipe, with_gradient).tokens(x, ids, weights)
        except (Unfit, ValueError) as error:
            reason = " ".join(str(error).split()).removesuffix(".")
    return _by_engine(module, plan.name, str(reason), interface)(module, x, ids, weights)


def _trains(module: torch.nn.Module) -> bool:
    """Whether real weights want gradients. FP8's do not, whatever the parameter says."""
    parameters = module._parameters.items()
    return any(w is not None and w.requires_grad and w.element_size() > 1 and not _is_scale(name) for name, w in parameters)


def _is_scale(name: str) -> bool:
    return name.endswith("_scale_inv")


def _by_engine(module: Any, name: str, reason: str, interface: Any) -> Any:
    """transformers' own function, after the line in its log."""
    from transformers.utils import logging

    eager = getattr(module, "activation_scheme", "dynamic") == "static"  # the other functions refuse it
    instead = "the eager loop" if eager else _INSTEAD
    decline(ENGINE, name, reason, f"transformers' {instead}", logging.get_logger("transformers.integrations.tilewright"))
    return type(module).forward.__wrapped__ if eager else interface[_INSTEAD]


@torch.compiler.disable
def make_plan(module: Any, device: torch.device, name: str | None = None) -> Plan:
    """Plans a module for a device. torch.compile does not trace it: with fullgraph=True, call the model or `prepare` first."""
    plan: Plan | None = module.__dict__.get(_PLAN)
    if plan is not None and plan.prepared is not None:
        return _moved(module, plan, device)
    plan = Plan(name or (plan.name if plan else _describe(module)), device, reason=settings.refusal)
    try:
        if plan.reason is None:
            check_device(device)
            plan.unit = unit_of(module)
    except Unfit as unfit:
        plan.reason = str(unfit)
    module.__dict__[_PLAN] = plan
    return plan


def forget_plans(module: torch.nn.Module) -> None:
    """Plans the modules again in their next call, but those that were prepared."""
    for each in module.modules():
        plan = each.__dict__.get(_PLAN)
        if plan is not None and plan.prepared is None:
            del each.__dict__[_PLAN]


def _describe(module: Any) -> str:
    return f"{type(module).__name__} {list(module.down_proj.shape)}"


def _moved(module: Any, plan: Plan, device: torch.device) -> Plan:
    """The plan of a prepared module that was moved to another device."""
    assert plan.prepared is not None and plan.unit is not None
    place = place_of_held(module) if plan.holds else module.down_proj.device
    if place != device:
        raise RuntimeError(_of_prepared(plan, f"tokens on {device}", f"{place}, where its weights are"))
    plan.prepared = held(module, plan.prepared) if plan.holds else layer_of(module, plan.unit, None, False)
    plan.device = device
    return plan


def prepare_module(module: Any, name: str, recipe: str | None, frees: bool) -> None:
    """Quantizes or packs the module's weights once. Raises `Unfit`."""
    plan: Plan | None = module.__dict__.get(_PLAN)
    if plan is not None and plan.freed:
        if recipe in (None, plan.recipe):
            return
        raise RuntimeError(_of_prepared(plan, f"prepare(recipe={recipe!r})", repr(plan.recipe)))
    release_module(module)
    plan = make_plan(module, module.down_proj.device, name)
    if plan.reason is not None or plan.unit is None:
        raise Unfit(plan.reason)
    layer = layer_of(module, plan.unit, recipe, False)
    made = layer.quantized()
    plan.recipe, plan.holds = recipe, made is not layer
    if plan.holds:
        hold(module, made)
        made = held(module, made)
    plan.prepared = made
    if plan.holds and frees:
        plan.freed = tuple(n for n in module._parameters if n in WEIGHTS or _is_scale(n))
        free(module, plan.freed, _of_prepared(plan, "a use of its original weights", "calls without gradients only"))


def release_module(module: Any) -> None:
    """Ends what `prepare_module` began."""
    plan: Plan | None = module.__dict__.get(_PLAN)
    if plan is None:
        return
    if plan.freed:
        raise RuntimeError(_of_prepared(plan, "release(model)", "a model whose originals are there"))
    drop(module)
    del module.__dict__[_PLAN]


def _of_prepared(plan: Plan, got: str, expected: str) -> str:
    """A message `operand: got X; expected Y. What to do.` about a module that was prepared."""
    advice = "Load the model again, and pass free_originals=False to prepare" if plan.freed else "Call release(model) to train"
    return f"{plan.name}, prepared for inference by tilewright: got {got}; expected {expected}. {advice}."
