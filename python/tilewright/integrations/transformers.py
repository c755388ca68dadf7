"""The door to Hugging Face transformers 5: models run their experts through Tilewright.

    import tilewright.integrations.transformers as door
    door.register()
    model = AutoModelForCausalLM.from_pretrained(name, experts_implementation="tilewright")

- FP8 checkpoints with blocks of 128x128, and MXFP4 checkpoints of gpt-oss, keep their own numbers.
- Real weights (bfloat16, float32) need a recipe. `register(recipe="1x128")` quantizes them at each call, and trains them.
  `prepare(model, "1x128:mxfp4")` quantizes them once, for inference.
- A layer that does not qualify runs in transformers' grouped_mm. Its log says which layer and why. TILEWRIGHT_STRICT=1 makes an
  error of that line.

See docs/transformers.md.
"""

from __future__ import annotations

from typing import Any

from tilewright.integrations._fit import Unfit, decline, tested_version

TESTED = ("5.17.0", "5.24.0")
NAME = "tilewright"
_LLAMA4 = "forward: got tokens that are sorted by expert, without expert ids; expected ids and weights of choices"


def register(recipe: str | None = None) -> bool:
    """Adds "tilewright" to transformers' implementations of experts, and to its loading of MXFP4 checkpoints.

    It may be called again, e.g. with another recipe. Models that exist follow in their next call.

    Args:
        recipe: how real weights are quantized at each call: one of `tilewright.torch.RECIPES`. None: real weights stay with
            transformers. Weights of FP8 and MXFP4 checkpoints have their own.

    Returns:
        False if this version of transformers was not tested. The log says so, and transformers runs all experts.

    Raises:
        ValueError: there is no such recipe.
        RuntimeError: an untested version, with TILEWRIGHT_STRICT=1.
    """
    from tilewright.integrations._recipes import check_training
    from tilewright.integrations._transformers_plan import run, settings

    if recipe is not None:
        _or_value_error(check_training, recipe)
    settings.recipe, settings.refusal = recipe, None
    try:
        tested_version("transformers", "transformers", TESTED)
    except Unfit as reason:
        settings.refusal = str(reason)
        decline("transformers", "any experts", reason, "transformers' grouped_mm", _logger())
    try:
        from transformers.integrations.finegrained_fp8 import ALL_FP8_EXPERTS_FUNCTIONS
        from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
    except ImportError:
        if settings.refusal is None:
            raise
        return False  # a version that has no such functions: the log has said that it was not tested

    def experts(module: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> Any:
        return run(module, hidden_states, top_k_index, top_k_weights, ALL_EXPERTS_FUNCTIONS)

    def fp8_experts(module: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> Any:
        return run(module, hidden_states, top_k_index, top_k_weights, ALL_FP8_EXPERTS_FUNCTIONS)

    if NAME not in ALL_EXPERTS_FUNCTIONS:
        ALL_EXPERTS_FUNCTIONS.register(NAME, experts)
        ALL_FP8_EXPERTS_FUNCTIONS.register(NAME, fp8_experts)
    if settings.refusal is None:
        from tilewright.integrations import _transformers_mxfp4

        _transformers_mxfp4.register()
    return settings.refusal is None


def prepare(model: Any, recipe: str | None = None, free_originals: bool = True) -> list[str]:
    """Quantizes or packs the weights of a model's experts once, for inference, and makes "tilewright" run them.

    Call it again after the weights have changed: the copies do not follow. Experts move with the model afterwards.

    Args:
        model: a model of transformers whose weights are loaded.
        recipe: for real weights: one of `tilewright.torch.RECIPES`, "1x128:mxfp4" or "bf16:mxfp4". None: these layers stay with
            transformers. FP8 blocks need no copy, and MXFP4 was packed when it was loaded.
        free_originals: True: weights of which a copy was made are deleted. The model can then neither train nor be saved, and an
            error says so. False: they stay, and `release(model)` drops the copies. Default: True.

    Returns:
        The names of the layers that Tilewright will run. The log has a line for each of the others.

    Raises:
        ValueError: there is no such recipe.
        RuntimeError: a layer does not qualify, with TILEWRIGHT_STRICT=1. Or the originals that another recipe needs were freed.
    """
    from tilewright.integrations._recipes import sides_of
    from tilewright.integrations._transformers_layers import is_dispatched, looks_like_experts
    from tilewright.integrations._transformers_mxfp4 import is_loaded_packed
    from tilewright.integrations._transformers_plan import prepare_module, settings

    if recipe is not None:
        _or_value_error(sides_of, recipe)
    register(settings.recipe)
    model.set_experts_implementation(NAME)
    prepared = []
    for name, module in list(model.named_modules()):
        try:
            if is_loaded_packed(module):
                prepared.append(name)
            elif is_dispatched(module):
                prepare_module(module, name, recipe, free_originals)
                prepared.append(name)
            elif looks_like_experts(module):
                raise Unfit(_LLAMA4)
        except Unfit as reason:
            decline("transformers", f"{name} ({type(module).__name__})", reason, "transformers", _logger())
    return prepared


def release(model: Any) -> None:
    """Drops the copies that `prepare(model, free_originals=False)` made, so that the model can train.

    Raises:
        RuntimeError: the originals were freed.
    """
    from tilewright.integrations._transformers_plan import release_module

    for module in model.modules():
        release_module(module)


def _or_value_error(check: Any, recipe: str) -> None:
    try:
        check(recipe)
    except Unfit as reason:
        raise ValueError(f"{reason}.") from None


def _logger() -> Any:
    from transformers.utils import logging

    return logging.get_logger("transformers.integrations.tilewright")
