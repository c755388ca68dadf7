"""A bias through Python: every function, both formats, the libraries' arrays, and what is refused."""

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from operands import exact_pair, product

FORMATS = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}


def whole_numbers(rng, shape, dtype=np.float32):
    return rng.integers(-99, 100, shape).astype(dtype)


@pytest.mark.parametrize("arithmetic", ["fast", "bit_exact"])
@pytest.mark.parametrize("dtype", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("recipe", ["row:row", "1x128:128x128", "mxfp8:mxfp4", "bf16:nvfp4", "bf16:bf16"])
def test_gemm(rng, recipe, dtype, arithmetic):
    a, b = exact_pair(rng, (5, 64), (18, 64), recipe, exponents=2)
    bias = whole_numbers(rng, 18, dtype)
    d = tw.gemm(a.given, b.given, bias=bias, alpha=0.5, out_dtype="f32", arithmetic=arithmetic)
    np.testing.assert_array_equal(d, 0.5 * product(a, b) + bias.astype(np.float64))


def test_is_rounded_once():
    """A sum of 257 would be 256 in bf16, and 256 + 1 as well; 258 is a number of bf16."""
    ones = np.ones((1, 257), ml_dtypes.bfloat16)
    assert tw.gemm(ones, ones, out_dtype="bf16")[0, 0] == 256
    assert tw.gemm(ones, ones, bias=np.float32([1]), out_dtype="bf16")[0, 0] == 258


@pytest.mark.parametrize("dtype", FORMATS.values(), ids=FORMATS)
def test_groups_have_one_each_or_share_one(rng, dtype):
    a, b = exact_pair(rng, (3, 4, 32), (3, 6, 32), "1x128:128x128")
    each, shared = whole_numbers(rng, (3, 6), dtype), whole_numbers(rng, 6, dtype)
    d = tw.batched_gemm(a.given, b.given, bias=each, out_dtype="f32")
    np.testing.assert_array_equal(d, product(a, b) + each[:, None].astype(np.float64))
    d = tw.batched_gemm(a.given, b.given, bias=shared, out_dtype="f32")
    np.testing.assert_array_equal(d, product(a, b) + shared.astype(np.float64))


WAYS = {
    "indices": ([2, -1, 0, 2, 7, 1], [2, -1, 0, 2, -1, 1]),
    "offsets": ([1, 1, 5], [0, 2, 2, 2, 2, -1]),
    "aligned_offsets": ([1, 4, 5], [0, -1, 1, 1, 2, -1]),
}


@pytest.mark.parametrize("word", WAYS)
def test_rows_have_that_of_their_group(rng, word):
    sizes, groups = WAYS[word]
    a, b = exact_pair(rng, (6, 32), (3, 10, 32), "row:row")
    bias = whole_numbers(rng, (3, 10))
    expected = np.full((6, 10), 7.0)
    for row, group in enumerate(groups):
        if group >= 0:
            expected[row] = b.real[group] @ a.real[row] + bias[group]
    out = np.full((6, 10), 7, np.float32)
    tw.grouped_gemm(a.given, b.given, **{word: sizes}, alignment=2, bias=bias, out=out)
    np.testing.assert_array_equal(out, expected)


def test_masked_rows_and_rows_without_k(rng):
    counts = np.array([2, 0, 3], np.int32)
    a, b = exact_pair(rng, (3, 4, 32), (3, 6, 32), "row:row")
    bias = whole_numbers(rng, (3, 6))
    inside = np.arange(4)[None, :, None] < counts[:, None, None]
    d = tw.grouped_gemm(a.given, b.given, counts=counts, bias=bias, out_dtype="f32")
    np.testing.assert_array_equal(d, np.where(inside, product(a, b) + bias[:, None], 0))
    nothing = tw.gemm(np.zeros((2, 0), np.float32), np.zeros((6, 0), np.float32), bias=bias[0], alpha=np.nan, out_dtype="f32")
    np.testing.assert_array_equal(nothing, [bias[0]] * 2)


def test_any_strides_and_the_codes_of_bf16(rng):
    a, b = exact_pair(rng, (4, 32), (6, 32), "row:row")
    wide = whole_numbers(rng, (6, 3), ml_dtypes.bfloat16)
    expected = product(a, b) + wide[:, 1].astype(np.float64)
    for bias in (wide[:, 1], wide[:, 1].view(np.uint16)):
        np.testing.assert_array_equal(tw.gemm(a.given, b.given, bias=bias, out_dtype="f32"), expected)


def test_of_torch():
    torch = pytest.importorskip("torch")
    x, w = (torch.randint(-9, 10, shape).bfloat16() for shape in ((4, 32), (6, 32)))
    bias = torch.arange(6, dtype=torch.bfloat16)
    d = tw.gemm(x, w, bias=bias, out_dtype="f32")
    assert torch.equal(d, x.float() @ w.float().T + bias.float())


def test_packed_weights(rng):
    a, b = exact_pair(rng, (5, 64), (3, 70, 64), "bf16:mxfp4", exponents=2)
    bias = whole_numbers(rng, (3, 70), ml_dtypes.bfloat16)
    packed = tw.pack_weights(b.given, "bf16")
    d = tw.grouped_gemm(a.given, packed, offsets=[2, 2, 5], bias=bias, out_dtype="f32")
    for row, group in enumerate([0, 0, 2, 2, 2]):
        np.testing.assert_array_equal(d[row], b.real[group] @ a.real[row] + bias[group].astype(np.float64))


def test_what_is_refused():
    a, b = np.ones((4, 32), np.float32), np.ones((6, 32), np.float32)
    bias = np.ones(6, np.float32)

    def message(function, *operands, **options):
        with pytest.raises(tw.InvalidCall) as error:
            function(*operands, **options)
        return str(error.value)

    assert message(tw.gemm, a, b, bias=bias[:5]) == "bias: got [5]; expected [6] for dense. n is 6 in b."
    assert message(tw.gemm, a, b, bias=bias.astype(np.float16)) == "bias: got f16; expected f32 or bf16."
    assert message(tw.gemm, a, b, bias=bias.astype(np.float64)).startswith("bias: got float64")
    both = message(tw.gemm, a, b, bias=bias, c=np.ones((4, 6), np.float32), out_dtype="f32")
    assert both == "bias: got [6] together with c; expected either bias or c. Add the bias to c first."
    with pytest.raises(TypeError, match=r"k_grouped_gemm\(\) has no keyword 'bias'"):
        tw.k_grouped_gemm(a, b, offsets=[32], bias=bias)
    assert [finding.operand for finding in tw.validate(a, b, k_grouped=True, offsets=[32], bias=bias)] == ["bias"]
    memory = np.ones((5, 6), np.float32)
    assert message(tw.gemm, a, b, bias=memory[2], out=memory[:4]) == "out: got memory that overlaps bias; expected separate memory."
    assert [finding.operand for finding in tw.validate(a, b, bias=bias[:5])] == ["bias"]


def test_takes_the_general_kernel_of_a_gpu():
    a, b = (tw.quantize(np.ones((rows, 512), np.float32), "row") for rows in (64, 1024))
    assert tw.explain(a, b).chosen.variant == "fast"
    assert tw.explain(a, b, bias=np.ones(1024, np.float32)).chosen.variant == "general"
