"""What callers call things: keywords under other names, dtypes of libraries, sizes given as ends, transposes."""

import inspect

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw

A = np.ones((10, 128), np.float32)
EXPERTS = np.ones((3, 8, 128), np.float32)
MULTIPLICATIONS = (tw.gemm, tw.batched_gemm, tw.grouped_gemm, tw.k_grouped_gemm, tw.validate, tw.explain, tw.workspace_bytes)


def refusal(function, **keywords):
    with pytest.raises(TypeError) as caught:
        function(A, EXPERTS, **keywords)
    return str(caught.value)


@pytest.mark.parametrize("function", MULTIPLICATIONS)
def test_an_unknown_keyword_is_answered_by_all_of_the_function(function):
    keywords = list(inspect.signature(function).parameters)[2:]
    expected = f"{function.__name__}() has no keyword 'zzz'. Keywords: {', '.join(keywords)}."
    assert refusal(function, zzz=1) == expected


@pytest.mark.parametrize(
    "given, meant",
    [
        ("ends", "offsets=?"),
        ("sizes", "offsets=? It takes the running sum of the sizes."),
        ("group_sizes", "offsets=? It takes the running sum of the sizes."),
        ("index", "indices=?"),
        ("aligned_offset", "aligned_offsets=?"),
        ("dtype", "out_dtype=?"),
        ("output", "out=?"),
        ("device", "planned_device=? A call runs where its arrays are."),
        ("reproducibility", "invariant=?"),
    ],
)
@pytest.mark.parametrize("function", [tw.grouped_gemm, tw.validate])
def test_the_keyword_that_was_meant(function, given, meant):
    message = refusal(function, **{given: [3, 8, 10]})
    assert message.startswith(f"{function.__name__}() has no keyword '{given}'. Did you mean {meant} Keywords: ")


def test_only_keywords_of_the_function_are_proposed():
    assert "offsets" not in refusal(tw.gemm, ends=[1])


def test_operands_by_position_only():
    for function, rest in (
        (tw.gemm, "the rest by keyword, e.g. out="),
        (tw.grouped_gemm, "groups by keyword: indices=, offsets=, aligned_offsets= or counts="),
        (tw.k_grouped_gemm, "groups by keyword: offsets=, aligned_offsets= or counts="),
    ):
        with pytest.raises(TypeError) as caught:
            function(A, A, [10])
        assert str(caught.value) == f"{function.__name__}() takes only a and b by position. Pass {rest}."
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'b'"):
        tw.gemm(A)


def test_errors_from_inside_of_a_call_stay_as_they_are():
    class Broken:
        def __dlpack__(self, **_):
            raise TypeError("broken by its library")

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises((TypeError, ValueError)) as caught:
        tw.gemm(Broken(), A)
    assert "keyword" not in str(caught.value) and "position" not in str(caught.value)


class Torch:
    """As torch's dtypes are, for machines without torch."""

    class dtype:  # noqa: N801
        def __init__(self, name):
            self.name = name

        def __str__(self):
            return f"torch.{self.name}"


@pytest.mark.parametrize(
    "dtype, word",
    [
        ("float32", "f32"),
        ("bfloat16", "bf16"),
        ("float16", "f16"),
        (np.float32, "f32"),
        (np.dtype("float16"), "f16"),
        (ml_dtypes.bfloat16, "bf16"),
        (np.dtype(ml_dtypes.bfloat16), "bf16"),
        (Torch.dtype("bfloat16"), "bf16"),
        (Torch.dtype("float32"), "f32"),
    ],
)
def test_dtypes_of_results(dtype, word):
    assert tw.gemm(A, A, out_dtype=dtype).dtype == tw.gemm(A, A, out_dtype=word).dtype
    assert tw.quantize(A, "row").dequantize(dtype).dtype == tw.quantize(A, "row").dequantize(word).dtype


def test_dtypes_of_torch():
    torch = pytest.importorskip("torch")
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        assert tw.gemm(torch.ones(2, 4), torch.ones(2, 4), out_dtype=dtype).dtype == dtype


@pytest.mark.parametrize(
    "dtype, shown",
    [
        (np.float64, "the type float64"),
        (float, "the type float"),
        ("float", "'float'"),
        ("half", "'half'"),
        (np.dtype(">f4"), "dtype('>f4')"),
        (np.dtype("int32"), "dtype('int32')"),
        (3, "3"),
        (A, "ndarray"),
    ],
)
def test_dtypes_that_no_result_has(dtype, shown):
    expected = (
        f"out_dtype: got {shown}; expected one of bf16, f16, f32, bfloat16, float16, float32, or the same dtype of "
        "numpy, ml_dtypes or torch."
    )
    with pytest.raises(tw.InvalidCall) as caught:
        tw.gemm(A, A, out_dtype=dtype)
    assert str(caught.value) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sizes_of_floats_are_to_be_integers(dtype):
    ends = np.array([3, 8, 10], dtype)
    expected = "int32 or int64. Convert it, e.g. x.astype(numpy.int64)."
    for call in (lambda: tw.grouped_gemm(A, EXPERTS, offsets=ends), lambda: tw.quantize_tokens(A, ends, rows="row")):
        with pytest.raises(tw.InvalidCall) as caught:
            call()
        assert str(caught.value).endswith(f": got {np.dtype(dtype)}; expected {expected}")


def test_sizes_given_as_ends_are_found():
    def found(sizes, word="offsets"):
        return [finding.message() for finding in tw.validate(A, EXPERTS, **{word: sizes})]

    expected = (
        "offsets: got end 2 for group 2 after end 5 for group 1; expected ends that do not decrease. "
        "Did you pass sizes? Use their running sum."
    )
    for sizes in ([3, 5, 2], np.array([3, 5, 2], np.int32)):
        assert found(sizes) == [expected]
    assert found([3, 5, 2], "aligned_offsets") == ["aligned_" + expected]
    assert found(np.cumsum([3, 5, 2])) == [] and found([0, 0, 8]) == []
    assert found([3, 8, 11]) == ["offsets: got end 11 for group 2; expected 0 to 10 (m of a). The call would clamp it."]


def test_groups_described_another_way():
    with pytest.raises(tw.InvalidCall) as caught:
        tw.grouped_gemm(A, EXPERTS, counts=[3, 5, 2])
    assert str(caught.value) == (
        "a: got [10, 128]; expected [3, m, 128] for m_grouped_masked nt. "
        "For groups one after another use m_grouped_offsets, with the end of each group (offsets= in Python)."
    )
    with pytest.raises(tw.InvalidCall) as caught:
        tw.grouped_gemm(A, EXPERTS, offsets=[0, 3, 8, 10])
    assert str(caught.value) == (
        "offsets: got [4]; expected [3] for m_grouped_offsets. The number of groups is 3 in b. "
        "Pass one per group, without a leading 0."
    )


def test_a_call_clamps_sizes_as_a_gpu_does():
    rows = tw.grouped_gemm(A, EXPERTS, offsets=[3, 5, 2], out_dtype="f32")
    np.testing.assert_array_equal(rows[:, 0], [128] * 5 + [0] * 5)
    np.testing.assert_array_equal(
        tw.grouped_gemm(A, EXPERTS, offsets=[3, 8, 99], out_dtype="f32"),
        tw.grouped_gemm(A, EXPERTS, offsets=[3, 8, 10], out_dtype="f32"),
    )


@pytest.mark.parametrize("recipe", ["1x128:128x128", "128x128:128x128", "row:row", "bf16:bf16"])
@pytest.mark.parametrize("layout, other", [("nt", "nn"), ("nn", "nt")])
def test_weights_the_other_way_round(recipe, layout, other):
    x, w = np.ones((256, 384), ml_dtypes.bfloat16), np.ones((512, 384), ml_dtypes.bfloat16)
    w = w.T.copy() if layout == "nt" else w
    a, b = ((v if side == "bf16" else tw.quantize(v, side)) for v, side in zip((x, w), recipe.split(":"), strict=True))
    shape = "[n, 384]" if layout == "nt" else "[384, n]"
    first = str(tw.validate(a, b, layout=layout)[0])
    value_of_a, value_of_b = ("a", "b") if recipe == "bf16:bf16" else ("a.values", "b.values")
    assert first == (
        f"{value_of_b}: got {list(w.shape)}; expected {shape} for dense {layout}. k is 384 in {value_of_a}. "
        f"Pass the transposed view, or layout {other}."
    )


@pytest.mark.parametrize(
    "side, got, expected, advice",
    [
        ("128x128", [3, 4], [4, 3], "Pass the transposed view."),
        ("1x128", [384, 4], [512, 3], "These are scales of the transpose [384, 512]. Quantize along k, whatever the layout."),
        ("row", [384], [512], "These are scales of the transpose [384, 512]. Quantize along k, whatever the layout."),
    ],
)
def test_scales_of_the_transpose(side, got, expected, advice):
    b = tw.quantize(np.ones((384, 512), np.float32), side)
    a = tw.quantize(np.ones((8, 384), np.float32), "row" if side == "row" else "1x128")
    (finding,) = tw.validate(a, b, layout="nn")
    assert str(finding) == f"b.scales: got {got}; expected {expected} for {side} scales of b [512, 384]. {advice}"
