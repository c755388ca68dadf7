"""transformers' modules of experts as layers of the library: their unit, their weights, and why one does not qualify."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch

from tilewright.integrations._experts import ExpertLayer, check_real, fp8_blocks, mxfp4_codes
from tilewright.integrations._fit import unfit
from tilewright.integrations._recipes import check_training
from tilewright.integrations._units import SWIGLU, same_unit
from tilewright.torch._units import Unit

WEIGHTS = ("gate_up_proj", "up_proj", "down_proj")
"""The weights of experts, of which a module has the first or the second, and the third."""


def is_dispatched(module: torch.nn.Module) -> bool:
    """Whether transformers runs the module through its interface of experts, where Tilewright is registered."""
    return hasattr(type(module), "_apply_gate") and hasattr(module, "is_transposed")


def looks_like_experts(module: torch.nn.Module) -> bool:
    """Whether the module has two stacks of weights, as experts have. Llama 4's are not dispatched: they get no expert ids."""
    stacks = [module._parameters.get(name) for name in WEIGHTS]
    return sum(w is not None and w.dim() == 3 for w in stacks) == 2


def is_fp8(module: torch.nn.Module) -> bool:
    """Whether the module is transformers' FP8Experts with weights of one byte."""
    return hasattr(module, "activation_scheme") and module.down_proj.element_size() == 1


def unit_of(module: torch.nn.Module) -> Unit:
    """The unit that the module computes, found by calling the module's own functions.

    Raises:
        Unfit: no unit of the library computes the same, or something follows the experts.
    """
    if getattr(module, "has_post_expert_norm", False):
        unfit("experts", "a norm after each expert (has_post_expert_norm)", "no norm")
    if not module.has_gate:
        unit = same_unit(module.act_fn, [SWIGLU._replace(kind="relu_squared")])
        if unit is None:
            unfit("act_fn", f"{_name_of_activation(module)} without gates", "relu squared, or experts with gates")
        return unit
    unit = same_unit(module._apply_gate, _candidates(module))
    if unit is None:
        given = f"{type(module).__name__}._apply_gate with act_fn {_name_of_activation(module)}"
        unfit("_apply_gate", given, "the numbers of SwiGLU with alpha, beta and limit, of gelu with tanh, or of SiTU")
    return unit


def _name_of_activation(module: torch.nn.Module) -> str:
    return type(getattr(module, "act_fn", None)).__name__


def _candidates(module: torch.nn.Module) -> list[Unit]:
    """Units with the numbers that the module and its config have. Plain SwiGLU is first."""
    alphas = [1.0, *_numbers(module, "alpha", "swiglu_alpha")]
    limits = [math.inf, *_numbers(module, "limit", "swiglu_limit")]
    units = [SWIGLU._replace(alpha=a, beta=b, limit=c) for a, b, c in itertools.product(alphas, (0.0, 1.0), limits)]
    units.append(SWIGLU._replace(kind="geglu"))
    gates, ups = _numbers(module, "gate_softcap", "mlp_gate_softcap"), _numbers(module, "up_softcap", "mlp_up_softcap")
    units += [SWIGLU._replace(kind="situ", gate_bound=gate, up_bound=up) for gate, up in itertools.product(gates, ups)]
    return [unit._replace(interleaved=interleaved) for interleaved in (False, True) for unit in units]


def _numbers(module: torch.nn.Module, *names: str) -> list[float]:
    found = [getattr(owner, name, None) for owner in (module, getattr(module, "config", None)) for name in names]
    return sorted({float(number) for number in found if isinstance(number, int | float) and number > 0})


def layer_of(module: Any, unit: Unit, recipe: str | None, training: bool) -> ExpertLayer:
    """The module's weights as they are now. Nothing is quantized or copied, but scales of FP8 that are not float32.

    Raises:
        Unfit: the weights do not fit, or real ones have no recipe.
    """
    up = module.gate_up_proj if module.has_gate else module.up_proj
    if is_fp8(module):
        if training:
            unfit(_weights_name(module), f"{up.dtype} in a call with gradients", "a call under torch.no_grad()")
        return _fp8_layer(module, up, unit)
    if recipe is None:
        advice = 'register(recipe="1x128"), prepare(model, recipe="1x128") or another recipe'
        unfit("recipe", f"none for weights of {str(up.dtype).removeprefix('torch.')}", advice)
    down = module.down_proj
    for name, w in ((_weights_name(module), up), ("down_proj", down)):
        check_real(name, w, recipe, training)
    if module.is_transposed:
        up, down = up.transpose(1, 2), down.transpose(1, 2)
    up_bias = getattr(module, f"{_weights_name(module)}_bias") if module.has_bias else None
    down_bias = module.down_proj_bias if module.has_bias else None
    return ExpertLayer(up, down, up_bias, down_bias, unit, recipe)


def check_unprepared(recipe: str | None, module: torch.nn.Module) -> None:
    """Real weights that each call quantizes have a recipe of training. MXFP4 is packed once.

    Raises:
        Unfit: another recipe.
    """
    if recipe is not None and not is_fp8(module):
        check_training(recipe)


def _weights_name(module: torch.nn.Module) -> str:
    return "gate_up_proj" if module.has_gate else "up_proj"


@torch.compiler.disable  # operands of the library cannot be made in a graph
def _fp8_layer(module: Any, up: torch.Tensor, unit: Unit) -> ExpertLayer:
    if module.activation_scheme != "dynamic":
        unfit("activation_scheme", repr(module.activation_scheme), "'dynamic', scales of activations that are computed")
    down, scale_name = module.down_proj, f"{_weights_name(module)}_scale_inv"
    scales = (getattr(module, scale_name), module.down_proj_scale_inv)
    if up.dtype == torch.int8:  # FP4, two per byte, with powers of two per 32: DeepSeek-V4
        operands = [mxfp4_codes(w.data, s.data) for w, s in zip((up, down), scales)]
    else:
        operands = [fp8_blocks(w.data, s.data, module.block_size) for w, s in zip((up, down), scales)]
    return ExpertLayer(*operands, unit=unit, activations="1x128")
