"""Casts to FP8 and FP4 with scale factors, as DeepGEMM's callers expect them, bit for bit, and small integers' sums."""

from __future__ import annotations

import torch
from torch import Tensor

from tilewright.deep_gemm.utils._codes import as_bytes, exponents, no_powers_of_two
from tilewright.deep_gemm.utils._fp4 import FP4_DTYPES, FP4_WORDS, decode_fp4, encode_fp4, join_nibbles, split_nibbles

__all__ = [
    "align",
    "cast_back_from_fp4",
    "ceil_div",
    "ceil_to_ue8m0",
    "pack_ue8m0_to_int",
    "per_block_cast_to_fp8",
    "per_channel_cast_to_fp8",
    "per_custom_dims_cast_to_fp8",
    "per_token_cast_to_fp4",
    "per_token_cast_to_fp8",
    "transpose_packed_fp4",
    "unpack_ue8m0_from_int",
]

_SMALLEST_AMAX = 1e-4
_E4M3_MAX = 448.0
_E2M1_MAX = 6.0
_MANTISSA = 0x7FFFFF


def ceil_div(x: int, y: int) -> int:
    """x / y, rounded up."""
    return -(-x // y)


def align(x: int, y: int) -> int:
    """The smallest multiple of y from x on."""
    return ceil_div(x, y) * y


def ceil_to_ue8m0(x: Tensor) -> Tensor:
    """The smallest power of two from |x| on, as float32; at least 2^-126, at most 2^127."""
    bits = x.abs().float().view(torch.int32)
    rounded_up = (bits >> 23) + (bits & _MANTISSA != 0)
    return (rounded_up.clamp(1, 254) << 23).view(torch.float32)


def pack_ue8m0_to_int(x: Tensor) -> Tensor:
    """Four positive powers of two [.., 4 n] in an int32 [.., n], the first in the lowest byte."""
    if x.dtype != torch.float32 or x.shape[-1] % 4 != 0:
        raise ValueError(f"x: {list(x.shape)} of {x.dtype} given, float32 with a multiple of 4 columns expected")
    if bool(no_powers_of_two(x).any()):
        raise ValueError("x: other numbers given, positive powers of two expected; ceil_to_ue8m0 makes them")
    return exponents(x).view(torch.int32)


def unpack_ue8m0_from_int(packed_sf: Tensor) -> Tensor:
    """The float32 numbers [.., 4 n] that `pack_ue8m0_to_int` packed."""
    return (as_bytes(packed_sf).to(torch.int32) << 23).view(torch.float32)


def _factors(amax: Tensor, largest: float, use_ue8m0: bool) -> Tensor:
    factors = amax.float().clamp(min=_SMALLEST_AMAX) / largest
    return ceil_to_ue8m0(factors) if use_ue8m0 else factors


def _check_matrix(x: Tensor, why: str = "") -> None:
    if x.dim() != 2:
        raise ValueError(f"x: {list(x.shape)} given, two dimensions expected{why}")


def _padded(x: Tensor, rows: int, columns: int) -> Tensor:
    """x with zeros behind it, so that both sizes are multiples."""
    return torch.nn.functional.pad(x, (0, -x.shape[1] % columns, 0, -x.shape[0] % rows))


def per_token_cast_to_fp8(
    x: Tensor, use_ue8m0: bool, gran_k: int = 128, use_packed_ue8m0: bool = False
) -> tuple[Tensor, Tensor]:
    """x [m, n] as e4m3 with a factor for each row and gran_k columns: [m, ceil(n / gran_k)].

    s = max(amax, 1e-4) / 448, rounded up to a power of two with use_ue8m0; values are x * (1 / s).
    """
    _check_matrix(x)
    blocks = _padded(x, 1, gran_k).unflatten(1, (-1, gran_k))  # [m, blocks, gran_k]
    factors = _factors(blocks.abs().amax(2), _E4M3_MAX, use_ue8m0)
    values = (blocks * (1.0 / factors)[:, :, None]).to(torch.float8_e4m3fn)
    values = values.flatten(1)[:, : x.shape[1]].contiguous()
    return values, pack_ue8m0_to_int(factors) if use_packed_ue8m0 else factors


def per_channel_cast_to_fp8(x: Tensor, use_ue8m0: bool, gran_k: int = 128) -> tuple[Tensor, Tensor]:
    """x [k, n] as e4m3 with a factor for each column and gran_k rows: [k / gran_k, n]."""
    _check_matrix(x)
    if x.shape[0] % gran_k != 0:
        raise ValueError(f"x: {x.shape[0]} rows given, a multiple of {gran_k} expected; pad it with zeros")
    blocks = x.unflatten(0, (-1, gran_k))  # [blocks, gran_k, n]
    factors = _factors(blocks.abs().amax(1), _E4M3_MAX, use_ue8m0)
    return (blocks * (1.0 / factors)[:, None]).to(torch.float8_e4m3fn).flatten(0, 1), factors


def per_block_cast_to_fp8(x: Tensor, use_ue8m0: bool, gran_k: int = 128) -> tuple[Tensor, Tensor]:
    """x [m, n] as e4m3 with a factor for gran_k x gran_k: [ceil(m / gran_k), ceil(n / gran_k)]."""
    _check_matrix(x)
    padded = _padded(x, gran_k, gran_k)
    blocks = padded.unflatten(1, (-1, gran_k)).unflatten(0, (-1, gran_k))  # [m blocks, gran_k, n blocks, gran_k]
    factors = _factors(blocks.abs().amax((1, 3)), _E4M3_MAX, use_ue8m0)
    values = (blocks * (1.0 / factors)[:, None, :, None]).to(torch.float8_e4m3fn)
    return values.view(padded.shape)[: x.shape[0], : x.shape[1]].contiguous(), factors


def per_custom_dims_cast_to_fp8(x: Tensor, dims: tuple[int, ...], use_ue8m0: bool) -> tuple[Tensor, Tensor]:
    """x as e4m3 with a factor for each index of `dims`, shared along all other dimensions."""
    shared = tuple(i for i in range(x.dim()) if i not in dims)
    factors = _factors(x.abs().amax(shared, keepdim=True), _E4M3_MAX, use_ue8m0)
    return (x * (1.0 / factors)).to(torch.float8_e4m3fn), factors.squeeze()


def per_token_cast_to_fp4(
    x: Tensor, use_ue8m0: bool, gran_k: int = 128, use_packed_ue8m0: bool = False
) -> tuple[Tensor, Tensor]:
    """x [m, n] as e2m1, two to an int8 [m, n / 2] (low nibble first), with a factor for each row and gran_k columns.

    s = max(amax, 1e-4) / 6. Packed factors are padded with ones to a multiple of four.
    """
    _check_matrix(x)
    if x.shape[1] % 2 != 0:
        raise ValueError(f"x: {x.shape[1]} columns given, an even number expected; two FP4 share a byte")
    if use_packed_ue8m0 and not use_ue8m0:
        raise ValueError(
            "use_packed_ue8m0: True given, False expected without use_ue8m0; only powers of two are packed"
        )
    blocks = _padded(x, 1, gran_k).unflatten(1, (-1, gran_k))
    factors = _factors(blocks.abs().amax(2), _E2M1_MAX, use_ue8m0)
    codes = encode_fp4(blocks * (1.0 / factors)[:, :, None])
    packed = join_nibbles(codes.flatten(1)[:, : x.shape[1]])
    if use_packed_ue8m0:
        factors = pack_ue8m0_to_int(torch.nn.functional.pad(factors, (0, -factors.shape[1] % 4), value=1.0))
    return packed, factors


def transpose_packed_fp4(a: Tensor) -> Tensor:
    """[m, n / 2] with two e2m1 to a byte -> [n, m / 2] of the transposed matrix, of the same dtype."""
    if a.dtype not in FP4_DTYPES or a.dim() != 2 or a.shape[0] % 2 != 0:
        raise ValueError(f"a: {list(a.shape)} of {a.dtype} given, {FP4_WORDS} [even, columns] expected")
    return join_nibbles(split_nibbles(a).T).view(a.dtype)


def cast_back_from_fp4(packed: Tensor, sf: Tensor, gran_k: int = 128, use_packed_ue8m0: bool = False) -> Tensor:
    """The float32 matrix [m, n] of two e2m1 to a byte, [m, n / 2], and their factors."""
    if packed.dtype not in FP4_DTYPES or packed.dim() != 2:
        raise ValueError(f"packed: {list(packed.shape)} of {packed.dtype} given, {FP4_WORDS} [m, n / 2] expected")
    factors = unpack_ue8m0_from_int(sf) if use_packed_ue8m0 else sf
    values = decode_fp4(split_nibbles(packed))
    return values * factors.repeat_interleave(gran_k, 1)[:, : values.shape[1]]
