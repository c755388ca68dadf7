"""Wrong calls: ValueError in the caller's words, every mistake at once, and nothing written."""

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw

A = np.ones((2, 4), np.float32)
B = np.ones((3, 4), np.float32)
EXPERTS = np.ones((5, 3, 4), np.float32)


def message(call):
    with pytest.raises(ValueError) as caught:
        call()
    return str(caught.value)


WRONG = {
    "no array": (lambda: tw.gemm(A, "x"), "b: str given, an array with DLPack or the buffer protocol"),
    "float64": (
        lambda: tw.gemm(A.astype(float), B),
        "a: float64 given, bfloat16, float16 or float32 expected; convert it",
    ),
    "complex": (lambda: tw.gemm(A.astype(np.complex64), B), "a: complex64 given"),
    "integers": (lambda: tw.gemm(A.astype(np.int32), B), "a: int32 given, bfloat16, float16 or float32 expected"),
    "bytes without a format": (lambda: tw.gemm(A.astype(np.uint8), B), "a: uint8 given"),
    "shape of b": (lambda: tw.gemm(A, B[:, :3]), r"b.values: \[3, 3\] given, \[n, 4\] expected for dense nt"),
    "rank": (lambda: tw.gemm(A[0], B), r"a.values: \[4\] given"),
    "four dimensions": (lambda: tw.gemm(A[None, None], B), "at most 3 dimensions expected"),
    "reversed view": (
        lambda: tw.gemm(A[::-1], B),
        "a.values.strides: .* zero or more expected; copy the reversed view",
    ),
    "layout": (lambda: tw.gemm(A, B, layout="xy"), "layout: 'xy' given, one of nt, nn, tn, tt expected"),
    "out_dtype": (lambda: tw.gemm(A, B, out_dtype="e4m3"), "^out_dtype: 'e4m3' given, one of bf16, f16, f32, bfloat16, float16, float32, or such"),
    "unknown out_dtype": (
        lambda: tw.gemm(A, B, out_dtype="half"),
        "^out_dtype: 'half' given, one of bf16, f16, f32, bfloat16, float16, float32, or such",
    ),
    "backend": (lambda: tw.gemm(A, B, backend="tpu"), "backend: 'tpu' given, one of automatic, cpu, hopper expected"),
    "no GPU": (lambda: tw.gemm(A, B, backend="hopper"), "all tensors: host memory given, memory of cuda:0"),
    "threads": (lambda: tw.gemm(A, B, threads=-1), "threads: -1 given, an integer from 0 up expected; 0 means all"),
    "shape of out": (
        lambda: tw.gemm(A, B, out=np.zeros((3, 3), np.float32)),
        r"out: \[3, 3\] given, \[2, 3\] expected",
    ),
    "dtype of out": (lambda: tw.gemm(A, B, out=np.zeros((2, 3))), "out: float64 given"),
    "c unlike out": (lambda: tw.gemm(A, B, c=np.zeros((2, 3), np.float32)), "^c: f32 given, bf16 expected"),
    "shape of c": (lambda: tw.gemm(A, B, c=np.zeros((3, 2), np.float32), out_dtype="f32"), r"c: \[3, 2\] given"),
    "out overlaps a": (lambda: tw.gemm(A, A, out=A[:, :2]), "out: memory that overlaps a"),
    "recipe": (lambda: tw.quantize(A, "rows"), "recipe: 'rows' given, a side of a recipe: tensor, row, .*expected"),
    "pair as recipe": (lambda: tw.quantize(A, "row:row"), "recipe: 'row:row' given"),
    "values unlike recipe": (
        lambda: tw.Quantized(A, "row"),
        "values: float32 given, e4m3, or its codes as uint8 expected",
    ),
    "scales unlike recipe": (
        lambda: tw.Quantized(A.astype(ml_dtypes.float8_e4m3fn), "row", np.ones(2)),
        "scales: float64 given, f32 expected",
    ),
    "unpacked e2m1": (
        lambda: tw.Quantized(A.astype(ml_dtypes.float4_e2m1fn), "mxfp4"),
        "values: float4_e2m1fn given, e2m1, two to a byte of uint8 or int8 expected; pack",
    ),
    "gaps in packed e2m1": (
        lambda: tw.Quantized(np.zeros((4, 8), np.uint8)[:, ::2], "mxfp4"),
        r"values: strides \[8, 2\] in bytes given, one dimension of stride 1 expected",
    ),
    "odd k of e2m1": (lambda: tw.quantize(A[:, :3], "mxfp4"), r"x: \[2, 3\] given, an even last dimension"),
    "scale shape": (
        lambda: tw.gemm(tw.Quantized(np.zeros((2, 128), np.uint8), "1x128", np.ones((1, 1), np.float32)), B),
        r"a.scales: \[1, 1\] given, \[2, 1\] expected for 1x128 scaling of a \[2, 128\]",
    ),
    "no scales": (
        lambda: tw.gemm(tw.Quantized(np.zeros((2, 4), np.uint8), "row"), B),
        r"a.scales: nothing given, \[2\] expected",
    ),
    "vector": (lambda: tw.quantize(A[0], "row"), r"x: \[4\] given, \[rows, k\] or \[groups, rows, k\] expected"),
    "no groups": (lambda: tw.grouped_gemm(A, EXPERTS), "groups: none given, exactly one of indices, offsets"),
    "two groups": (lambda: tw.grouped_gemm(A, EXPERTS, indices=[0, 1], counts=[1]), "groups: indices, counts given"),
    "float offsets": (
        lambda: tw.grouped_gemm(A, EXPERTS, offsets=np.zeros(5)),
        r"offsets: float64 given, int32 or int64 expected; convert it, e.g. x.astype\(numpy.int64\)",
    ),
    "number of offsets": (lambda: tw.grouped_gemm(A, EXPERTS, offsets=[1, 2]), r"offsets: \[2\] given, \[5\] expected"),
    "decode": (lambda: tw.decode(np.zeros(4, np.uint8)), "codes: uint8 given"),
    "gaps in codes": (
        lambda: tw.encode(A[:, ::2], "e4m3"),
        r"x: strides \[4, 2\] given, \[2, 1\], rows without gaps expected",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_message(name):
    call, pattern = WRONG[name]
    with pytest.raises(ValueError, match=pattern):
        call()


def test_all_findings_at_once():
    q = tw.Quantized(np.zeros((2, 128), np.uint8), "1x128", np.ones((3, 2), np.float32))
    findings = tw.validate(q, q, layout="nn")
    assert [finding.operand for finding in findings] == ["b.values", "a.scales", "b.scales"]
    with pytest.raises(tw.InvalidCall) as caught:
        tw.gemm(q, q)
    assert [finding.operand for finding in caught.value.findings] == ["a.scales", "b.scales"]
    assert str(caught.value) == "\n".join(finding.message() for finding in caught.value.findings)
    first = caught.value.findings[0]
    assert (first.given, first.expected) == ("[3, 2]", "[2, 1] for 1x128 scaling of a [2, 128]")
    assert str(first) == first.message() and first.message() in repr(first)


def test_validate_agrees_with_the_call():
    assert tw.validate(A, B) == []
    findings = tw.validate(A, EXPERTS, offsets=[1, 2])
    assert [finding.operand for finding in findings] == ["offsets"]


def test_nothing_is_written_by_a_wrong_call():
    out = np.full((2, 3), 7, np.float32)
    message(lambda: tw.gemm(A, B, out=out, c=np.zeros((1, 1), np.float32)))
    assert (out == 7).all()


def test_a_read_only_out():
    out = np.zeros((2, 3), np.float32)
    out.flags.writeable = False
    assert message(lambda: tw.gemm(A, B, out=out)) == "out: a read-only array given, one that can be written expected"
