"""quantize_tokens: rows and columns against quantize, SwiGLU against numpy, factors, and messages that name the argument."""

import numpy as np
import pytest
import tilewright as tw


def values(tokens, features, seed=0):
    return np.random.default_rng(seed).standard_normal((tokens, features)).astype(np.float32)


def same(quantized, expected):
    assert np.array_equal(np.asarray(quantized.values).view(np.uint8), np.asarray(expected.values).view(np.uint8))
    assert np.array_equal(quantized.scales, expected.scales)


@pytest.mark.parametrize("recipe", ["tensor", "row", "1x128", "128x128", "e5m2.1x128.ue8m0"])
def test_rows_and_columns_without_groups(recipe):
    x = values(200, 150)
    rows, columns = tw.quantize_tokens(x, rows=recipe, columns=recipe)
    same(rows, tw.quantize(x, recipe))
    same(columns, tw.quantize(x.T, recipe))
    assert rows.recipe == columns.recipe == recipe


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_groups_begin_at_multiples_of_128(dtype):
    x, ends = values(300, 40), np.array([5, 5, 140, 300], dtype)
    rows, columns = tw.quantize_tokens(x, ends, columns="1x128")
    assert rows is None and columns.shape == (40, (300 + 127 * 4) // 128 * 128)
    begin = column = 0
    for end in ends:
        alone = tw.quantize(x[begin:end].T, "1x128") if end > begin else None
        width = -(-(end - begin) // 128) * 128
        part = np.asarray(columns.values).view(np.uint8)[:, column : column + width]
        if alone is not None:
            assert np.array_equal(part[:, : end - begin], np.asarray(alone.values).view(np.uint8))
        assert not part[:, end - begin :].any()
        begin, column = int(end), column + width


def test_ends_in_a_list():
    x = values(300, 40)
    for ends in ([5, 140, 300], (5, np.int32(140), 300)):
        for given, expected in zip(
            tw.quantize_tokens(x, ends, rows="row", columns="1x128"),
            tw.quantize_tokens(x, np.array(ends), rows="row", columns="1x128"),
            strict=True,
        ):
            same(given, expected)
    with pytest.raises(tw.InvalidCall, match=r"ends\[1\]: got 8.5; expected an integer of 64 bits."):
        tw.quantize_tokens(x, [5, 8.5], rows="row")


@pytest.mark.parametrize(
    ("ends", "meant"), [([5, 140, 999], [5, 140, 300]), ([140, 5, 300], [140, 140, 300]), ([-7, 140, 300], [0, 140, 300])]
)
def test_ends_are_clamped_and_not_checked(ends, meant):
    x = values(300, 40)
    for given, expected in zip(
        tw.quantize_tokens(x, ends, rows="row", columns="row"),
        tw.quantize_tokens(x, meant, rows="row", columns="row"),
        strict=True,
    ):
        written = 512 if given.shape[0] == 40 else 40  # columns after the last group are not
        codes = [np.asarray(q.values).view(np.uint8)[:, :written] for q in (given, expected)]
        assert np.array_equal(*codes) and np.array_equal(given.scales, expected.scales)


@pytest.mark.parametrize("recipe", ["tensor", "row", "1x128"])
def test_an_index_names_rows_of_x(recipe):
    x, ends = values(50, 40), [5, 140, 300]
    index = np.random.default_rng(3).integers(-2, 53, 300).astype(np.int32)
    gathered = x[index.clip(0, 49)]
    for given, expected in zip(
        tw.quantize_tokens(x, ends, index=index, rows=recipe, columns=recipe),
        tw.quantize_tokens(gathered, ends, rows=recipe, columns=recipe),
        strict=True,
    ):
        written = 512 if given.shape[0] == 40 else 40  # columns after the last group are not
        assert given.shape == expected.shape
        codes = [np.asarray(q.values).view(np.uint8)[:, :written] for q in (given, expected)]
        assert np.array_equal(*codes) and np.array_equal(given.scales[..., :4], expected.scales[..., :4])


def test_swiglu_and_its_gradient():
    x, gradient = values(6, 64), values(6, 32, 1)
    gate, up = x[:, :32].astype(np.float64), x[:, 32:].astype(np.float64)
    sigmoid = 1 / (1 + np.exp(-gate))
    h = gate * sigmoid * up
    slope = sigmoid + gate * sigmoid * (1 - sigmoid)
    rows, _ = tw.quantize_tokens(x, rows="1x128", activation="swiglu")
    assert np.abs(rows.dequantize() - h).max() < np.abs(h).max() / 16
    rows, _ = tw.quantize_tokens(x, rows="1x128", activation="swiglu_gradient", gradient=gradient)
    expected = np.concatenate([gradient * up * slope, gradient * gate * sigmoid], 1)
    assert np.abs(rows.dequantize() - expected).max() < np.abs(expected).max() / 16


def test_factors_fold_scales_of_the_other_side():
    x = values(130, 70)
    by_token, by_feature = np.float32(1) + np.arange(130, dtype=np.float32), 0.5 + np.arange(70, dtype=np.float32)
    rows, columns = tw.quantize_tokens(
        x, rows="row", columns="128x128", rows_feature_factors=by_feature, columns_token_factors=by_token, round_up=True
    )
    same(rows, tw.quantize(x * by_feature, "row", round_up=True))
    same(columns, tw.quantize((x * by_token[:, None]).T, "128x128", round_up=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "rows: got nothing; expected rows, columns or both. Nothing would be written."),
        ({"rows": "mxfp8"}, "rows: got mxfp8; expected tensor, row, 1x128 or 128x128"),
        ({"rows": "row", "activation": "gelu"}, "activation: got 'gelu'"),
        ({"rows": "row", "activation": "swiglu_gradient"}, "gradient: got nothing"),
        ({"rows": "row", "gradient": values(4, 6)}, "Only swiglu_gradient reads it"),
        ({"rows": "row", "activation": "swiglu", "index": np.zeros(4, np.int32)}, "index: got [4]; expected nothing with an activation. Gather x first."),
        ({"rows": "row", "index": np.zeros((2, 2), np.int32)}, "index: got [2, 2]; expected [tokens]"),
        ({"rows": "row", "index": np.zeros(4)}, "index: got float64; expected int32"),
        ({"rows": "row", "index": np.zeros(4, np.int64)}, "index: got i64; expected i32"),
        ({"rows": "row", "rows_token_factors": np.ones(3, np.float32)}, "rows_token_factors: got [3]; expected [4]"),
        ({"rows": "128x128", "ends": np.array([4])}, "rows: got 128x128 with ends; expected tensor, row or 1x128. Blocks of 128x128 start again"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ValueError) as raised:
        tw.quantize_tokens(values(4, 6), **arguments)
    assert message in str(raised.value)
