"""Layers of experts as a function."""

from __future__ import annotations

import inspect
import math
from typing import Any

import torch

from tilewright import _core
from tilewright._explanation import MoeExplanation
from tilewright._moe import Unit as UnitName
from tilewright._moe import WeightsAt
from tilewright._packing import PackedWeights
from tilewright._quantize import Quantized
from tilewright.torch import _checks, _in_force, _moe_checks, _moe_operators, _operators, _transforms
from tilewright.torch._expert_group import ExpertGroup, check_group
from tilewright.torch._frozen import FrozenCopy, copy_for
from tilewright.torch._linear import Kept
from tilewright.torch._moe_autograd import QuantizedExperts
from tilewright.torch._moe_passes import Given, Layer, forward_only, weights_operand
from tilewright.torch._recipes import RECIPES, GradientFormat
from tilewright.torch._reuse import reusable_copies
from tilewright.torch._units import Unit, numbers_of
from tilewright.torch._weights import Copies, copies_of

_NOTHING = (None, None)


def moe(
    x: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor | None,
    up: torch.Tensor | Quantized | PackedWeights,
    down: torch.Tensor | Quantized | PackedWeights,
    *,
    recipe: str = "1x128",
    gradient_format: GradientFormat = "e4m3",
    promoted: bool = True,
    activation: UnitName = "swiglu",
    alpha: float = 1.0,
    beta: float = 0.0,
    limit: float = math.inf,
    gate_bound: float = 4.0,
    up_bound: float = 25.0,
    interleaved: bool = False,
    weights_at: WeightsAt = "combine",
    activations: str | None = None,
    up_bias: torch.Tensor | None = None,
    down_bias: torch.Tensor | None = None,
    addend: torch.Tensor | None = None,
    expert_map: torch.Tensor | None = None,
    shared: int = 0,
    up_main_grad: torch.Tensor | None = None,
    down_main_grad: torch.Tensor | None = None,
    keep: Kept = "copy",
    group: ExpertGroup | None = None,
) -> torch.Tensor:
    """Computes a layer of experts, with autograd: each token goes through the experts that it chose.

    The result of a token is the sum of its experts' results, each multiplied by the weight of the choice. An expert is
    up, a unit, and down, each product with its bias. Real weights are quantized as they are at the call, except inside of
    `reuse_weights`. Without gradients the call is `tilewright.moe`. Training returns the same bits, up to 16,384 tokens.

    Args:
        x: tokens [..., hidden]. Dtype: float32, bfloat16 or float16.
        experts: int32 or int64 [..., k], the experts that each token chose. A number that names no expert is skipped.
        weights: [..., k] of float32, bfloat16 or float16, the weight of each choice. None: 1.
        up: master weights [experts, 2 * inner, hidden], gates first, then ups, or `interleaved`; without gates for
            relu_squared: [experts, inner, hidden]. Dtype: float32 or bfloat16. Or quantized weights, a `Quantized` or
            `PackedWeights` of torch tensors, for inference.
        down: master or quantized weights [experts, hidden, inner].
        recipe: scaling of the products of master weights: "row", "tensor", "1x128" (default), "1x128:128x128" or "fold". See
            `RECIPES`. Quantized weights have their own.
        gradient_format: format of the gradients in dgrad and wgrad, "e4m3" (default) or "e5m2".
        promoted: float32 sums every 128 products (default True). `grouped_linear` describes False.
        activation: "swiglu" (default), "situ", "geglu" or "relu_squared". `tilewright.moe` has their formulas.
        alpha, beta, limit: numbers of swiglu. gpt-oss: 1.702, 1 and 7. Default: 1, 0 and infinity.
        gate_bound, up_bound: numbers of situ. Default: 4 and 25.
        interleaved: True: gates and ups alternate along the rows of up. Default False.
        weights_at: what the weight multiplies. The expert's result with "combine", the unit's with "activation", x with
            "input": the last two ahead of their quantization. Default "combine".
        activations: for quantized weights: how x and the unit's result are quantized, as in `tilewright.moe`. Default None.
        up_bias: [experts, 2 * inner] of float32 or bfloat16. Default None.
        down_bias: [experts, hidden] of float32 or bfloat16. Default None.
        addend: the shape of x: a shared expert's result or a residual. Default None.
        expert_map: int32 [global experts], the local number of each global expert, -1 for those that are elsewhere. Default None.
        shared: the last `shared` experts take every token, with weight 1. Default 0.
        up_main_grad, down_main_grad: buffers to which backward adds the gradients of up and down. Default None. See
            `grouped_linear`.
        keep: what forward keeps of up and down for dgrad, "copy" (default) or "weight". See `grouped_linear`.
        group: the ranks over which the experts are spread. All ranks make the call. up, down and the biases have the experts of
            this rank. `experts` has the numbers of all ranks, and `shared` is that of the group. Default None: one rank.

    Returns:
        out, with the shape and dtype of x. It and all gradients are deterministic. x, weights, up, down, the biases and addend
        have gradients.

    Raises:
        ValueError: an argument has the wrong type, shape, dtype, device or value. The message names the argument.
        RuntimeError: in backward, with keep="weight", if a weight was written in place after forward.
    """
    unit = Unit(activation, *numbers_of(alpha, beta, limit, gate_bound, up_bound), interleaved)
    how = (recipe, gradient_format, promoted, keep)
    rest = (up_bias, down_bias, addend, expert_map, shared)
    main_grads = (up_main_grad, down_main_grad)
    return call(x, experts, weights, up, down, rest, main_grads, how, unit, weights_at, activations, None, group)


def explain_moe(
    x: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor | None,
    up: torch.Tensor | Quantized | PackedWeights,
    down: torch.Tensor | Quantized | PackedWeights,
    **keywords: Any,
) -> MoeExplanation:
    """Explains how a GPU would compute a call of `moe` without gradients: its steps and their predicted times. It needs no GPU.

    It takes the arguments of the call itself: change the name. `tilewright.options(planned_device=...)` says which GPU. Real weights
    are quantized as in the call.

    With `group` the steps are those of a round on each rank. The explanation then names the engine and the bytes from other ranks.
    It also says how long a rank waits for others. No other rank takes part.

    Args:
        x, experts, weights, up, down: as in `moe`, and so are all keywords. Keywords of backward change nothing.

    Returns:
        A `tilewright.MoeExplanation`. `print` shows it as text, a notebook as a table.

    Raises:
        ValueError: an argument has the wrong type, shape, dtype, device or value. The message names the argument.
        TypeError: an unknown keyword.
    """
    bound = inspect.signature(moe).bind(x, experts, weights, up, down, **keywords)
    bound.apply_defaults()
    given = bound.arguments
    numbers = numbers_of(*(given[name] for name in ("alpha", "beta", "limit", "gate_bound", "up_bound")))
    unit = Unit(given["activation"], *numbers, given["interleaved"])
    how = tuple(given[name] for name in ("recipe", "gradient_format", "promoted", "keep"))
    rest = tuple(given[name] for name in ("up_bias", "down_bias", "addend", "expert_map", "shared"))
    main_grads = (given["up_main_grad"], given["down_main_grad"])
    activations, group, is_quantized = given["activations"], given["group"], isinstance(up, _core.Operand)
    check_group(group)
    with torch.no_grad():
        _check(x, experts, weights, up, down, rest, main_grads, how, unit, given["weights_at"], activations, None, group)
        shared = given["shared"] if group is None else group.shared
        layer = Layer(*how[:3], unit.kind, numbers, unit.interleaved, given["weights_at"], shared, _in_force.word)
        w = (up, down) if is_quantized else _operands(up, down, None, layer)
    x, experts, weights, addend = _flat_tokens(x, experts, weights, given["addend"], int(up.shape[2]))
    tensors = Given(x, weights, given["up_bias"], given["down_bias"], addend, experts, given["expert_map"])
    sides = activations if is_quantized else layer.sides.activations
    explain, sides = (_explain_here, sides) if group is None else (group.explain, group.recipe)
    explanation: MoeExplanation = forward_only(tensors, *w, layer, sides, explain)
    return explanation


def _explain_here(x: torch.Tensor, up: Any, down: Any, own: dict[str, Any], options: dict[str, Any]) -> MoeExplanation:
    return MoeExplanation(*_core.explain_moe(x, up, down, layer=own, groups={}, options=options))


def _flat_tokens(
    x: torch.Tensor, experts: torch.Tensor, weights: torch.Tensor | None, addend: torch.Tensor | None, hidden: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """The tensors with one dimension of tokens."""
    if x.dim() == 2:
        return x, experts, weights, addend
    x, experts = x.reshape(-1, hidden), experts.reshape(-1, experts.shape[-1])
    weights = None if weights is None else weights.reshape(experts.shape)
    return x, experts, weights, None if addend is None else addend.reshape(x.shape)


def call(
    x: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor | None,
    up: Any,
    down: Any,
    rest: tuple[Any, ...],
    main_grads: tuple[torch.Tensor | None, torch.Tensor | None],
    how: tuple[str, str, bool, str],
    unit: Unit,
    weights_at: str,
    activations: str | None,
    frozen: tuple[FrozenCopy, FrozenCopy] | None,
    group: ExpertGroup | None,
) -> torch.Tensor:
    """`moe`, or the call of a module with its frozen copies."""
    up_bias, down_bias, addend, expert_map, shared = rest
    recipe, gradient_format, promoted, keep = how
    is_quantized = isinstance(up, _core.Operand)
    check_group(group)
    # Every rank of a group records gradients, or none does, whatever requires one.
    trains = torch.is_grad_enabled() and not is_quantized and frozen is None
    try:
        _check(x, experts, weights, up, down, rest, main_grads, how, unit, weights_at, activations, frozen, group)
        numbers = [unit.alpha, unit.beta, unit.limit, unit.gate_bound, unit.up_bound]
        of_all = 0 if group is not None else shared  # a group names the shared experts as further choices
        layer = Layer(recipe, gradient_format, promoted, unit.kind, numbers, unit.interleaved, weights_at, of_all, _in_force.word)
        joins = group is not None and not trains and group.has_one_call(x, experts, weights)
        w = _operands(up, down, frozen, layer) if joins and not is_quantized else (up, down)
    except Exception as error:  # whatever it is, the other ranks make the call
        if group is not None:
            group.take_part(error, trains, weights_at)
        raise
    shape = x.shape
    x, experts, weights, addend = _flat_tokens(x, experts, weights, addend, int(up.shape[2]))

    def local(
        x: torch.Tensor, experts: torch.Tensor, weights: torch.Tensor | None, addend: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The layer of the experts that are here."""
        given = (x, weights, up, down, up_bias, down_bias, addend)
        if is_quantized:
            return _quantized(given, experts, expert_map, layer, activations)
        return _differentiable(given, experts, expert_map, main_grads, keep == "weight", frozen, layer)

    if group is None:
        out = local(x, experts, weights, addend)
    elif joins:
        given = Given(x, weights, up_bias, down_bias, addend, experts, None)
        out = group.run(given, *w, layer._replace(shared=group.shared))
    else:
        out = group.sum(local(*group.gather(x, experts, weights, trains)), addend, x.shape[0])
    return out if len(shape) == 2 else out.view(shape)


def _check(
    x: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor | None,
    up: Any,
    down: Any,
    rest: tuple[Any, ...],
    main_grads: tuple[torch.Tensor | None, torch.Tensor | None],
    how: tuple[str, str, bool, str],
    unit: Unit,
    weights_at: str,
    activations: str | None,
    frozen: tuple[FrozenCopy, FrozenCopy] | None,
    group: ExpertGroup | None,
) -> None:
    """Refuses wrong arguments of `call`."""
    up_bias, down_bias, addend, expert_map, shared = rest
    _checks.check_recipe(*how)
    _moe_checks.check_unit(unit)
    _moe_checks.check_place(weights_at)
    _moe_checks.check_weights(up, down, unit)
    is_quantized = isinstance(up, _core.Operand)
    device = up.values.device if is_quantized else up.device
    _moe_checks.check_tokens(x, experts, weights, int(up.shape[2]), device)
    _moe_checks.check_rest(x, up, up_bias, down_bias, addend, expert_map, shared, device)
    if _transforms.are_active():
        _checks.refuse("x", "a tensor of torch.func", "a call outside of torch.func", "Layers of experts have no rules for it.")
    if is_quantized:
        _moe_checks.check_no_gradient(
            "the weights are quantized", "Pass master weights to train.",
            x=x, weights=weights, up_bias=up_bias, down_bias=down_bias, addend=addend,
        )  # fmt: skip
    else:
        if activations is not None:
            _checks.refuse("activations", repr(activations), "None with master weights", "Their recipe has both sides.")
        _moe_checks.check_main_grads(up, down, main_grads)
    if frozen is not None:
        _moe_checks.check_no_gradient(
            "the layer is frozen", "Call unfreeze() to train.",
            x=x, weights=weights, up=up, down=down, up_bias=up_bias, down_bias=down_bias, addend=addend,
        )  # fmt: skip
    if group is not None:
        group.check_layer(*map(int, up.shape[::2]), shared, activations if is_quantized else RECIPES[how[0]].activations)
        group.check_call(x, experts, expert_map)
        for name, tensor in (("x", x), ("up", up), ("down", down)):  # a rank that raised later would leave the others waiting
            if isinstance(tensor, torch.Tensor) and not _operators.is_watched(tensor):
                _checks.check_memory(name, tensor)


def _operands(up: torch.Tensor, down: torch.Tensor, frozen: tuple[FrozenCopy, FrozenCopy] | None, layer: Layer) -> tuple[Any, Any]:
    """Quantized copies of master weights, as the library takes them."""
    copies = []
    with torch.no_grad():
        for i, w in enumerate((up, down)):
            if frozen is not None:
                values, scales, checks = frozen[i]
                copies.append(copy_for(w, values, scales, layer.recipe, checks))
            else:
                reused = reusable_copies(w, layer.recipe, False)
                copies.append((copies_of(w, layer.recipe, True, False) if reused is None else reused).forward)
    return weights_operand(copies[0], layer), weights_operand(copies[1], layer)


def _quantized(
    given: tuple[Any, ...], experts: torch.Tensor, expert_map: torch.Tensor | None, layer: Layer, activations: str | None
) -> torch.Tensor:
    """Inference with quantized weights."""
    x, weights, up, down, up_bias, down_bias, addend = given
    tensors = (x, weights, up_bias, down_bias, addend, experts, expert_map)
    parts = (*_parts(up), *_parts(down))
    run = torch.ops.tilewright.moe_quantized if _operators.is_watched(x, weights, experts) else _moe_operators.moe_quantized
    out: torch.Tensor = run(*tensors, *parts, activations or "", *layer)
    return out


def _parts(w: Any) -> tuple[list[torch.Tensor], str]:
    """The tensors of quantized weights and their recipe, as the operator takes them."""
    if isinstance(w, PackedWeights):
        return [w.data], "packed:" + w.header.hex()
    return [tensor for tensor in (w.values, w.scales, w.tensor_scale) if tensor is not None], w.recipe


def _differentiable(
    given: tuple[Any, ...],
    experts: torch.Tensor,
    expert_map: torch.Tensor | None,
    main_grads: tuple[torch.Tensor | None, torch.Tensor | None],
    requantizes: bool,
    frozen: tuple[FrozenCopy, FrozenCopy] | None,
    layer: Layer,
) -> torch.Tensor:
    """The call as one node of autograd. Goes through the torch operator if something observes operators."""
    x, weights, up, down, up_bias, down_bias, addend = given
    _transforms.check_forward_gradients(x, up, up_bias)
    wants = [torch.is_grad_enabled() and tensor is not None and tensor.requires_grad for tensor in given]
    keeps = [any(wants[:6]), wants[2], wants[3]]
    wants_rows = wants[0] or (wants[1] and layer.weights_at == "input")
    wants_d_h = wants[0] or wants[1] or wants[2] or wants[4]
    watched = _operators.is_watched(*given, experts, expert_map, *main_grads)
    if watched and _operators.is_compiling():
        for w, wanted, main_grad in zip((up, down), keeps[1:], main_grads):
            if wanted and main_grad is not None:
                w.grad_added_to_main_grad = True
    copies = []
    with torch.no_grad():
        for i, (w, dgrad) in enumerate(((up, wants_rows), (down, wants_d_h))):
            dgrad = dgrad and not requantizes
            if frozen is not None:
                values, scales, checks = frozen[i]
                copies += [*((values, scales) if watched else copy_for(w, values, scales, layer.recipe, checks)), None, None]
            elif watched:
                copies += _flat(copies_of(w, layer.recipe, True, dgrad, _operators.watched_quantizer))
            else:
                reused = None if requantizes else reusable_copies(w, layer.recipe, dgrad)
                copies += _flat(copies_of(w, layer.recipe, True, dgrad) if reused is None else reused)
    checks = frozen is not None and frozen[0].checks
    inputs = (*given, experts, expert_map, *copies, *main_grads, keeps, requantizes, frozen is not None, checks, *layer)
    if watched:
        out: torch.Tensor = torch.ops.tilewright.moe(*inputs)[0]
        return out
    result: torch.Tensor = QuantizedExperts.apply(*inputs)
    return result


def _flat(copies: Copies) -> tuple[torch.Tensor | None, ...]:
    return (*(copies.forward or _NOTHING), *(copies.dgrad or _NOTHING))
