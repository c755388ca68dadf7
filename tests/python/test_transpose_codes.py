"""transpose_codes against its definition in numpy, to the bit, and messages that name the argument."""

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw

FLOAT8 = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
ENDS = [5, 5, 140, 300]


def codes(quantized):
    return np.asarray(quantized.values).view(np.uint8)


def floats(scales):
    """Of float32, or of ue8m0, which is a power of two."""
    raw = np.asarray(scales)
    if raw.dtype == np.float32:
        return raw
    with np.errstate(over="ignore"):  # of scales that nobody wrote
        return np.ldexp(np.float32(1), raw.view(np.uint8).astype(int) - 127)


def rows_of(recipe, tokens=300, features=200):
    """Scales of tokens from 2^-30 to 2^30: some are shifted to subnormals, some to zeros; a token of zeros, whose scale is 1."""
    random = np.random.default_rng(3)
    x = random.standard_normal((tokens, features)) * 2.0 ** random.integers(-12, 3, (tokens, features // 50)).repeat(50, 1)
    x[::7] *= 2.0**-30
    x[150:] *= 2.0**30
    x[4] = x[140] = 0
    return tw.quantize(x.astype(np.float32), recipe, round_up=True)


def expected_of(rows, ends, columns):
    """Values [features, columns] of fp8 and scales [blocks of features, blocks of columns], a block of the definition at a time."""
    kind = FLOAT8["e5m2" if rows.recipe.startswith("e5m2") else "e4m3"]
    numbers, scales = codes(rows).view(kind).astype(np.float32), floats(rows.scales)
    tokens, features = numbers.shape
    blocks = -(-features // 128)
    values = np.zeros((features, columns), kind)
    of_blocks = np.ones((blocks, -(-columns // 128)), np.float32)
    begin = column = 0
    for end in ends:
        for first in range(begin, end, 128):
            strip = slice(first, min(first + 128, end))
            for block in range(blocks):
                wide = slice(128 * block, min(128 * block + 128, features))
                part, own = numbers[strip, wide], scales[strip, block]
                counts = (part != 0).any(1)
                scale = own[counts].max() if counts.any() else np.float32(1)
                to = slice(column, column + len(part))
                # ml_dtypes rounds to nearest even, subnormals too; no number is beyond the largest, for no factor is above 1
                values[wide, to] = np.where(counts[:, None], part * (own / scale)[:, None], 0).T.astype(kind)
                of_blocks[block, column // 128] = scale
            column += 128
        begin = end
    return values, of_blocks, column


@pytest.mark.parametrize("columns", ["1x128", "128x128"])
@pytest.mark.parametrize("ends", [None, ENDS, [300]])
@pytest.mark.parametrize("recipe", ["1x128", "e5m2.1x128", "1x128.ue8m0", "e5m2.1x128.ue8m0"])
def test_the_bits_of_the_definition(recipe, ends, columns):
    rows = rows_of(recipe)
    word = recipe.replace("1x128", columns)
    turned = tw.transpose_codes(rows, ends, columns=word)
    width = 300 if ends is None else (300 + 127 * len(ends)) // 128 * 128
    values, scales, written = expected_of(rows, ends or [300], width)
    written = min(written, width)  # columns behind the last group are not
    assert turned.recipe == word and turned.shape == (200, width)
    # zeros of both signs are zeros: numpy's product of -x and of what it is shifted by may be one
    assert np.array_equal(codes(turned)[:, :written], values.view(np.uint8)[:, :written])
    given = floats(turned.scales)
    assert given.shape == ((2, -(-width // 128)) if columns == "128x128" else (200, -(-width // 128)))
    by_feature = given.repeat(128, 0)[:200] if columns == "128x128" else given
    assert np.array_equal(by_feature[:, : -(-written // 128)], scales.repeat(128, 0)[:200, : -(-written // 128)])
    assert (codes(turned) != 0).any() and len(np.unique(scales)) > 2


def test_values_stay_what_they_are():
    """Where scales are close, nothing becomes subnormal: quantising again would round a second time."""
    x = np.random.default_rng(0).choice([-3.5, -2, 1, 1.25, 3], (256, 128)) * 2.0 ** (np.arange(256) % 5)[:, None]
    rows = tw.quantize(x.astype(np.float32), "1x128", round_up=True)
    assert len(np.unique(rows.scales)) == 5 and np.array_equal(rows.dequantize(), x)
    assert np.array_equal(tw.transpose_codes(rows).dequantize(), x.T)


def test_the_recipe_of_rows_is_kept_and_scales_may_change():
    rows = rows_of("e5m2.1x128")
    assert tw.transpose_codes(rows).recipe == "e5m2.1x128"
    bytes_of_scales, numbers = tw.transpose_codes(rows, columns="e5m2.128x128.ue8m0"), tw.transpose_codes(rows, columns="e5m2.128x128")
    assert np.array_equal(floats(bytes_of_scales.scales), numbers.scales)
    assert np.array_equal(codes(bytes_of_scales), codes(numbers))


@pytest.mark.parametrize(("ends", "meant"), [([5, 140, 999], [5, 140, 300]), ([-7, 140, 5], [0, 140, 140])])
def test_ends_are_clamped_and_not_checked(ends, meant):
    rows = rows_of("1x128")
    given, expected = tw.transpose_codes(rows, ends), tw.transpose_codes(rows, np.array(meant, np.int32))
    written = 128 * sum(-(-(end - begin) // 128) for begin, end in zip([0, *meant], meant))
    assert np.array_equal(codes(given)[:, :written], codes(expected)[:, :written])


def test_wgrad_takes_them():
    """dY^T X of codes that were quantised once, along features."""
    rows = [tw.quantize(np.random.default_rng(i).standard_normal((300, 128)).astype(np.float32), "1x128", round_up=True) for i in (0, 1)]
    ends = np.array([140, 300])
    dy, x = (tw.transpose_codes(side, ends, columns=word) for side, word in zip(rows, ("1x128", "128x128")))
    dw = tw.k_grouped_gemm(dy, x, aligned_offsets=[140, 416], out_dtype="f32")
    for group, (begin, end) in enumerate(((0, 140), (140, 300))):
        exact = rows[0].dequantize()[begin:end].T.astype(np.float64) @ rows[1].dequantize()[begin:end]
        assert np.abs(dw[group] - exact).max() < 1e-4 * np.abs(exact).max()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows": np.ones((4, 6), np.float32)}, "rows: "),
        ({"rows": tw.quantize(np.ones((4, 6), np.float32), "row")}, "rows: got row; expected a Quantized with recipe 1x128 or none, e4m3 or e5m2."),
        ({"rows": tw.quantize(np.ones((2, 4, 6), np.float32), "1x128")}, "rows.values: got [2, 4, 6]; expected [tokens, features]."),
        ({"columns": "row"}, "columns: got row; expected 1x128 or 128x128."),
        ({"columns": "mxfp8"}, "columns: got mxfp8; expected 1x128 or 128x128."),
        ({"columns": "e5m2.1x128"}, "columns: got e5m2.1x128; expected e4m3, the format of rows. Values are moved, not converted."),
        ({"columns": 3}, "columns: got 3"),
        ({"rows": tw.Quantized(np.ones((4, 6), np.uint8), "e4m3"), "columns": "1x128"}, "columns: got 1x128; expected e4m3."),
        ({"ends": np.ones((1, 1), np.int32)}, "ends: got [1, 1]; expected [groups]."),
        ({"ends": [0.5]}, "ends[0]: got 0.5; expected an integer of 64 bits."),
        ({"threads": -1}, "threads: got -1"),
        ({"rows": tw.Quantized(np.ones((4, 6), np.uint8), "1x128", np.ones((3, 1), np.float32))}, "rows.scales: got [3, 1]; expected [4, 1]"),
    ],
)  # fmt: skip
def test_mistakes_are_named(arguments, message):
    rows = arguments.pop("rows", tw.quantize(np.ones((4, 6), np.float32), "1x128"))
    with pytest.raises(ValueError) as raised:
        tw.transpose_codes(rows, **arguments)
    assert str(raised.value).startswith(message)


def test_torch():
    torch = pytest.importorskip("torch")
    devices = ["cpu", "cuda"] if torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0) else ["cpu"]
    rows = rows_of("1x128")
    expected = tw.transpose_codes(rows, ENDS)
    written = 5 * 128
    for device in devices:
        values, scales = torch.from_numpy(codes(rows)).to(device), torch.from_numpy(rows.scales).to(device)
        given = tw.transpose_codes(tw.Quantized(values, "1x128", scales), torch.tensor(ENDS, device=device))
        assert given.values.device.type == given.scales.device.type == device and given.scales.dtype == torch.float32
        assert np.array_equal(given.values.view(torch.uint8).cpu().numpy()[:, :written], codes(expected)[:, :written])
        assert np.array_equal(given.scales.cpu().numpy()[:, :5], expected.scales[:, :5])
