"""The weights of an engine's layer of experts as operands of the library, and the layer's call on them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch

import tilewright.torch
from tilewright import Quantized, _core, moe, options
from tilewright._moe import WeightsAt
from tilewright.integrations._operator import Parts, by_operator, parts_of
from tilewright.integrations._recipes import sides_of
from tilewright.integrations._units import SWIGLU, gated_unit
from tilewright.integrations._weights import Weights, check_real, fp8_blocks, mxfp4, mxfp4_codes, quantized_weights
from tilewright.torch import _operators
from tilewright.torch._units import Unit

__all__ = ["ExpertLayer", "Weights", "check_real", "fp8_blocks", "gated_unit", "mxfp4", "mxfp4_codes"]


@dataclass(frozen=True, eq=False)
class ExpertLayer:
    """A layer of experts: up, a unit, down. Its calls are `tilewright.moe`, or `tilewright.torch.moe` to train.

    Args:
        up: [experts, 2 * inner, hidden], relu_squared: [experts, inner, hidden]. Real weights (float32 or bfloat16, any
            strides) are quantized at each call. A `Quantized` or `PackedWeights` of torch tensors has no gradients.
        down: [experts, hidden, inner], as up.
        up_bias: float32 or bfloat16 [experts, rows of up], or None.
        down_bias: float32 or bfloat16 [experts, hidden], or None.
        unit: between the products. See `gated_unit`.
        recipe: how real weights are quantized: one of `tilewright.torch.RECIPES`. Not used for others.
        activations: how x and the unit's result are quantized for quantized weights, e.g. "1x128". None: what goes with them.
    """

    up: Weights
    down: Weights
    up_bias: torch.Tensor | None = None
    down_bias: torch.Tensor | None = None
    unit: Unit = SWIGLU
    recipe: str = "1x128"
    activations: str | None = None
    parts: tuple[Parts, Parts] | None = field(init=False, default=None, repr=False)
    """Of quantized weights, for torch.compile, which cannot look into operands."""
    unit_words: dict[str, Any] = field(init=False, repr=False)
    """The unit as keywords of `tilewright.moe`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit_words", self.unit.keywords)
        if not self.is_real:
            object.__setattr__(self, "parts", (parts_of(self.up), parts_of(self.down)))

    @property
    def is_real(self) -> bool:
        """Whether the weights are real tensors, which each call quantizes."""
        return not isinstance(self.up, _core.Operand)

    @property
    def device(self) -> torch.device:
        device: torch.device = self.up.device if isinstance(self.up, torch.Tensor) else self.up.values.device
        return device

    @property
    def num_experts(self) -> int:
        return int(self.up.shape[0])

    def quantized(self) -> ExpertLayer:
        """The layer with its real weights quantized by `recipe`, and MXFP4 packed for the activations. New memory.

        Weights that are quantized and, if they are MXFP4, packed already are the layer's own. On a GPU packing waits.

        Raises:
            Unfit: there is no such recipe.
        """
        sides = sides_of(self.recipe) if self.is_real else None
        activations = self.activations if sides is None else sides.activations
        up, down = (quantized_weights(w, sides, activations) for w in (self.up, self.down))
        return self if up is self.up and down is self.down else replace(self, up=up, down=down, activations=activations)

    def tokens(
        self,
        x: torch.Tensor | Quantized,
        ids: torch.Tensor,
        weights: torch.Tensor | None,
        *,
        expert_map: torch.Tensor | None = None,
        addend: torch.Tensor | None = None,
        weights_at: WeightsAt = "combine",
        out: torch.Tensor | None = None,
        invariant: bool | None = None,
        workspace: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The sum of the experts that each token chose, [tokens, hidden], in the dtype of x, or bfloat16 for a `Quantized`.

        With real weights the call has gradients of x, the weights of the choices, up, down, the biases and the addend. `out` and
        `workspace` are for calls without gradients.

        Args:
            x: [tokens, hidden]. A `Quantized` by `activations` only goes with quantized weights.
            ids: int32 or int64 [tokens, k]. A number that names no expert is skipped, whatever it is.
            weights: [tokens, k]. None: 1.
            expert_map: int32 [global experts], the local number of each. -1 for those that are elsewhere.
            addend: of the shape of the result, added before its one rounding.
            weights_at, out, invariant, workspace: as in `tilewright.moe`.

        Raises:
            ValueError: an operand does not fit. The message names it.
        """
        more = {"expert_map": expert_map, "addend": addend, "weights_at": weights_at}
        if self.is_real or (isinstance(x, torch.Tensor) and _operators.is_watched(x, weights, ids)):
            return self._by_torch(x, ids, weights, out, invariant, more)
        return self._at_once(x, out, invariant, workspace, {"experts": ids, "weights": weights, **more})

    def rows(
        self,
        x: torch.Tensor | Quantized,
        ends: torch.Tensor,
        row_weights: torch.Tensor | None = None,
        *,
        out: torch.Tensor | None = None,
        weights_at: WeightsAt = "combine",
        invariant: bool | None = None,
        workspace: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The result of each row [rows, hidden], of rows that are sorted by expert. With gradients as `tokens`.

        Args:
            x: [rows, hidden], as in `tokens`.
            ends: int32 or int64 [experts], the row at which each expert ends, on the device of x. Not read on the host.
            row_weights: float32 [rows], or None: 1.
            out: [rows, hidden]. Rows after the last end are zeros in a new result, and may be zeros or untouched in `out`.
            weights_at, invariant, workspace: as in `tilewright.moe`.

        Raises:
            ValueError: an operand does not fit. The message names it.
        """
        if self.is_real or (isinstance(x, torch.Tensor) and _operators.is_watched(x, row_weights, ends)):
            ids = torch.searchsorted(ends, torch.arange(x.shape[0], device=ends.device, dtype=ends.dtype), right=True)
            weights = None if row_weights is None else row_weights[:, None]
            return self._by_torch(x, ids[:, None], weights, out, invariant, {"weights_at": weights_at})
        given = {"offsets": ends, "row_weights": row_weights, "weights_at": weights_at}
        return self._at_once(x, out, invariant, workspace, given)

    def masked(
        self,
        x: torch.Tensor | Quantized,
        counts: torch.Tensor,
        row_weights: torch.Tensor | None = None,
        *,
        out: torch.Tensor | None = None,
        expected_m: int = 0,
        weights_at: WeightsAt = "combine",
        invariant: bool | None = None,
        workspace: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The result of each row [experts, room, hidden], of which the first counts[e] of an expert are valid. No gradients.

        Args:
            x: [experts, room, hidden], as in `tokens`.
            counts: int32 or int64 [experts], on the device of x. Not read on the host.
            row_weights: float32 [experts, room], or None: 1.
            out: alike. Rows that are not valid are zeros in a new result, and untouched in `out`.
            expected_m: typical valid rows of an expert, a hint.
            weights_at, invariant, workspace: as in `tilewright.moe`.

        Raises:
            ValueError: an operand does not fit, or a tensor wants a gradient. The message names it.
        """
        given = {"counts": counts, "row_weights": row_weights, "expected_m": expected_m, "weights_at": weights_at}
        return self.quantized()._at_once(x, out, invariant, workspace, given)

    def _by_torch(
        self,
        x: Any,
        ids: torch.Tensor,
        weights: torch.Tensor | None,
        out: torch.Tensor | None,
        invariant: bool | None,
        more: dict[str, Any],
    ) -> torch.Tensor:
        if invariant is not None:
            with options(invariant=invariant):
                return self._by_torch(x, ids, weights, out, None, more)
        if self.parts is None:
            more |= {"up_bias": self.up_bias, "down_bias": self.down_bias, "recipe": self.recipe, **self.unit_words}
            made = tilewright.torch.moe(x, ids, weights, self.up, self.down, **more)
        else:
            made = by_operator(x, ids, weights, self.parts, (self.up_bias, self.down_bias), self.unit, self.activations, **more)
        return made if out is None else out.copy_(made)

    def _at_once(
        self, x: Any, out: torch.Tensor | None, invariant: bool | None, workspace: torch.Tensor | None, given: dict[str, Any]
    ) -> torch.Tensor:
        given |= self.unit_words
        given |= {"activations": self.activations, "out": out, "invariant": invariant, "workspace": workspace}
        if self.up_bias is not None:
            given["up_bias"] = _detached(self.up_bias)
        if self.down_bias is not None:
            given["down_bias"] = _detached(self.down_bias)
        made: torch.Tensor = moe(x, self.up, self.down, **given)
        return made


def _detached(bias: torch.Tensor) -> torch.Tensor:
    return bias.detach() if bias.requires_grad else bias
