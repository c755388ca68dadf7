"""e2m1 codes in torch: rounding, reading back, two to a byte."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

FP4_DTYPES = (torch.int8, torch.uint8, *(getattr(torch, name) for name in ("float4_e2m1fn_x2",) if hasattr(torch, name)))
"""Two FP4 to a byte: int8 to DeepGEMM, uint8 in checkpoints, and the dtype that newer torch has for them."""
FP4_WORDS = "int8, uint8 or float4_e2m1fn_x2"

_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_MIDPOINTS = tuple((low + high) / 2 for low, high in pairwise(_MAGNITUDES))


def encode_fp4(x: Tensor) -> Tensor:
    """Codes, one to a uint8. Midpoints go to the smaller magnitude, what rounds to zero is +0: DeepGEMM's rule."""
    codes = torch.bucketize(x.abs().float(), torch.tensor(_MIDPOINTS, device=x.device)).to(torch.uint8)
    return codes | (((x < 0) & (codes != 0)).to(torch.uint8) << 3)


def decode_fp4(codes: Tensor) -> Tensor:
    """float32 numbers; the code of -0 is read as +0."""
    magnitudes = torch.tensor(_MAGNITUDES, device=codes.device)[(codes & 7).long()]
    return torch.where(codes >= 8, 0.0 - magnitudes, magnitudes) + 0.0


def join_nibbles(codes: Tensor) -> Tensor:
    """uint8 [rows, n] -> int8 [rows, n / 2], the first of two in the low nibble."""
    codes = codes.contiguous()
    return (codes[:, 0::2] | (codes[:, 1::2] << 4)).view(torch.int8)


def split_nibbles(packed: Tensor) -> Tensor:
    """Two to a byte, [rows, n / 2], of any of FP4_DTYPES -> uint8 [rows, n]."""
    both = packed.view(torch.uint8).contiguous()
    return torch.stack((both & 15, both >> 4), 2).flatten(1)
