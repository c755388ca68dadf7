"""MXFP4 checkpoints of gpt-oss in transformers: their blocks and scales are packed as they are loaded.

transformers' own quantizer hands them to kernels that it downloads, which keep them in another order. Where it has no such kernels,
on a CPU for example, it dequantizes the model. The quantizer here takes its place in transformers' table. It does what its parent
does, until a model asks for "tilewright". Then blocks and scales stay as they are, and no kernels are downloaded.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.core_model_loading import ConversionOps, _IdentityOp
from transformers.integrations.mxfp4 import Mxfp4Deserialize, Mxfp4GptOssExperts
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssMLP
from transformers.quantizers import auto
from transformers.quantizers.quantizer_mxfp4 import Mxfp4HfQuantizer
from transformers.quantizers.quantizers_utils import get_module_from_name, should_convert_module
from transformers.utils import logging

from tilewright._packing import PackedWeights
from tilewright.integrations._experts import ExpertLayer, gated_unit, mxfp4
from tilewright.integrations._fit import Unfit, check_device, decline

_SIDES = ("gate_up_proj", "down_proj")


class PackedExperts(Mxfp4GptOssExperts):
    """Experts of gpt-oss with packed MXFP4 weights, for bfloat16 activations. The packed bytes are buffers, which move along."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.headers: dict[str, bytes] = {}
        self._layer: ExpertLayer | None = None

    def pack(self, side: str, blocks: torch.Tensor, scales: torch.Tensor) -> None:
        packed = mxfp4(blocks, scales, "bf16")
        self.headers[side] = packed.header
        self._parameters.pop(side, None)
        self.register_buffer(side, packed.data)  # persistent: transformers empties the others at the end of loading
        self._layer = None

    def packed(self, side: str) -> PackedWeights:
        return PackedWeights(getattr(self, side), self.headers[side])

    @torch.compiler.disable
    def _made_layer(self) -> ExpertLayer:
        unit = gated_unit("swigluoai", self.alpha, 1.0, self.limit, interleaved=True)
        up_bias, down_bias = self.gate_up_proj_bias, self.down_proj_bias
        self._layer = ExpertLayer(self.packed("gate_up_proj"), self.packed("down_proj"), up_bias, down_bias, unit)
        return self._layer

    def forward(self, hidden_states: torch.Tensor, router_indices: torch.Tensor, routing_weights: torch.Tensor) -> torch.Tensor:
        layer = self._layer
        if layer is None or layer.device != hidden_states.device:
            layer = self._made_layer()
        return layer.tokens(hidden_states, router_indices, routing_weights)


def is_loaded_packed(module: torch.nn.Module) -> bool:
    return isinstance(module, PackedExperts)


class Pack(ConversionOps):
    """Blocks and scales of one weight, as they are in the file, to the packed bytes of its module."""

    def __init__(self, hf_quantizer: Any) -> None:
        self.hf_quantizer = hf_quantizer

    def convert(
        self, input_dict: Any, model: Any = None, full_layer_name: str = "", missing_keys: Any = None, **_: Any
    ) -> dict[str, torch.Tensor]:
        module, side = get_module_from_name(model, full_layer_name)
        parts = {name.rsplit("_", 1)[-1]: value[0] if isinstance(value, list) else value for name, value in input_dict.items()}
        module.pack(side, parts["blocks"], parts["scales"])
        module._is_hf_initialized = True
        missing_keys.discard(full_layer_name)
        return {}

    @property
    def reverse_op(self) -> ConversionOps:
        """Nothing: the state that is saved has blocks and scales already."""
        return _IdentityOp()


class Mxfp4Quantizer(Mxfp4HfQuantizer):
    """transformers' quantizer, with packed experts for models that ask for "tilewright"."""

    def __init__(self, quantization_config: Any, **more: Any) -> None:
        super().__init__(quantization_config, **more)
        self._environment: tuple[Any, Any] = ((), {})
        self._packs = False

    def validate_environment(self, *given: Any, **more: Any) -> None:
        """The parent looks for its kernels later: here it is not known yet whether the model asks for "tilewright"."""
        self._environment = (given, more)

    def _process_model_before_weight_loading(self, model: Any, **more: Any) -> None:
        asks = self.pre_quantized and not self.quantization_config.dequantize and _asks(model)
        self._packs = asks and self._fits(more.get("device_map"))
        if not self._packs:
            given, words = self._environment
            super().validate_environment(*given, **words)
            super()._process_model_before_weight_loading(model, **more)
            return
        kept_out = self.quantization_config.modules_to_not_convert
        self.modules_to_not_convert = self.get_modules_to_not_convert(model, kept_out, model._keep_in_fp32_modules)
        for name, module in list(model.named_modules()):
            if isinstance(module, GptOssMLP) and should_convert_module(f"{name}.experts", self.modules_to_not_convert):
                with torch.device("meta"):
                    module.experts = PackedExperts(model.config)

    def _fits(self, device_map: Any) -> bool:
        try:
            for place in set(device_map.values()) if isinstance(device_map, dict) else {device_map}:
                check_device(_device_of(place))
        except Unfit as reason:
            logger = logging.get_logger("transformers.integrations.tilewright")
            decline("transformers", "MXFP4 experts", reason, "transformers' MXFP4", logger)
            return False
        return True

    def get_weight_conversions(self) -> list[Any]:
        conversions: list[Any] = super().get_weight_conversions()
        for conversion in conversions if self._packs else []:
            conversion.operations = [Pack(self) if isinstance(o, Mxfp4Deserialize) else o for o in conversion.operations]
        return conversions

    def get_state_dict_and_metadata(self, model: Any) -> tuple[Any, dict[str, Any]]:
        if not self._packs:
            found: tuple[Any, dict[str, Any]] = super().get_state_dict_and_metadata(model)
            return found
        state = model.state_dict()
        for name, module in model.named_modules():
            for side in _SIDES if isinstance(module, PackedExperts) else ():
                codes = module.packed(side).unpack()
                scales = codes.scales.view(torch.uint8)
                del state[f"{name}.{side}"]
                state[f"{name}.{side}_blocks"] = codes.values.reshape(*scales.shape, -1)
                state[f"{name}.{side}_scales"] = scales
        return state, {}


def _device_of(place: Any) -> torch.device:
    """The device of an entry of a device map. Plans such as "auto" take GPUs where there are some."""
    if place in (None, "cpu", "disk", "meta"):
        return torch.device("cpu")
    if isinstance(place, int):
        return torch.device("cuda", place)
    if place in ("auto", "balanced", "balanced_low_0", "sequential"):
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(place)


def _asks(model: Any) -> bool:
    return bool(model.config._experts_implementation == "tilewright")


def register() -> None:
    auto.AUTO_QUANTIZER_MAPPING["mxfp4"] = Mxfp4Quantizer
