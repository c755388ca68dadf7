"""Casts and layouts of scale factors: bit for bit against loops over numbers."""

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from deep_gemm_operands import bits_equal
from tilewright import deep_gemm
from tilewright.deep_gemm import utils
from tilewright.deep_gemm.utils import _codes

ONE = np.float32(1)


def numbers(rng, *shape):
    """float32 over many magnitudes, with zeros."""
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-20, 6, (*shape[:-1], 1)))
    return (x * (rng.random(shape) > 0.1)).astype(np.float32)


def factor(block, largest, use_ue8m0):
    """One scale factor, as defined."""
    value = np.float32(max(np.abs(block).max(initial=0), np.float32(1e-4))) / np.float32(largest)
    return np.exp2(np.ceil(np.log2(value.astype(np.float64)))).astype(np.float32) if use_ue8m0 else value


def blockwise(x, rows, columns, use_ue8m0):
    """(e4m3 values, factors) of blocks of rows x columns."""
    values = np.zeros(x.shape, ml_dtypes.float8_e4m3fn)
    factors = np.zeros((-(-x.shape[0] // rows), -(-x.shape[1] // columns)), np.float32)
    for i, j in np.ndindex(*factors.shape):
        part = np.s_[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
        factors[i, j] = factor(x[part], 448, use_ue8m0)
        values[part] = (x[part] * (ONE / factors[i, j])).astype(ml_dtypes.float8_e4m3fn)
    return values, factors


def assert_cast(got, expected):
    assert got[0].dtype == torch.float8_e4m3fn and got[0].is_contiguous()
    np.testing.assert_array_equal(got[0].view(torch.uint8).numpy(), expected[0].view(np.uint8))
    np.testing.assert_array_equal(got[1].numpy(), expected[1])


@pytest.mark.parametrize("use_ue8m0", [False, True])
@pytest.mark.parametrize("gran_k", [128, 32])
@pytest.mark.parametrize("shape", [(5, 256), (3, 200), (1, 7)])
def test_per_token(rng, shape, gran_k, use_ue8m0):
    x = numbers(rng, *shape)
    expected = blockwise(x, 1, gran_k, use_ue8m0)
    assert_cast(deep_gemm.per_token_cast_to_fp8(torch.from_numpy(x), use_ue8m0, gran_k), expected)
    if expected[1].shape[1] % 4 == 0 and use_ue8m0:
        packed = deep_gemm.per_token_cast_to_fp8(torch.from_numpy(x), True, gran_k, use_packed_ue8m0=True)[1]
        np.testing.assert_array_equal(deep_gemm.unpack_ue8m0_from_int(packed).numpy(), expected[1])


@pytest.mark.parametrize("use_ue8m0", [False, True])
def test_per_channel_block_and_bf16(rng, use_ue8m0):
    x = numbers(rng, 256, 12)
    assert_cast(deep_gemm.per_channel_cast_to_fp8(torch.from_numpy(x), use_ue8m0), blockwise(x, 128, 1, use_ue8m0))
    for shape in ((256, 128), (130, 300), (1, 1)):
        x = numbers(rng, *shape).astype(ml_dtypes.bfloat16).astype(np.float32)
        for given in (torch.from_numpy(x), torch.from_numpy(x).bfloat16()):
            assert_cast(deep_gemm.per_block_cast_to_fp8(given, use_ue8m0), blockwise(x, 128, 128, use_ue8m0))


def test_per_custom_dims(rng):
    x = numbers(rng, 4, 5, 6)
    values, factors = deep_gemm.per_custom_dims_cast_to_fp8(torch.from_numpy(x), (0, 2), False)
    assert values.shape == (4, 5, 6) and factors.shape == (4, 6)
    for i, j in np.ndindex(4, 6):
        expected = blockwise(x[i, :, j][:, None], 5, 1, False)
        assert_cast((values[i, :, j].contiguous()[:, None], factors[i, j].reshape(1, 1)), expected)


def test_power_of_two_at_least():
    x = torch.tensor([1.0, 1.0001, 0.75, 2.0**-130, 0.0, 2.0**127, 3e38, -5.0])
    expected = [1.0, 2.0, 1.0, 2.0**-126, 2.0**-126, 2.0**127, 2.0**127, 8.0]
    assert deep_gemm.ceil_to_ue8m0(x).tolist() == expected


def test_packing():
    x = torch.tensor([[1.0, 2.0, 0.5, 4.0]])
    packed = deep_gemm.pack_ue8m0_to_int(x)
    assert packed.dtype == torch.int32 and packed.view(torch.uint8).tolist() == [[127, 128, 126, 129]]
    assert torch.equal(deep_gemm.unpack_ue8m0_from_int(packed), x)
    for wrong in (torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[1.0, 2.0, -4.0, 4.0]])):
        with pytest.raises(ValueError, match="positive powers of two"):
            deep_gemm.pack_ue8m0_to_int(wrong)
    with pytest.raises(ValueError, match="multiple of 4 columns"):
        deep_gemm.pack_ue8m0_to_int(torch.ones(1, 3))


FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


@pytest.mark.parametrize("gran_k", [32, 128])
@pytest.mark.parametrize("packed", [False, True])
def test_fp4(rng, gran_k, packed):
    x = numbers(rng, 6, 192)
    values, factors = deep_gemm.per_token_cast_to_fp4(torch.from_numpy(x), True, gran_k, packed)
    assert values.dtype == torch.int8 and values.shape == (6, 96)
    back = deep_gemm.cast_back_from_fp4(values, factors, gran_k, packed).numpy()
    for i, j in np.ndindex(6, -(-192 // gran_k)):
        part = np.s_[i, j * gran_k : (j + 1) * gran_k]
        s = factor(x[part], 6, True)
        scaled = np.abs(x[part]) / s
        nearest = FP4[np.abs(scaled[:, None] - FP4).argmin(1)]  # of two as near the smaller
        np.testing.assert_array_equal(back[part], np.sign(x[part]) * nearest * s)


def test_fp4_codes_and_transposition():
    x = torch.tensor([[6.0, -0.25, 0.75, -1.5, 1.25, 5.0, -6.0, 2.5]]).repeat(2, 1)
    values, factors = deep_gemm.per_token_cast_to_fp4(x, False, 8)
    assert factors.tolist() == [[1.0], [1.0]]
    assert values[0].view(torch.uint8).tolist() == [0x07, 0xB1, 0x62, 0x4F]
    codes = values.view(torch.uint8)
    nibbles = torch.stack((codes & 15, codes >> 4), 2).flatten(1)
    assert nibbles[0].tolist() == [7, 0, 1, 8 + 3, 2, 6, 8 + 7, 4]
    turned = deep_gemm.transpose_packed_fp4(values)
    assert turned.shape == (8, 1)
    again = torch.stack((turned.view(torch.uint8) & 15, turned.view(torch.uint8) >> 4), 2).flatten(1)
    assert torch.equal(again, nibbles.T)


def test_sums():
    assert [deep_gemm.ceil_div(x, 4) for x in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert [utils.align(x, 128) for x in (0, 1, 128, 129)] == [0, 128, 128, 256]
    assert [utils.get_tma_aligned_size(5, size) for size in (1, 2, 4, 8)] == [16, 8, 8, 6]


@pytest.mark.parametrize("shape", [(5, 3), (8, 3), (3, 5, 2), (1, 4, 7), (2, 1, 1)])
@pytest.mark.parametrize("turned", [False, True])
def test_mn_major(rng, shape, turned):
    sf = torch.from_numpy(numbers(rng, *shape))
    sf = sf.mT.contiguous().mT if turned else sf
    got = deep_gemm.get_mn_major_tma_aligned_tensor(sf)
    aligned = -(-shape[-2] // 4) * 4
    assert torch.equal(got, sf) and got.stride()[-2:] == (1, aligned)
    assert len(shape) == 2 or got.stride(0) == aligned * shape[-1]
    assert deep_gemm.get_mn_major_tma_aligned_tensor(got) is got
    assert deep_gemm.get_col_major_tma_aligned_tensor is deep_gemm.get_mn_major_tma_aligned_tensor


@pytest.mark.parametrize("shape", [(5, 3), (1, 1), (8, 8), (3, 6, 5)])
def test_packed_mn_major(rng, shape):
    exponents = rng.integers(1, 255, shape)
    sf = torch.from_numpy(np.exp2(exponents - 127.0).astype(np.float32))
    got = deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor(sf)
    columns = -(-shape[-1] // 4)
    assert got.dtype == torch.int32 and got.shape == (*shape[:-1], columns)
    assert got.stride()[-2:] == (1, -(-shape[-2] // 4) * 4)
    padded = np.zeros((*shape[:-1], columns * 4), np.uint8)
    padded[..., : shape[-1]] = exponents
    np.testing.assert_array_equal(got.clone(memory_format=torch.contiguous_format).view(torch.uint8).numpy(), padded)


@pytest.mark.parametrize("psum, given", [(False, "ks"), (True, "ks"), (True, "aligned"), (True, None)])
def test_k_grouped_packing(rng, psum, given):
    gran_k, alignment, mn = 32, 160, 8
    ks = [416, 0, 32, 160, 100] if psum else [416, 0, 32, 160, 96]
    blocks = [-(-k // gran_k) for k in ks]
    exponents = rng.integers(1, 255, (sum(blocks), mn))
    layout, end = [], 0
    for k in ks:
        end = -(-end // alignment) * alignment + k
        layout.append(end)
    expected, first = [], 0
    for count in blocks:
        padded = np.zeros((-(-count // 4) * 4, mn), np.uint8)
        padded[:count] = exponents[first : first + count]
        expected.append(padded.reshape(-1, 4, mn))
        first += count
    expected = np.concatenate(expected)
    numbers_of_host = {"ks": ks, "aligned": [-(-k // alignment) * alignment for k in ks], None: None}[given]
    got = deep_gemm.get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor(
        torch.from_numpy(np.exp2(exponents - 127.0).astype(np.float32)),
        torch.tensor(layout if psum else ks, dtype=torch.int32), numbers_of_host, gran_k, alignment, psum,
    )  # fmt: skip
    assert got.dtype == torch.int32 and got.shape[1] == mn and got.shape[0] >= len(expected)
    codes = got.contiguous().view(torch.uint8).view(-1, mn, 4).transpose(1, 2)
    np.testing.assert_array_equal(codes[: len(expected)].numpy(), expected)
    if given == "ks":
        assert len(got) == len(expected)


def test_required_layout(rng):
    sf = torch.from_numpy(numbers(rng, 5, 3))
    for recipe in ({"recipe": (1, 128, 128), "is_sfa": True}, {"recipe": (1, 128)}):
        got = deep_gemm.transform_sf_into_required_layout(sf, mn=5, k=300, **recipe)
        assert got.stride() == (1, 8) and bits_equal(got, sf)
    grouped = torch.from_numpy(numbers(rng, 2, 3, 4))
    kept = deep_gemm.transform_sf_into_required_layout(grouped, 300, 512, (1, 128, 128), 2, is_sfa=False)
    assert kept is grouped
    moved = deep_gemm.transform_sf_into_required_layout(grouped, 3, 512, (1, 128), num_groups=2)
    assert moved.stride() == (16, 1, 4)
    for arguments, message in (
        (
            (sf, 6, 300, (1, 128)),
            r"sf: got \[5, 3\]; expected \[6, 3\], a factor per 1 x 128 of \[mn, k\] = \[6, 300\]\.",
        ),
        ((grouped, 3, 512, (1, 128), 3), r"sf: got \[2, 3, 4\]; expected \[3, 3, 4\], "),
        ((sf, 5, 300, (1, 128, 128)), "is_sfa"),
        ((sf, 5, 384, (1, 32)), r"sf: got \[5, 3\]; expected \[5, 12\], "),
        ((sf, 640, 96, (128, 32)), r"sf: got torch\.float32 for 128 x 32; expected torch\.float32 for 1 x 128, 128 x 128 or"),
        ((sf.double(), 5, 300, (1, 128)), r"sf: got torch\.float64 for 1 x 128"),
        ((sf.int(), 640, 1536, (128, 128)), r"sf: got torch\.int32 for 128 x 128"),
        ((sf.int(), 5, 300, (1, 128)), r"sf: got \[5, 3\]; expected \[5, 1\], four packed factors per 1 x 512 of"),
    ):
        with pytest.raises(ValueError, match=message):
            deep_gemm.transform_sf_into_required_layout(*arguments)


@pytest.mark.parametrize("shape", [(5, 6), (2, 5, 6)])
def test_required_layout_of_powers_of_two(rng, shape):
    """Factors for 32, and packed ones for 32 and 128, as DeepGEMM's FP4 callers have them."""
    groups, k = shape[0] if len(shape) == 3 else None, 170
    sf = torch.from_numpy(np.exp2(rng.integers(-4, 5, shape)).astype(np.float32))
    packed = deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor(sf)
    transform = deep_gemm.transform_sf_into_required_layout
    for recipe in ({"recipe": (1, 1, 32), "is_sfa": False}, {"recipe": [1, 32]}):
        got = transform(sf, 5, k, num_groups=groups, **recipe)
        assert got.dtype == torch.int32 and got.stride() == packed.stride() and bits_equal(got, packed)
        assert transform(got, 5, k, num_groups=groups, **recipe) is got
    assert transform(packed, 5, 4 * k, (1, 128), groups) is packed
    moved = transform(packed.contiguous(), 5, k, (1, 32), groups)
    assert moved.stride() == packed.stride() and bits_equal(moved, packed)
    kept = transform(sf, 5, k, (1, 32), groups, disable_ue8m0_cast=True)
    assert kept.stride()[-2:] == (1, 8) and bits_equal(kept, sf)


def test_other_numbers_than_powers_of_two_become_nan():
    """Where they are packed unseen: no mantissa is dropped."""
    numbers = [1.0, 3.0, 0.0, -2.0, 2.0**-126, 1.0000001, float("inf"), float("nan")]
    expected = [127, 255, 0, 255, 1, 255, 255, 255]
    sf = torch.tensor([numbers])
    assert _codes.exponents(sf).tolist() == [expected]
    for got in (
        deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor(sf),
        deep_gemm.transform_sf_into_required_layout(sf, 1, 256, (1, 32)),
    ):
        assert got.contiguous().view(torch.uint8).tolist() == [expected]
