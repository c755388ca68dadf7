"""e2m1 in torch: encode, decode, and two values per byte."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

FP4_DTYPES = (torch.int8, torch.uint8, *(getattr(torch, name) for name in ("float4_e2m1fn_x2",) if hasattr(torch, name)))
"""Dtypes with two FP4 per byte: int8 in DeepGEMM, uint8 in checkpoints, and float4_e2m1fn_x2 in newer torch."""
FP4_WORDS = "int8, uint8 or float4_e2m1fn_x2"

_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_MIDPOINTS = tuple((low + high) / 2 for low, high in pairwise(_MAGNITUDES))


def encode_fp4(x: Tensor) -> Tensor:
    """e2m1, one per uint8. As in DeepGEMM, midpoints round to the smaller magnitude, and zeros are +0."""
    codes = torch.bucketize(x.abs().float(), torch.tensor(_MIDPOINTS, device=x.device)).to(torch.uint8)
    return codes | (((x < 0) & (codes != 0)).to(torch.uint8) << 3)


def decode_fp4(codes: Tensor) -> Tensor:
    """float32 values; -0 becomes +0."""
    magnitudes = torch.tensor(_MAGNITUDES, device=codes.device)[(codes & 7).long()]
    return torch.where(codes >= 8, 0.0 - magnitudes, magnitudes) + 0.0


def join_nibbles(codes: Tensor) -> Tensor:
    """uint8 [rows, n] to int8 [rows, n / 2], the first of two in the low nibble."""
    codes = codes.contiguous()
    return (codes[:, 0::2] | (codes[:, 1::2] << 4)).view(torch.int8)


def split_nibbles(packed: Tensor) -> Tensor:
    """Two values per byte, [rows, n / 2] of any of FP4_DTYPES, to uint8 [rows, n]."""
    both = packed.view(torch.uint8).contiguous()
    return torch.stack((both & 15, both >> 4), 2).flatten(1)
