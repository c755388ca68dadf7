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
    expected = "codes: memory of GPU 0 given, host memory expected; copy it to the host"
    assert message(lambda: tw.decode(make())) == expected


@pytest.mark.parametrize(
    "make", [lambda: on_gpu(dlpack.FLOAT, 32), lambda: tw.RawArray(4096, (4,), "f32", device="cuda:0")]
)
def test_encode_refuses_memory_of_a_gpu(make):
    assert message(lambda: tw.encode(make(), "e4m3")).startswith("x: memory of GPU 0 given, host memory")


def test_null_pointers():
    assert message(lambda: tw.encode(tw.RawArray(0, (4,), "f32", device="cpu"), "e4m3")).startswith("x: a null pointer")
    assert message(lambda: tw.decode(tw.RawArray(0, (4,), "e4m3", device="cpu"))).startswith("codes: a null pointer")
    assert tw.decode(tw.RawArray(0, (0,), "e4m3", device="cpu")).shape == (0,)


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (("x", (3,), "e4m3"), "address: 'x' given, an integer from 0 up expected"),
        ((-1, (3,), "e4m3"), "address: -1 given, an integer from 0 up expected"),
        ((0, (-3,), "e4m3"), r"shape: [-3] given, sizes from 0 up expected"),
        ((0, 3, "e4m3"), "shape: 3 given, a sequence of integers expected"),
        ((0, (1.5,), "e4m3"), "shape[0]: 1.5 given, an integer of 64 bits expected"),
        ((0, (3,), 8), "format: 8 given, one of e4m3, e5m2, e2m1, ue8m0, ue4m3, bf16, f16, f32, i32, i64 expected"),
        ((0, (3,), "f32", (1, 1)), "strides: 2 strides given, 1, one a dimension expected"),
        ((0, (3,), "f32", None, "gpu"), "device: 'gpu' given, cpu, cuda or cuda:<index> expected"),
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
        ({"alpha": None}, "alpha: None given, a number expected"),
        ({"alpha": "1"}, "alpha: '1' given, a number expected"),
        ({"alpha": 1e300}, "alpha: 1e+300 given, a number within float32's range, whose largest is 3.4e38 expected"),
        ({"layout": 3}, "layout: 3 given, one of nt, nn, tn, tt expected"),
        ({"arithmetic": "exact"}, "arithmetic: 'exact' given, one of fast, bit_exact expected"),
        ({"threads": 1.5}, "threads: 1.5 given, an integer from 0 up expected; 0 means all"),
        ({"threads": True}, "threads: True given, an integer from 0 up expected; 0 means all"),
        ({"threads": 2**40}, "threads: 1099511627776 given, an integer from 0 up expected; 0 means all"),
        ({"sm_limit": "8"}, "sm_limit: '8' given, an integer from 0 up expected; 0 lifts the limit"),
        ({"overlap": "no"}, "overlap: 'no' given, True or False expected"),
        ({"backend": None}, "backend: None given, one of automatic, cpu, hopper expected"),
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
    expected = "given, a Quantized, or an array of bfloat16, float16 or float32 expected"
    assert message(lambda: tw.gemm(None, A)) == f"a: None {expected}"
    assert message(lambda: tw.gemm(A, None)) == f"b: None {expected}"


@pytest.mark.parametrize(
    "call, expected",
    [
        (lambda: tw.quantize(A, None), "recipe: None given, a side of a recipe: tensor, row"),
        (lambda: tw.quantize(A, "row", round_up="yes"), "round_up: 'yes' given, True or False expected"),
        (lambda: tw.quantize(None, "row"), "x: None given, an array expected"),
        (lambda: tw.Quantized(None, "row"), "values: None given, an array expected"),
        (lambda: tw.Quantized(A, 3), "recipe: 3 given, a side of a recipe: tensor, row"),
        (lambda: tw.quantize(A, "row").dequantize("e4m3"), "dtype: 'e4m3' given, one of bf16, f16, f32, bfloat16"),
        (lambda: tw.encode(A, None), "format: None given, one of e4m3, e5m2, e2m1, ue8m0, ue4m3, bf16, f16, f32"),
        (lambda: tw.encode(A, "i32"), "format: 'i32' given, one of e4m3"),
        (lambda: tw.encode(A, "e4m3", saturate=2), "saturate: 2 given, True or False expected"),
        (
            lambda: tw.decode(np.zeros(4, np.uint8)),
            "codes: uint8 given, an array whose dtype is a float format, or its codes (uint8, uint16) with format=",
        ),
        (
            lambda: tw.gemm(A, A, out=np.zeros((4, 4))),
            "out: float64 given, bfloat16, float16 or float32 expected; make",
        ),
        (lambda: tw.gemm(A, A, stream=True), "stream: True given, an integer from 0 up expected"),
    ],
)
def test_messages(call, expected):
    assert message(call).startswith(expected)


def test_messages_use_the_callers_words():
    memory = np.zeros((8, 4), np.float32)
    expected = "c: memory that overlaps out given, memory of its own, or out itself with out's strides [4, 1] expected"
    assert message(lambda: tw.gemm(A, A, out=memory[:4], c=memory[1:5])) == expected
    indices = np.zeros(4, np.int32)
    out = np.lib.stride_tricks.as_strided(indices.view(np.float32), (4, 1), (4, 4))
    text = message(lambda: tw.grouped_gemm(A, EXPERTS[:, :1], indices=indices, out=out))
    assert text.startswith("out: memory that overlaps indices given")


def test_arrays_that_cannot_be_viewed():
    fields = np.zeros(4, [("skipped", "u1"), ("x", "f4")])["x"].reshape(1, 4)
    assert "strides of [20, 5] bytes for elements of 4 given" in message(lambda: tw.gemm(fields, fields))
    swapped = A.astype(">f4")
    assert message(lambda: tw.gemm(swapped, A)).startswith("a: >f4 in the other byte order given, the machine's")
    masked = np.ma.masked_array(A, A > 0)
    assert message(lambda: tw.gemm(masked, A)).startswith("a: a masked array given, an array without a mask expected")


# Sizes of groups


@pytest.mark.parametrize("wrong", [0.9, "0", True, None, 2**70, -(2**70), float("nan"), [0], np.float32(1), np.True_])
def test_lists_of_sizes_hold_integers(wrong):
    for call in (
        lambda: tw.grouped_gemm(A, EXPERTS, indices=[0, wrong, 0, 0]),
        lambda: tw.grouped_gemm(A, EXPERTS, indices=(0, wrong, 0, 0)),
    ):
        text = message(call)
        assert text.startswith("indices[1]: ") and text.endswith(" given, an integer of 64 bits expected")
    assert message(lambda: tw.k_grouped_gemm(A, A, offsets=[4, wrong])).startswith("offsets[1]: ")


def test_groups_of_k_are_given_in_one_way():
    text = message(lambda: tw.k_grouped_gemm(A, A, offsets=[4], counts=[4]))
    assert text == "groups: offsets, counts given, exactly one of offsets, aligned_offsets, counts expected"
    a, b = tw.quantize(A, "1x128"), tw.quantize(A, "row")
    text = message(lambda: tw.k_grouped_gemm(a, b, aligned_offsets=[4], alignment=8))
    assert text.startswith("groups.alignment: 8 given, a multiple of 128 expected for 1x128 scaling of a; each group")
    apart = np.zeros((4, 40), np.float32)[:, :32]
    text = message(lambda: tw.k_grouped_gemm(apart, apart, counts=[32]))
    assert "a.values.strides: [40, 1] given, [32, 1] expected for k_grouped_flat; groups follow one another" in text


def test_lists_of_sizes_that_are_right():
    expected = tw.grouped_gemm(A, EXPERTS, offsets=np.array([1, 4]))
    for sizes in ([1, 4], (1, 4), [np.int32(1), np.uint8(4)]):
        np.testing.assert_array_equal(tw.grouped_gemm(A, EXPERTS, offsets=sizes), expected)


def test_masked_sizes():
    masked = np.ma.masked_array([0, 1, 0, 0], [0, 1, 0, 0])
    assert message(lambda: tw.grouped_gemm(A, EXPERTS, indices=masked)).startswith("indices: a masked array given")


def test_hints_of_the_wrong_kind():
    lines = message(lambda: tw.grouped_gemm(A, EXPERTS, aligned_offsets=[1, 2], alignment=1.5, expected_m="4"))
    assert lines.splitlines() == [
        "alignment: 1.5 given, an integer of 64 bits expected",
        "expected_m: '4' given, an integer of 64 bits expected",
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
        (lambda: tw.gemm(A[0], A), r"a.values: [8] given, [m, 8] expected for dense nt"),
        (lambda: tw.gemm(A, A[0]), r"b.values: [8] given, [n, 8] expected for dense nt"),
        (lambda: tw.batched_gemm(A, EXPERTS), r"a.values: [4, 8] given, [2, m, 8] expected for batched nt"),
    ],
)
def test_sizes_that_are_not_known_have_letters(call, expected):
    text = message(call)
    assert expected in text and "out" not in text, text


def test_fp8_arrays_alone_are_no_operands():
    q = tw.quantize(np.ones((2, 128), np.float32), "row")
    message = r"^b: an array of e4m3 given, a Quantized, with the scales of its values expected; Quantized\(array, 'e4m3'\)"
    with pytest.raises(ValueError, match=message):
        tw.gemm(q, q.values)
