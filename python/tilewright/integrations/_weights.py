"""An engine's weights as operands of the library."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tilewright import Quantized, pack_weights, quantize
from tilewright._packing import PackedFor, PackedWeights
from tilewright.integrations._fit import unfit
from tilewright.integrations._recipes import Sides, check_training, sides_of

Weights = torch.Tensor | Quantized | PackedWeights

BLOCK = 128
_MX_BLOCK = 32
_POWERS = tuple(dtype for dtype in (torch.uint8, getattr(torch, "float8_e8m0fnu", None)) if dtype is not None)


def quantized_weights(w: Weights, sides: Sides | None, activations: str | None) -> Weights:
    """Real weights quantized as `sides` says, and MXFP4 packed for the activations. Others as they are."""
    if sides is not None:
        w = quantize(w.detach(), sides.weights)
    if isinstance(w, Quantized) and w.recipe == "mxfp4":
        return pack_weights(w, "bf16" if activations in (None, "bf16") else "fp8")
    return w


def fp8_blocks(values: torch.Tensor, scales: torch.Tensor, block_size: Sequence[int] | None) -> Quantized:
    """fp8 weights with a scale per block, as DeepSeek-V3 stores them (weight_scale_inv). Values are taken as they are.

    Args:
        values: float8_e4m3fn or float8_e5m2 [experts, n, k].
        scales: [experts, n / 128, k / 128], both rounded up, by which a block is multiplied. float32; or bfloat16 or
            float8_e8m0fnu, which are copied to float32, exactly.
        block_size: [128, 128].

    Raises:
        Unfit: another block, dtype or shape.
    """
    if block_size is None or list(block_size) != [BLOCK, BLOCK]:
        unfit("block_size", None if block_size is None else list(block_size), f"{[BLOCK, BLOCK]}")
    recipe = {torch.float8_e4m3fn: "128x128", torch.float8_e5m2: "e5m2.128x128"}.get(values.dtype)
    if recipe is None or values.dim() != 3:
        unfit("weights", _form(values), "float8_e4m3fn or float8_e5m2 [experts, n, k]")
    experts, n, k = values.shape
    expected = [experts, -(-n // BLOCK), -(-k // BLOCK)]
    if list(scales.shape) != expected:
        unfit("scales", list(scales.shape), f"{expected}, a scale per block of 128x128")
    if scales.dtype not in (torch.float32, torch.bfloat16, *_POWERS[1:]):
        unfit("scales", scales.dtype, "float32, bfloat16 or float8_e8m0fnu")
    return Quantized(values.detach(), recipe, scales.detach().float())


def mxfp4(codes: torch.Tensor, scales: torch.Tensor, activations: PackedFor) -> PackedWeights:
    """MXFP4 weights as gpt-oss stores them, packed once. On a GPU the call waits.

    Args:
        codes, scales: as in `mxfp4_codes`.
        activations: what will be multiplied with them, "bf16" or "fp8" (1x128).

    Raises:
        Unfit: another dtype or shape.
    """
    return pack_weights(mxfp4_codes(codes, scales), activations)


def mxfp4_codes(codes: torch.Tensor, scales: torch.Tensor) -> Quantized:
    """The same weights, not packed and not copied. A GPU then packs them, or their scales, at each call.

    Args:
        codes: uint8 or int8, [experts, n, k / 2] or [experts, n, k / 32, 16]. Two values per byte, the even k in the low nibble.
        scales: powers of two with a bias of 127, uint8 or float8_e8m0fnu [experts, n, k / 32].

    Raises:
        Unfit: another dtype or shape.
    """
    if codes.dtype not in (torch.uint8, torch.int8) or codes.dim() not in (3, 4):
        unfit("codes", _form(codes), "uint8 [experts, n, k / 2] or [experts, n, k / 32, 16]")
    bytes_of_rows = codes.detach().flatten(2).view(torch.uint8)
    expected = [*bytes_of_rows.shape[:2], bytes_of_rows.shape[2] * 2 // _MX_BLOCK]
    if scales.dtype not in _POWERS or list(scales.shape) != expected:
        unfit("scales", _form(scales), f"uint8 or float8_e8m0fnu {expected}")
    return Quantized(bytes_of_rows, "mxfp4", scales.detach().view(torch.uint8))


def check_real(name: str, w: torch.Tensor, recipe: str, training: bool) -> None:
    """Checks real weights of an engine: a dense local tensor of float32 or bfloat16, and a recipe that has what the call needs.

    Raises:
        Unfit: the weight or the recipe does not fit.
    """
    sides_of(recipe)
    if training:
        check_training(recipe)
    if hasattr(w, "device_mesh") or w.layout != torch.strided or w.is_nested:
        unfit(name, f"a {type(w).__name__} that is sharded, sparse or nested", "a dense tensor of one process")
    if w.dtype not in (torch.float32, torch.bfloat16):
        unfit(name, _form(w), "float32 or bfloat16")


def _form(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
