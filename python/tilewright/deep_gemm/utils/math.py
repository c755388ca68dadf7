"""Casts to FP8 and FP4 with scale factors, bit for bit like DeepGEMM's, and helpers for integers."""

from __future__ import annotations

import torch
from torch import Tensor

from tilewright.deep_gemm._missing import getter, lister
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
    """The smallest multiple of y that is at least x."""
    return ceil_div(x, y) * y


def ceil_to_ue8m0(x: Tensor) -> Tensor:
    """The smallest power of two that is at least abs(x), as float32, from 2^-126 to 2^127."""
    bits = x.abs().float().view(torch.int32)
    rounded_up = (bits >> 23) + (bits & _MANTISSA != 0)
    return (rounded_up.clamp(1, 254) << 23).view(torch.float32)


def pack_ue8m0_to_int(x: Tensor) -> Tensor:
    """Positive powers of two, float32 [.., 4 n], as int32 [.., n] with four UE8M0 each, the first in the lowest byte."""
    if x.dtype != torch.float32 or x.shape[-1] % 4 != 0:
        raise ValueError(f"x: got {x.dtype} {list(x.shape)}; expected float32 with a multiple of 4 columns.")
    if bool(no_powers_of_two(x).any()):
        raise ValueError("x: got other numbers; expected positive powers of two. Round them with ceil_to_ue8m0.")
    return exponents(x).view(torch.int32)


def unpack_ue8m0_from_int(packed_sf: Tensor) -> Tensor:
    """The float32 numbers [.., 4 n] that `pack_ue8m0_to_int` packed."""
    return (as_bytes(packed_sf).to(torch.int32) << 23).view(torch.float32)


def _factors(amax: Tensor, largest: float, use_ue8m0: bool) -> Tensor:
    factors = amax.float().clamp(min=_SMALLEST_AMAX) / largest
    return ceil_to_ue8m0(factors) if use_ue8m0 else factors


def _check_matrix(x: Tensor) -> None:
    if x.dim() != 2:
        raise ValueError(f"x: got {list(x.shape)}; expected two dimensions.")


def _padded(x: Tensor, rows: int, columns: int) -> Tensor:
    """x, padded with zeros so that its sizes are multiples of rows and columns."""
    return torch.nn.functional.pad(x, (0, -x.shape[1] % columns, 0, -x.shape[0] % rows))


def per_token_cast_to_fp8(
    x: Tensor, use_ue8m0: bool, gran_k: int = 128, use_packed_ue8m0: bool = False
) -> tuple[Tensor, Tensor]:
    """Casts x [m, n] to e4m3, with a factor per row and gran_k columns.

    The factor is s = max(amax, 1e-4) / 448, rounded up to a power of two with use_ue8m0. Values are x * (1 / s).

    Args:
        x: a matrix [m, n].
        use_ue8m0: whether factors are rounded up to powers of two.
        gran_k: columns per factor.
        use_packed_ue8m0: whether factors are int32 with four UE8M0 each. Requires use_ue8m0.

    Returns:
        (e4m3 [m, n], float32 [m, ceil(n / gran_k)]); with use_packed_ue8m0 int32 factors with a quarter of the columns.
    """
    _check_matrix(x)
    blocks = _padded(x, 1, gran_k).unflatten(1, (-1, gran_k))  # [m, blocks, gran_k]
    factors = _factors(blocks.abs().amax(2), _E4M3_MAX, use_ue8m0)
    values = (blocks * (1.0 / factors)[:, :, None]).to(torch.float8_e4m3fn)
    values = values.flatten(1)[:, : x.shape[1]].contiguous()
    return values, pack_ue8m0_to_int(factors) if use_packed_ue8m0 else factors


def per_channel_cast_to_fp8(x: Tensor, use_ue8m0: bool, gran_k: int = 128) -> tuple[Tensor, Tensor]:
    """Casts x [k, n] to e4m3, with a factor per column and gran_k rows.

    Args:
        x: a matrix [k, n] with k a multiple of gran_k.
        use_ue8m0: whether factors are rounded up to powers of two.
        gran_k: rows per factor.

    Returns:
        (e4m3 [k, n], float32 [k / gran_k, n]).
    """
    _check_matrix(x)
    if x.shape[0] % gran_k != 0:
        raise ValueError(f"x: got {x.shape[0]} rows; expected a multiple of {gran_k}. Pad x with zeros.")
    blocks = x.unflatten(0, (-1, gran_k))  # [blocks, gran_k, n]
    factors = _factors(blocks.abs().amax(1), _E4M3_MAX, use_ue8m0)
    return (blocks * (1.0 / factors)[:, None]).to(torch.float8_e4m3fn).flatten(0, 1), factors


def per_block_cast_to_fp8(x: Tensor, use_ue8m0: bool, gran_k: int = 128) -> tuple[Tensor, Tensor]:
    """Casts x [m, n] to e4m3, with a factor per gran_k x gran_k block.

    Returns:
        (e4m3 [m, n], float32 [ceil(m / gran_k), ceil(n / gran_k)]).
    """
    _check_matrix(x)
    padded = _padded(x, gran_k, gran_k)
    blocks = padded.unflatten(1, (-1, gran_k)).unflatten(0, (-1, gran_k))  # [m blocks, gran_k, n blocks, gran_k]
    factors = _factors(blocks.abs().amax((1, 3)), _E4M3_MAX, use_ue8m0)
    values = (blocks * (1.0 / factors)[:, None, :, None]).to(torch.float8_e4m3fn)
    return values.view(padded.shape)[: x.shape[0], : x.shape[1]].contiguous(), factors


def per_custom_dims_cast_to_fp8(x: Tensor, dims: tuple[int, ...], use_ue8m0: bool) -> tuple[Tensor, Tensor]:
    """Casts x to e4m3, with a factor per index of `dims`, shared along all other dimensions."""
    shared = tuple(i for i in range(x.dim()) if i not in dims)
    factors = _factors(x.abs().amax(shared, keepdim=True), _E4M3_MAX, use_ue8m0)
    return (x * (1.0 / factors)).to(torch.float8_e4m3fn), factors.squeeze()


def per_token_cast_to_fp4(
    x: Tensor, use_ue8m0: bool, gran_k: int = 128, use_packed_ue8m0: bool = False
) -> tuple[Tensor, Tensor]:
    """Casts x [m, n] to e2m1, with a factor per row and gran_k columns. The factor is s = max(amax, 1e-4) / 6.

    Args:
        x: a matrix [m, n] with an even n.
        use_ue8m0: whether factors are rounded up to powers of two.
        gran_k: columns per factor.
        use_packed_ue8m0: whether factors are int32 with four UE8M0 each, padded with ones. Requires use_ue8m0.

    Returns:
        (int8 [m, n / 2] with two values per byte, the first in the low nibble; float32 [m, ceil(n / gran_k)] or int32).
    """
    _check_matrix(x)
    if x.shape[1] % 2 != 0:
        raise ValueError(f"x: got {x.shape[1]} columns; expected an even number, because two FP4 share a byte.")
    if use_packed_ue8m0 and not use_ue8m0:
        raise ValueError("use_packed_ue8m0: got True; expected False without use_ue8m0. Only powers of two can be packed.")
    blocks = _padded(x, 1, gran_k).unflatten(1, (-1, gran_k))
    factors = _factors(blocks.abs().amax(2), _E2M1_MAX, use_ue8m0)
    codes = encode_fp4(blocks * (1.0 / factors)[:, :, None])
    packed = join_nibbles(codes.flatten(1)[:, : x.shape[1]])
    if use_packed_ue8m0:
        factors = pack_ue8m0_to_int(torch.nn.functional.pad(factors, (0, -factors.shape[1] % 4), value=1.0))
    return packed, factors


def transpose_packed_fp4(a: Tensor) -> Tensor:
    """Transposes a matrix of e2m1, two per byte: [m, n / 2] to [n, m / 2] of the same dtype. m is even."""
    if a.dtype not in FP4_DTYPES or a.dim() != 2 or a.shape[0] % 2 != 0:
        raise ValueError(f"a: got {a.dtype} {list(a.shape)}; expected {FP4_WORDS} [even, columns].")
    return join_nibbles(split_nibbles(a).T).view(a.dtype)


def cast_back_from_fp4(packed: Tensor, sf: Tensor, gran_k: int = 128, use_packed_ue8m0: bool = False) -> Tensor:
    """The float32 matrix [m, n] from e2m1, two per byte [m, n / 2], and the factors of `per_token_cast_to_fp4`."""
    if packed.dtype not in FP4_DTYPES or packed.dim() != 2:
        raise ValueError(f"packed: got {packed.dtype} {list(packed.shape)}; expected {FP4_WORDS} [m, n / 2].")
    factors = unpack_ue8m0_from_int(sf) if use_packed_ue8m0 else sf
    values = decode_fp4(split_nibbles(packed))
    return values * factors.repeat_interleave(gran_k, 1)[:, : values.shape[1]]


__getattr__ = getter(__name__)
__dir__ = lister(__name__)
