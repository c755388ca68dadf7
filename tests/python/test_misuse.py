"""What callers get wrong: memory that cannot be read, values of the wrong kind, attributes that are read-only."""

import copy
import pickle

import dlpack
import numpy as np
import pytest
import tilewright as tw

A = np.ones((4, 8), np.float32)
EXPERTS = np.ones((2, 3, 8), np.float32)


def message(call):
    with pytest.raises(tw.InvalidCall) as caught:
        call()
    assert len(caught.value.findings) >= 1
    return str(caught.value)


# Memory that cannot be read


def on_gpu(code, bits):
    return dlpack.ExchangeProducer(np.zeros(4, f"u{bits // 8}"), code, bits, device=dlpack.CUDA)


@pytest.mark.parametrize(
    "make", [lambda: on_gpu(dlpack.E4M3FN, 8), lambda: tw.RawArray(4096, (4,), "e4m3", device="cuda:0")]
)
def test_decode_refuses_memory_of_a_gpu(make):
    expected = "codes: got memory of cuda:0; expected host memory. Copy it to the host."
    assert message(lambda: tw.decode(make())) == expected


@pytest.mark.parametrize(
    "make", [lambda: on_gpu(dlpack.FLOAT, 32), lambda: tw.RawArray(4096, (4,), "f32", device="cuda:0")]
)
def test_encode_refuses_memory_of_a_gpu(make):
    assert message(lambda: tw.encode(make(), "e4m3")).startswith("x: got memory of cuda:0; expected host memory")


def test_null_pointers():
    assert message(lambda: tw.encode(tw.RawArray(0, (4,), "f32", device="cpu"), "e4m3")).startswith("x: got a null pointer")
    assert message(lambda: tw.decode(tw.RawArray(0, (4,), "e4m3", device="cpu"))).startswith("codes: got a null pointer")
    assert tw.decode(tw.RawArray(0, (0,), "e4m3", device="cpu")).shape == (0,)


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (("x", (3,), "e4m3"), "address: got 'x'; expected an integer of at least 0."),
        ((-1, (3,), "e4m3"), "address: got -1; expected an integer of at least 0."),
        ((0, (-3,), "e4m3"), r"shape: got [-3]; expected sizes of 0 or more."),
        ((0, 3, "e4m3"), "shape: got 3; expected a sequence of integers."),
        ((0, (1.5,), "e4m3"), "shape[0]: got 1.5; expected a 64-bit integer."),
        ((0, (3,), 8), "format: got 8; expected one of e4m3, e5m2, e2m1, ue8m0, ue4m3, bf16, f16, f32, i32, i64."),
        ((0, (3,), "f32", (1, 1)), "strides: got 2; expected 1 (one per dimension)."),
        ((0, (3,), "f32", None, "gpu"), "device: got 'gpu'; expected cpu, cuda or cuda:<index>."),
    ],
)
def test_raw_arrays(arguments, expected):
    assert message(lambda: tw.RawArray(*arguments)) == expected


# Small and empty arrays

SHAPES = [(4, 2), (1, 2), (4, 0), (0, 4), (0, 0), (2, 3, 2), (2, 4, 0), (2, 0, 4), (0, 4, 2), (1, 1, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("recipe", ["mxfp4", "nvfp4", "mxfp8", "row", "tensor"])
def test_quantize_of_two_columns_and_of_none(shape, recipe):
    q = tw.quantize(np.ones(shape, np.float32), recipe)
    assert q.shape == shape
    np.testing.assert_array_equal(q.dequantize(), np.ones(shape, np.float32))
    if len(shape) == 2 and recipe == "mxfp4":
        b = tw.quantize(np.ones((3, shape[1]), np.float32), "mxfp8")
        np.testing.assert_array_equal(tw.gemm(q, b, out_dtype="f32"), np.full((shape[0], 3), shape[1], np.float32))
        np.testing.assert_array_equal(tw.gemm(b, q, out_dtype="f32"), np.full((3, shape[0]), shape[1], np.float32))


@pytest.mark.parametrize("shape", [*SHAPES, (0,), (2,)], ids=str)
@pytest.mark.parametrize("format", ["e4m3", "e2m1", "bf16"])
def test_encode_and_decode_of_small_arrays(shape, format):
    codes = tw.encode(np.ones(shape, np.float32), format)
    np.testing.assert_array_equal(tw.decode(codes, format), np.ones(shape, np.float32))


def test_which_dimension_of_bytes_is_packed():
    codes, scales = np.full((3, 1), 0x22, np.uint8), np.full((3, 1), 127, np.uint8)
    assert tw.Quantized(codes, "mxfp4", scales).shape == (3, 2)
    assert tw.Quantized(codes.reshape(1, 3), "mxfp4", scales).shape == (1, 6)
    assert tw.Quantized(np.zeros((1, 3), np.uint8).T, "mxfp4", scales).shape == (6, 1)
    assert tw.Quantized(np.zeros((3, 8), np.uint8)[:, :1], "mxfp4", scales).shape == (3, 2)


# Values of the wrong kind


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"alpha": None}, "alpha: got None; expected a number."),
        ({"alpha": "1"}, "alpha: got '1'; expected a number."),
        ({"alpha": 1e300}, "alpha: got 1e+300; expected a number within float32's range, whose largest is 3.4e38."),
        ({"layout": 3}, "layout: got 3; expected one of nt, nn, tn, tt."),
        ({"arithmetic": "exact"}, "arithmetic: got 'exact'; expected one of fast, bit_exact."),
        ({"threads": 1.5}, "threads: got 1.5; expected an integer of at least 0. 0 means all."),
        ({"threads": True}, "threads: got True; expected an integer of at least 0. 0 means all."),
        ({"threads": 2**40}, "threads: got 1099511627776; expected an integer of at least 0. 0 means all."),
        ({"sm_limit": "8"}, "sm_limit: got '8'; expected an integer of at least 0. 0 lifts the limit."),
        ({"overlap": "no"}, "overlap: got 'no'; expected True or False."),
        ({"backend": None}, "backend: got None; expected one of automatic, cpu, hopper."),
    ],
)
def test_options_of_the_wrong_kind(options, expected):
    assert message(lambda: tw.gemm(A, A, **options)) == expected
    assert [finding.message() for finding in tw.validate(A, A, **options)] == [expected]


def test_all_wrong_options_at_once():
    lines = message(lambda: tw.gemm(A, A, alpha=None, layout="ab", threads=-1)).splitlines()
    assert [line.split(":")[0] for line in lines] == ["layout", "alpha", "threads"]  # as in the signature


def test_numbers_of_numpy_are_taken():
    d = tw.gemm(A, A, alpha=np.float32(2), threads=np.int64(1), overlap=np.bool_(False), out_dtype="f32")
    np.testing.assert_array_equal(d, np.full((4, 4), 16))


def test_an_unknown_keyword():
    for call in (tw.gemm, tw.batched_gemm, tw.validate, tw.explain):
        with pytest.raises(TypeError, match=r"has no keyword 'alhpa'\. Did you mean alpha=\? Keywords: "):
            call(A, A, alhpa=2)
    with pytest.raises(TypeError, match=r"gemm\(\) has no keyword 'grouping'\. Keywords: layout, out, "):
        tw.gemm(A, A, grouping="batched")


def test_no_operand():
    expected = "got None; expected a Quantized, or an array of bfloat16, float16 or float32."
    assert message(lambda: tw.gemm(None, A)) == f"a: {expected}"
    assert message(lambda: tw.gemm(A, None)) == f"b: {expected}"


@pytest.mark.parametrize(
    "call, expected",
    [
        (lambda: tw.quantize(A, None), "recipe: got None; expected one of tensor, row"),
        (lambda: tw.quantize(A, "row", round_up="yes"), "round_up: got 'yes'; expected True or False."),
        (lambda: tw.quantize(None, "row"), "x: got None; expected an array."),
        (lambda: tw.Quantized(None, "row"), "values: got None; expected an array."),
        (lambda: tw.Quantized(A, 3), "recipe: got 3; expected one of tensor, row"),
        (lambda: tw.quantize(A, "row").dequantize("e4m3"), "dtype: got 'e4m3'; expected one of bf16, f16, f32, bfloat16"),
        (lambda: tw.encode(A, None), "format: got None; expected one of e4m3, e5m2, e2m1, ue8m0, ue4m3, bf16, f16, f32"),
        (lambda: tw.encode(A, "i32"), "format: got 'i32'; expected one of e4m3"),
        (lambda: tw.encode(A, "e4m3", saturate=2), "saturate: got 2; expected True or False."),
        (
            lambda: tw.decode(np.zeros(4, np.uint8)),
            "codes: got uint8; expected an array whose dtype is a float format, or its codes (uint8, uint16) with format=",
        ),
        (
            lambda: tw.gemm(A, A, out=np.zeros((4, 4))),
            "out: got float64; expected bfloat16, float16 or float32. Allocate ",
        ),
        (lambda: tw.gemm(A, A, stream=True), "stream: got True; expected an integer of at least 0."),
    ],
)
def test_messages(call, expected):
    assert message(call).startswith(expected)


def test_messages_use_the_callers_words():
    memory = np.zeros((8, 4), np.float32)
    expected = "c: got memory that overlaps out; expected separate memory, or out itself with out's strides [4, 1]."
    assert message(lambda: tw.gemm(A, A, out=memory[:4], c=memory[1:5])) == expected
    indices = np.zeros(4, np.int32)
    out = np.lib.stride_tricks.as_strided(indices.view(np.float32), (4, 1), (4, 4))
    text = message(lambda: tw.grouped_gemm(A, EXPERTS[:, :1], indices=indices, out=out))
    assert text.startswith("out: got memory that overlaps indices")


def test_arrays_that_cannot_be_viewed():
    fields = np.zeros(4, [("skipped", "u1"), ("x", "f4")])["x"].reshape(1, 4)
    assert "got strides of [20, 5] bytes for elements of 4" in message(lambda: tw.gemm(fields, fields))
    swapped = A.astype(">f4")
    assert message(lambda: tw.gemm(swapped, A)).startswith("a: got >f4 in the other byte order; expected the machine's")
    masked = np.ma.masked_array(A, A > 0)
    assert message(lambda: tw.gemm(masked, A)).startswith("a: got a masked array; expected an array without a mask.")


# Sizes of groups


@pytest.mark.parametrize("wrong", [0.9, "0", True, None, 2**70, -(2**70), float("nan"), [0], np.float32(1), np.True_])
def test_lists_of_sizes_hold_integers(wrong):
    for call in (
        lambda: tw.grouped_gemm(A, EXPERTS, indices=[0, wrong, 0, 0]),
        lambda: tw.grouped_gemm(A, EXPERTS, indices=(0, wrong, 0, 0)),
    ):
        text = message(call)
        assert text.startswith("indices[1]: got ") and text.endswith("; expected an integer of 64 bits.")
    assert message(lambda: tw.k_grouped_gemm(A, A, offsets=[4, wrong])).startswith("offsets[1]: ")


def test_groups_of_k_are_given_in_one_way():
    text = message(lambda: tw.k_grouped_gemm(A, A, offsets=[4], counts=[4]))
    assert text == "groups: got offsets, counts; expected exactly one of offsets, aligned_offsets, counts."
    a, b = tw.quantize(A, "1x128"), tw.quantize(A, "row")
    text = message(lambda: tw.k_grouped_gemm(a, b, aligned_offsets=[4], alignment=8))
    assert text.startswith("alignment: got 8; expected a multiple of 128 for 1x128 scales of a. Each group ")
    apart = np.zeros((4, 40), np.float32)[:, :32]
    text = message(lambda: tw.k_grouped_gemm(apart, apart, counts=[32]))
    assert "a.strides: got [40, 1]; expected [32, 1] for k_grouped_flat. Groups of k_grouped_flat have no gaps" in text


def test_lists_of_sizes_that_are_right():
    expected = tw.grouped_gemm(A, EXPERTS, offsets=np.array([1, 4]))
    for sizes in ([1, 4], (1, 4), [np.int32(1), np.uint8(4)]):
        np.testing.assert_array_equal(tw.grouped_gemm(A, EXPERTS, offsets=sizes), expected)


def test_masked_sizes():
    masked = np.ma.masked_array([0, 1, 0, 0], [0, 1, 0, 0])
    assert message(lambda: tw.grouped_gemm(A, EXPERTS, indices=masked)).startswith("indices: got a masked array")


def test_hints_of_the_wrong_kind():
    lines = message(lambda: tw.grouped_gemm(A, EXPERTS, aligned_offsets=[1, 2], alignment=1.5, expected_m="4"))
    assert lines.splitlines() == [
        "alignment: got 1.5; expected a 64-bit integer.",
        "expected_m: got '4'; expected a 64-bit integer.",
    ]


# Attributes


@pytest.mark.parametrize("name", ["values", "scales", "tensor_scale", "recipe", "shape", "addresses"])
def test_a_quantized_cannot_be_changed(name):
    q = tw.quantize(A, "row")
    before = getattr(q, name)
    with pytest.raises(AttributeError, match=rf"Quantized\.{name} is read-only: make a new Quantized"):
        setattr(q, name, before)
    with pytest.raises(AttributeError):
        delattr(q, name)


def test_copies_are_what_is_multiplied():
    q = tw.quantize(np.random.default_rng(0).standard_normal((4, 32)).astype(np.float32), "nvfp4")
    doubled = tw.Quantized(q.values, q.recipe, q.scales, q.tensor_scale * 2)
    for other in (copy.copy(doubled), copy.deepcopy(doubled), pickle.loads(pickle.dumps(doubled))):
        np.testing.assert_array_equal(tw.gemm(other, other), tw.gemm(doubled, doubled))
        assert (tw.gemm(other, other) != tw.gemm(q, q)).any()


def test_subclasses_have_attributes_of_their_own():
    class Named(tw.Quantized):
        pass

    q = Named(np.full((2, 4), 0x38, np.uint8), "tensor", np.ones(1, np.float32))
    q.name = "weight"
    assert q.name == "weight" and tw.gemm(q, q, out_dtype="f32")[0, 0] == 4


# Operands without all dimensions: messages name sizes that are not known by their letters


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: tw.gemm(A[0], A), r"a: got [8]; expected [m, 8] for dense nt."),
        (lambda: tw.gemm(A, A[0]), r"b: got [8]; expected [n, 8] for dense nt."),
        (lambda: tw.batched_gemm(A, EXPERTS), r"a: got [4, 8]; expected [2, m, 8] for batched nt."),
    ],
)
def test_sizes_that_are_not_known_have_letters(call, expected):
    text = message(call)
    assert expected in text and "out" not in text, text


def test_fp8_arrays_alone_are_no_operands():
    q = tw.quantize(np.ones((2, 128), np.float32), "row")
    message = r"^b: got an array of e4m3; expected a Quantized, with the scales of its values. Quantized\(array, 'e4m3'\)."
    with pytest.raises(ValueError, match=message):
        tw.gemm(q, q.values)
