"""Kernels of experts for vLLM: subclasses of its `FusedMoEExpertsModular`. Only `vllm.register` imports this file.

vLLM routes tokens, quantizes them for FP8 weights, and calls `apply`. That is one call of the library, which sorts the choices,
computes both products and the unit, and sums. So vLLM's workspaces are not used, and nothing is padded.

FP8 weights in blocks stay where they are. MXFP4 weights are packed when they are loaded, and vLLM's copy is freed. Activations of
MXFP4 layers are bfloat16, as in vLLM's kernels for Hopper GPUs, unless TILEWRIGHT_MXFP4_ACTIVATIONS says fp8.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import vllm.envs as envs
import vllm.model_executor.layers.fused_moe.modular_kernel as mk
from vllm.model_executor.layers.fused_moe.topk_weight_and_reduce import TopKWeightAndReduceDelegate, TopKWeightAndReduceNoOP
from vllm.model_executor.layers.quantization.utils.quant_utils import kFp8Dynamic128Sym, kFp8Static128BlockSym, kMxfp4Static

from tilewright import PackedWeights, Quantized
from tilewright.integrations._experts import ExpertLayer, fp8_blocks, mxfp4
from tilewright.integrations._fit import mxfp4_activations
from tilewright.integrations._units import gated_unit
from tilewright.integrations._vllm_fit import Answers
from tilewright.integrations._weights import BLOCK
from tilewright.torch._units import Unit

_FORMATS = mk.FusedMoEActivationFormat
_PACKED = ("w13_weight", "w2_weight", "w13_weight_scale", "w2_weight_scale")


class _Experts(Answers, mk.FusedMoEExpertsModular):  # type: ignore[misc]
    """The call that all kernels share. A subclass makes the operands: `_weights` and `_side`."""

    _kept: tuple[Any, ...] | None = None
    _experts: ExpertLayer

    @staticmethod
    def activation_format() -> Any:
        return _FORMATS.Standard

    def finalize_weight_and_reduce_impl(self) -> Any:
        return TopKWeightAndReduceNoOP()

    def workspace_shapes(
        self,
        M: int,
        N: int,
        K: int,
        topk: int,
        global_num_experts: int,
        local_num_experts: int,
        expert_tokens_meta: Any,
        activation: Any,
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        return (0,), (0,), (M, K)

    def apply(
        self,
        output: torch.Tensor,
        hidden_states: torch.Tensor,
        w1: torch.Tensor,
        w2: torch.Tensor,
        topk_weights: torch.Tensor,
        topk_ids: torch.Tensor,
        activation: Any,
        global_num_experts: int,
        expert_map: torch.Tensor | None,
        a1q_scale: torch.Tensor | None,
        a2_scale: torch.Tensor | None,
        workspace13: torch.Tensor,
        workspace2: torch.Tensor,
        expert_tokens_meta: Any,
        apply_router_weight_on_input: bool,
    ) -> None:
        experts = self._layer(w1, w2, activation)
        x = self._operand(hidden_states, a1q_scale)
        invariant = True if envs.VLLM_BATCH_INVARIANT else None
        if self.activation_format() == _FORMATS.BatchedExperts:
            experts.masked(x, expert_tokens_meta.expert_num_tokens, out=output, invariant=invariant)
            return
        # Weights that vLLM has multiplied into the input are not multiplied again.
        weights = None if apply_router_weight_on_input else topk_weights
        experts.tokens(x, topk_ids, weights, expert_map=expert_map, out=output, invariant=invariant)

    def _layer(self, w1: torch.Tensor, w2: torch.Tensor, activation: Any) -> ExpertLayer:
        """The operands of the layer, made again when vLLM has other weights."""
        key = (w1.data_ptr(), w2.data_ptr(), activation)
        if self._kept != key:
            up, down = self._weights(w1, w2)
            self._experts = ExpertLayer(up, down, self.w1_bias, self.w2_bias, self._unit(activation), activations=self._side())
            self._kept = key
        return self._experts

    def _unit(self, activation: Any) -> Unit:
        name, numbers, given = activation.value, self.activation_config, self.quant_config
        if name == "situ":
            up_bound = numbers.activation_situ_linear_beta
            up_bound = math.inf if up_bound is None else up_bound
            return gated_unit(name, gate_bound=numbers.activation_situ_beta, up_bound=up_bound)
        # `activation_config` has 1 and 0 where a model has no numbers, which is right for silu and wrong for swigluoai.
        is_packed_openai = name == "swigluoai_uninterleave"
        alpha, beta = (numbers.alpha, numbers.beta) if is_packed_openai else (given.gemm1_alpha, given.gemm1_beta)
        return gated_unit(name, alpha, beta, numbers.clamp_limit, interleaved=name == "swigluoai")

    def _operand(self, hidden_states: torch.Tensor, scales: torch.Tensor | None) -> torch.Tensor | Quantized:
        return hidden_states if scales is None else Quantized(hidden_states, "1x128", scales)

    def _weights(self, w1: torch.Tensor, w2: torch.Tensor) -> tuple[Any, Any]:
        raise NotImplementedError

    def _side(self) -> str:
        raise NotImplementedError


class _Batched:
    """Rows [experts, room, hidden] with counts, as DeepEP's low-latency transport delivers them. vLLM multiplies and sums."""

    @staticmethod
    def activation_format() -> Any:
        return _FORMATS.BatchedExperts

    def finalize_weight_and_reduce_impl(self) -> Any:
        return TopKWeightAndReduceDelegate()

    def workspace_shapes(self, M: int, N: int, K: int, topk: int, global_num_experts: int, local_num_experts: int, *_: Any) -> Any:
        return (0,), (0,), (local_num_experts, M, K)


class TilewrightFp8Experts(_Experts):
    """w1 [experts, 2 * inner, hidden] and w2 e4m3 with a float32 scale per 128x128; tokens e4m3 with one per 128."""

    keys = (kFp8Static128BlockSym, kFp8Dynamic128Sym)
    multiple = BLOCK
    may_move = True

    def _weights(self, w1: torch.Tensor, w2: torch.Tensor) -> tuple[Quantized, Quantized]:
        size = [BLOCK, BLOCK]
        return fp8_blocks(w1, self.w1_scale, size), fp8_blocks(w2, self.w2_scale, size)

    def _side(self) -> str:
        return "1x128"


class TilewrightFp8BatchedExperts(_Batched, TilewrightFp8Experts):
    pass


class TilewrightMxfp4Experts(_Experts):
    """w1 [experts, 2 * inner, hidden / 2] and w2 uint8, two values per byte, with a power of two per 32; tokens bfloat16."""

    keys = (kMxfp4Static, None)
    multiple = 32
    may_move = False

    _packed: tuple[PackedWeights, PackedWeights] | None = None

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        self._packed = self._pack(layer.w13_weight, layer.w2_weight)
        for name in _PACKED:  # vLLM still reads their shapes
            parameter = getattr(layer, name)
            parameter.data = parameter.data.new_empty(1).expand(parameter.shape)

    def _pack(self, w1: torch.Tensor, w2: torch.Tensor) -> tuple[PackedWeights, PackedWeights]:
        side = mxfp4_activations()
        return mxfp4(w1, self.w1_scale, side), mxfp4(w2, self.w2_scale, side)

    def _weights(self, w1: torch.Tensor, w2: torch.Tensor) -> tuple[PackedWeights, PackedWeights]:
        return self._packed or self._pack(w1, w2)

    def _side(self) -> str:
        return "1x128" if mxfp4_activations() == "fp8" else "bf16"


class TilewrightMxfp4BatchedExperts(_Batched, TilewrightMxfp4Experts):
    pass


class TilewrightGptOssExperts(TilewrightMxfp4Experts):
    """As gpt-oss: vLLM's settings for this layout ask for MXFP4 tokens, so it must be told not to quantize them.

    DeepEP's low-latency transport always quantizes as the settings say, so there is no batched form.
    """

    declines_batched = True

    @property
    def expects_unquantized_inputs(self) -> bool:
        return True
