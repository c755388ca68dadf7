"""The experts of torchtitan with fp8 products: a converter of the model's configuration, and an override for its command line.

    model_registry("16B", converters=[TilewrightExpertsConverter.Config(recipe="1x128")])
    torchtitan_train ... --override.imports tilewright.integrations.torchtitan.tilewright_experts

torchtitan computes every product of its experts, those of gpt-oss too, by the method `_grouped_mm`. Both doors replace it by
`tilewright.torch.grouped_linear`. Groups end at any row, so that the dispatcher pads nothing and no size is read by the host.
See docs/torchtitan.md.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torchtitan.components.quantization import QuantizationConverter
from torchtitan.config import derive, override
from torchtitan.models.common.moe import GroupedExperts
from torchtitan.tools.logging import logger

from tilewright.integrations._fit import tested_version
from tilewright.torch import _checks, grouped_linear

TESTED = ("0.3.0",)


@functools.cache
def experts_class(parent: type) -> type:
    """A subclass of a class of experts, GroupedExperts or one of its subclasses, with fp8 products.

    Its Config has the fields of the parent's, and the options `recipe`, `gradient_format`, `promoted` and `keep` of
    `tilewright.torch.grouped_linear`. Parameters and checkpoints are the parent's.
    """

    class TilewrightExperts(parent):  # type: ignore[misc,valid-type]
        # torchtitan asks for keyword-only dataclasses with slots, and sets the owner of each by itself.
        @dataclass(kw_only=True, slots=True)
        class Config(parent.Config):  # type: ignore[misc,name-defined]
            recipe: str = "1x128"
            gradient_format: str = "e4m3"
            promoted: bool = True
            keep: str = "weight"

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self._tilewright = {name: getattr(config, name) for name in ("recipe", "gradient_format", "promoted", "keep")}

        def _grouped_mm(self, *, A: torch.Tensor, B_t: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
            """A [rows, K] times B_t [experts, K, N], a view of weights [experts, N, K]. Rows after the last end get zeros."""
            return grouped_linear(A, B_t.mT, offs, **self._tilewright)

    TilewrightExperts.__name__ = TilewrightExperts.__qualname__ = name = f"Tilewright{parent.__name__}"
    TilewrightExperts.Config.__qualname__ = f"{name}.Config"  # torchtitan's log has it
    return TilewrightExperts


def converted(config: Any, **options: Any) -> Any:
    """The configuration of the same experts with fp8 products.

    Raises:
        Unfit: another version of torchtitan than the tested one. The text has both.
        ValueError: there is no such option.
    """
    tested_version("torchtitan", "torchtitan", TESTED)
    made = derive(config, experts_class(type(config)._owner).Config, **options)
    _checks.check_recipe(made.recipe, made.gradient_format, made.promoted, made.keep)
    return made


class TilewrightExpertsConverter(QuantizationConverter):
    """Gives all experts of a model fp8 products. The token dispatcher stays as it is, because nothing is padded."""

    @dataclass(kw_only=True, slots=True)
    class Config(QuantizationConverter.Config):
        recipe: str = "1x128"
        """Scaling of the three products, one of `tilewright.torch.RECIPES`."""
        gradient_format: str = "e4m3"
        """Format of the gradients in dgrad and wgrad: "e4m3" or "e5m2"."""
        promoted: bool = True
        """Whether sums are added to float32 every 128 products."""
        keep: str = "weight"
        """What backward has of the weights: "weight", which FSDP gathers again, or "copy", the fp8 copy of forward."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def convert(self, model_config: Any) -> Any:
        """The configuration of the model. Its experts are replaced in place."""
        own = self.config
        options = {"recipe": own.recipe, "gradient_format": own.gradient_format, "promoted": own.promoted, "keep": own.keep}
        count = 0
        for _, config, parent, attribute in model_config.traverse(GroupedExperts.Config):
            made, count = converted(config, **options), count + 1
            if parent is None:
                model_config = made
            elif isinstance(parent, list):
                parent[attribute] = made
            else:
                setattr(parent, attribute, made)
        logger.info(f"Tilewright: {count} layers of experts have fp8 products, recipe {own.recipe}")
        return model_config


@override(target=GroupedExperts.Config, description="Experts with Tilewright's fp8 products.")
def tilewright_experts(cfg: Any, **options: Any) -> Any:
    """The same for `--override.imports`. Options are those of the converter, as a JSON object."""
    return converted(cfg, **options)
