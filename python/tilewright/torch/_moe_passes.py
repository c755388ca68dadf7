"""Forward and backward of a layer of experts on tensors. Autograd and the torch operators call them.

Without gradients, forward is one call of the library. With gradients it is the same steps one by one, because backward needs what
passes between them. Both return the same bits for one chunk of tokens. The host reads no values from a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from tilewright import _core
from tilewright.torch import _sums
from tilewright.torch._recipes import RECIPES, LayerRecipe
from tilewright.torch._units import Unit
from tilewright.torch._weights import ALIGNMENT, Pair

_NO_FACTORS = (None, None, None, None)


class Layer(NamedTuple):
    """The options of a layer's call; `moe` documents them."""

    recipe: str
    gradient_format: str
    promoted: bool
    activation: str
    numbers: list[float]  # alpha, beta, limit, gate_bound, up_bound
    interleaved: bool
    weights_at: str
    shared: int
    options: str  # a word of `_in_force`

    @property
    def unit(self) -> Unit:
        return Unit(self.activation, *self.numbers, self.interleaved)

    @property
    def sides(self) -> LayerRecipe:
        return RECIPES[self.recipe]

    @property
    def accumulation(self) -> str:
        return "promoted" if self.promoted else "unpromoted"

    @property
    def in_force(self) -> dict[str, Any]:
        word = self.options
        return {"invariant": word[0] == "1", "overlap": word[1] == "1", "planned_device": word[2:]}

    def gradient_side(self, side: str) -> str:
        return side if self.gradient_format == "e4m3" else f"{self.gradient_format}.{side}"


class Rows(NamedTuple):
    """Where the choices of tokens are, as `tilewright.route` returns it."""

    rows: torch.Tensor
    sources: torch.Tensor
    ends: torch.Tensor
    weights: torch.Tensor | None

    @property
    def tokens(self) -> torch.Tensor:
        """The token of each row; of rows of no expert, some token."""
        return self.sources // max(self.rows.shape[1], 1)


class Kept(NamedTuple):
    """The tensors that forward keeps for backward, in addition to its inputs."""

    gate_up: torch.Tensor
    x: Pair | None  # the operand of wgrad of up
    h: Pair | None  # the operand of wgrad of down
    rows: Rows


class Given(NamedTuple):
    """The tensors of a call."""

    x: torch.Tensor
    weights: torch.Tensor | None
    up_bias: torch.Tensor | None
    down_bias: torch.Tensor | None
    addend: torch.Tensor | None
    experts: torch.Tensor
    expert_map: torch.Tensor | None


def _detached(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return None if tensor is None else tensor.detach()


def _rows_of(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """Rows of adjacent numbers."""
    return None if tensor is None else tensor.detach().contiguous()


def forward_only(
    given: Given, up: Any, down: Any, layer: Layer, activations: str | None, run: Callable[..., Any] | None = None
) -> Any:
    """The layer as one call. `up` and `down` are operands of the library. activations None: what goes with up.

    run: computes it over the ranks of a group, or explains it. Default: computes it here.
    """
    own = {
        "experts": given.experts,
        "weights": _detached(given.weights),
        "expert_map": given.expert_map,
        "shared": layer.shared,
        **layer.unit.keywords,
        "activations": activations,
        "weights_at": layer.weights_at,
        "up_bias": _detached(given.up_bias),
        "down_bias": _detached(given.down_bias),
        "addend": _rows_of(given.addend),
    }
    options = {"accumulation": layer.accumulation, **layer.in_force}
    if run is not None:
        return run(_rows_of(given.x), up, down, own, options)
    return _core.moe(_rows_of(given.x), up, down, layer=own, groups={}, options=options)


def weights_operand(copy: Pair, layer: Layer) -> Any:
    return _core.Operand(copy[0], layer.sides.weights, copy[1], None)


def forward_pass(
    given: Given, up: Pair, down: Pair, keeps_x: bool, keeps_h: bool, layer: Layer
) -> tuple[torch.Tensor, Kept]:
    """The layer step by step. `up` and `down` are the copies for forward."""
    sides = layer.sides
    weights = _detached(given.weights)
    experts = up[0].shape[0]
    routed = Rows(*_core.route(given.experts, experts, weights, given.expert_map, layer.shared, None))
    x, tokens = given.x.detach().contiguous(), routed.tokens
    x_codes, x_kept = _quantized(x, routed, sides, keeps_x, _factor(routed, layer, "input"), index=tokens)
    if sides.activations == "tensor" and layer.weights_at != "input":  # one scale of all tokens, as `tilewright.moe` has it
        values, scales, _ = _core.quantize(x, "tensor", False, False, 0, None)
        x_codes = (values.view(torch.uint8).index_select(0, tokens).view(values.dtype), scales)
    gate_up = x.new_empty(tokens.shape[0], up[0].shape[1], dtype=torch.bfloat16)
    _multiply_rows(x_codes, sides.activations, weights_operand(up, layer), routed.ends, gate_up, layer, given.up_bias)
    if layer.activation == "swiglu":
        factor = _factor(routed, layer, "activation")
        h_codes, h_kept = _quantized(gate_up, routed, sides, keeps_h, factor, layer)
    else:
        numbers = _core.activate(gate_up, routed.ends, layer.unit.keywords)
        h_codes, h_kept = _quantized(numbers, routed, sides, keeps_h, _factor(routed, layer, "activation"))
    y = x.new_empty(tokens.shape[0], down[0].shape[1], dtype=torch.bfloat16)
    _multiply_rows(h_codes, sides.activations, weights_operand(down, layer), routed.ends, y, layer, given.down_bias)
    at_sum = weights if layer.weights_at == "combine" else None
    out = _core.combine(y, routed.rows, at_sum, _rows_of(given.addend), _sums.OUTPUTS[given.x.dtype])
    return out, Kept(gate_up, x_kept, h_kept, routed)


def _factor(routed: Rows, layer: Layer, place: str) -> torch.Tensor | None:
    return routed.weights if layer.weights_at == place else None


def _quantized(
    x: torch.Tensor,
    routed: Rows,
    sides: LayerRecipe,
    keeps: bool,
    factor: torch.Tensor | None,
    unit_of: Layer | None = None,
    index: torch.Tensor | None = None,
) -> tuple[Pair, Pair | None]:
    """The operand of forward, and that of wgrad. With `unit_of`, of SwiGLU of x. With an index, of the rows of x that it names. A
    recipe that folds keeps forward's."""
    columns = sides.columns if keeps else None
    form = (1.0, 0.0, float("inf"), False) if unit_of is None else (*unit_of.numbers[:3], unit_of.interleaved)
    unit = "none" if unit_of is None else "swiglu"
    factors = (factor, None, factor if columns else None, None)
    rows, kept = _core.quantize_tokens(
        x, routed.ends, sides.activations, columns, unit, None, index, form, factors, False, 0, None
    )
    return rows, rows if keeps and sides.folds else kept


def _multiply_rows(
    a: Pair, side: str, b: Any, ends: torch.Tensor, out: torch.Tensor, layer: Layer, bias: torch.Tensor | None = None, layout: str = "nt"
) -> None:
    groups = {"grouping": "m_grouped_offsets", "sizes": ends, "word": "ends"}
    options = {"layout": layout, "out": out, "bias": _detached(bias), "accumulation": layer.accumulation, **layer.in_force}
    _core.multiply(_core.Operand(a[0], side, a[1], None), b, groups=groups, options=options)


class Wanted(NamedTuple):
    """The gradients that are requested from backward."""

    x: bool
    weights: bool
    up: bool
    down: bool
    up_bias: bool
    down_bias: bool


class Gradients(NamedTuple):
    x: torch.Tensor | None = None
    weights: torch.Tensor | None = None
    up: torch.Tensor | None = None
    down: torch.Tensor | None = None
    up_bias: torch.Tensor | None = None
    down_bias: torch.Tensor | None = None


class Saved(NamedTuple):
    """Tensors of forward; None where no wanted gradient needs them."""

    x: torch.Tensor | None
    weights: torch.Tensor | None
    down_bias: torch.Tensor | None
    kept: Kept
    up: Pair | None  # the copies for dgrad
    down: Pair | None


def backward_pass(
    d_out: torch.Tensor,
    saved: Saved,
    main_grads: tuple[torch.Tensor | None, torch.Tensor | None],
    dtypes: tuple[torch.dtype, torch.dtype],
    wanted: Wanted,
    layer: Layer,
) -> Gradients:
    """The gradients. Those of up and down are None if they were added to their main_grad.

    With weights at the sum, d_h is that of an output with weight 1. The weight of the row multiplies what follows from it. So
    the gradient of a weight is the dot product of h and d_h wherever the weight is.
    """
    made: dict[str, torch.Tensor | None] = {}
    kept = saved.kept
    routed, sides = kept.rows, layer.sides
    ends, factor = routed.ends, routed.weights
    at_sum = factor if layer.weights_at == "combine" else None
    d_out, tokens = d_out.detach().contiguous(), routed.tokens
    aligned = _aligned(ends, tokens.shape[0])
    if wanted.down_bias or saved.down_bias is not None:
        d_y = d_out.index_select(0, tokens)
    if wanted.down_bias:
        weighted = d_y if at_sum is None else d_y.float() * at_sum[:, None]
        made["down_bias"] = _sums.sums_of_groups(weighted, ends)
    wants_d_h = wanted.x or wanted.weights or wanted.up or wanted.up_bias
    d_y_rows, d_y_columns = _quantized_gradient(
        d_out, None, routed, saved.down if wants_d_h else None, kept.h if wanted.down else None, at_sum, None, layer, tokens
    )
    if wanted.down:
        made["down"] = _wgrad(d_y_columns, kept.h, aligned, ends, main_grads[1], dtypes[1], layer)
    if not wants_d_h:
        return Gradients(**made)
    d_h = _dgrad(d_y_rows, saved.down, ends, layer)
    if wanted.weights and layer.weights_at != "input":
        assert saved.weights is not None
        choices = saved.weights.shape[1]
        made["weights"] = _core.weight_gradient(kept.gate_up, d_h, routed.rows, choices, layer.unit.keywords)
        if saved.down_bias is not None and at_sum is not None:
            group = _sums.group_of_rows(ends, tokens.shape[0]).clamp(max=ends.shape[0] - 1)
            of_rows = (saved.down_bias.float().index_select(0, group) * d_y).sum(1)
            made["weights"] += _by_choice(of_rows, routed.rows, choices)
        made["weights"] = made["weights"].to(saved.weights.dtype)
    inner_factor = None if layer.weights_at == "input" else factor
    wants_rows = wanted.x or (wanted.weights and layer.weights_at == "input")
    wants_operands = wants_rows or wanted.up
    is_fused = layer.activation == "swiglu"  # the quantizer computes the gradient
    if wanted.up_bias or (wants_operands and not is_fused):
        d_gate_up = _core.unit_gradient(kept.gate_up, d_h, ends, layer.unit.keywords)
    if wanted.up_bias:
        weighted = d_gate_up if inner_factor is None else d_gate_up * inner_factor[:, None]
        made["up_bias"] = _sums.sums_of_groups(weighted, ends)
    if wants_operands:
        d_rows, d_columns = _quantized_gradient(
            kept.gate_up if is_fused else d_gate_up,
            d_h if is_fused else None,
            routed,
            saved.up if wants_rows else None,
            kept.x if wanted.up else None,
            inner_factor,
            inner_factor,
            layer,
        )
        if wanted.up:
            made["up"] = _wgrad(d_columns, kept.x, aligned, ends, main_grads[0], dtypes[0], layer)
        if wants_rows:
            d_x = _dgrad(d_rows, saved.up, ends, layer)
            at_input = saved.weights if layer.weights_at == "input" else None
            if wanted.weights and layer.weights_at == "input":
                x = saved.x.index_select(0, tokens)
                of_rows = (x.float() * d_x.float()).sum(1)
                made["weights"] = _by_choice(of_rows, routed.rows, saved.weights.shape[1]).to(saved.weights.dtype)
            if wanted.x:
                made["x"] = _core.combine(d_x, routed.rows, at_input, None, _sums.OUTPUTS[d_out.dtype])
    return Gradients(**made)


def _quantized_gradient(
    x: torch.Tensor,
    gradient: torch.Tensor | None,
    routed: Rows,
    w: Pair | None,
    kept: Pair | None,
    column_factor: torch.Tensor | None,
    row_factor: torch.Tensor | None,
    layer: Layer,
    index: torch.Tensor | None = None,
) -> tuple[Pair | None, Pair | None]:
    """The gradient by rows for dgrad (with w) and by columns for wgrad (with the operand that forward kept).

    x has the rows, or an index names them. With `gradient`, that of h, it is the gradient of gate_up by SwiGLU; gate_up is x. A
    folded recipe multiplies it by the scales of w, and of the rows of the other operand of wgrad.
    """
    sides = layer.sides
    unit, form = "none", (1.0, 0.0, float("inf"), False)
    if gradient is not None:
        unit, form = "swiglu_gradient", (*layer.numbers[:3], layer.interleaved)
    features = None
    if sides.folds:
        features = None if w is None else w[1]
        if kept is not None:
            column_factor = kept[1] if column_factor is None else kept[1] * column_factor
    if w is None and kept is None:
        return None, None
    rows, columns = _core.quantize_tokens(
        x,
        routed.ends,
        None if w is None else layer.gradient_side(sides.gradients),
        None if kept is None else layer.gradient_side(sides.gradient_columns),
        unit,
        gradient,
        index,
        form,
        (None if w is None else row_factor, features, None if kept is None else column_factor, None),
        False,
        0,
        None,
    )
    return rows, columns


def _dgrad(rows: Pair | None, w: Pair | None, ends: torch.Tensor, layer: Layer) -> torch.Tensor:
    assert rows is not None and w is not None
    sides = layer.sides
    values, scales = w
    if sides.folds:
        operand = _core.Operand(values, "e4m3", None, None)
    elif sides.backward_weights is not None:
        operand = _core.Operand(values, sides.backward_weights, scales, None)
    else:
        operand = _core.Operand(values, sides.weights, scales.mT if sides.weights == "128x128" else scales, None)
    features = values.shape[-1 if sides.dgrad_layout == "nn" else -2]
    out = values.new_empty(rows[0].shape[0], features, dtype=torch.bfloat16)
    _multiply_rows(rows, layer.gradient_side(sides.gradients), operand, ends, out, layer, layout=sides.dgrad_layout)
    return out


def _wgrad(
    columns: Pair | None,
    kept: Pair | None,
    aligned: torch.Tensor,
    ends: torch.Tensor,
    main_grad: torch.Tensor | None,
    dtype: torch.dtype,
    layer: Layer,
) -> torch.Tensor | None:
    """dW, or None if it was added to main_grad."""
    assert columns is not None and kept is not None
    sides = layer.sides
    if sides.folds:
        codes = _core.Operand(kept[0], "e4m3", None, None)
        other = _core.Operand(_core.transpose_codes(codes, ends, "e4m3", 0, None)[0], "e4m3", None, None)
    else:
        other = _core.Operand(kept[0], str(sides.columns), kept[1], None)
    groups = {"grouping": "k_grouped_aligned_offsets", "sizes": aligned, "word": "ends", "alignment": ALIGNMENT}
    options = {"accumulation": layer.accumulation, **layer.in_force}
    if main_grad is None:
        options["out_dtype"] = _sums.OUTPUTS[dtype]
    else:
        options["out"] = options["c"] = main_grad
    a = _core.Operand(columns[0], layer.gradient_side(sides.gradient_columns), columns[1], None)
    made: torch.Tensor = _core.multiply(a, other, groups=groups, options=options)
    return made if main_grad is None else None


def _aligned(ends: torch.Tensor, rows: int) -> torch.Tensor:
    """The end of each group where each begins at a multiple of 128."""
    sizes, begins = _sums.sizes_and_begins(ends, rows)
    return begins + sizes


def _by_choice(of_rows: torch.Tensor, rows: torch.Tensor, choices: int) -> torch.Tensor:
    """Numbers of rows in float32 [T, choices]: 0 for choices without a row."""
    rows = rows[:, :choices]
    if of_rows.shape[0] == 0:
        return of_rows.new_zeros(rows.shape)
    found = of_rows.index_select(0, rows.clamp(min=0).flatten()).view(rows.shape)
    return torch.where(rows >= 0, found, 0.0)
