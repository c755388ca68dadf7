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
    "no array": (lambda: tw.gemm(A, "x"), "b: got str; expected an array with DLPack or the buffer protocol"),
    "float64": (
        lambda: tw.gemm(A.astype(float), B),
        "a: got float64; expected bfloat16, float16 or float32. Convert it.",
    ),
    "complex": (lambda: tw.gemm(A.astype(np.complex64), B), "a: got complex64"),
    "integers": (lambda: tw.gemm(A.astype(np.int32), B), "a: got int32; expected bfloat16, float16 or float32."),
    "bytes without a format": (lambda: tw.gemm(A.astype(np.uint8), B), "a: got uint8"),
    "shape of b": (lambda: tw.gemm(A, B[:, :3]), r"^b: got \[3, 3\]; expected \[n, 4\] for dense nt."),
    "rank": (lambda: tw.gemm(A[0], B), r"^a: got \[4\]"),
    "four dimensions": (lambda: tw.gemm(A[None, None], B), "at most 3 dimensions"),
    "reversed view": (
        lambda: tw.gemm(A[::-1], B),
        "^a.strides: .* 0 or more. Copy the reversed view",
    ),
    "layout": (lambda: tw.gemm(A, B, layout="xy"), "layout: got 'xy'; expected one of nt, nn, tn, tt."),
    "out_dtype": (lambda: tw.gemm(A, B, out_dtype="e4m3"), "^out_dtype: got 'e4m3'; expected one of bf16, f16, f32, bfloat16, float16, float32, or the same dtype"),
    "unknown out_dtype": (
        lambda: tw.gemm(A, B, out_dtype="half"),
        "^out_dtype: got 'half'; expected one of bf16, f16, f32, bfloat16, float16, float32, or the same dtype",
    ),
    "backend": (lambda: tw.gemm(A, B, backend="tpu"), "backend: got 'tpu'; expected one of automatic, cpu, hopper."),
    "no GPU": (lambda: tw.gemm(A, B, backend="hopper"), "all tensors: got host memory; expected memory of cuda:0"),
    "threads": (lambda: tw.gemm(A, B, threads=-1), "threads: got -1; expected an integer of at least 0. 0 means all."),
    "shape of out": (
        lambda: tw.gemm(A, B, out=np.zeros((3, 3), np.float32)),
        r"out: got \[3, 3\]; expected \[2, 3\].",
    ),
    "dtype of out": (lambda: tw.gemm(A, B, out=np.zeros((2, 3))), "out: got float64"),
    "c unlike out": (lambda: tw.gemm(A, B, c=np.zeros((2, 3), np.float32)), "^c: got f32; expected bf16."),
    "shape of c": (lambda: tw.gemm(A, B, c=np.zeros((3, 2), np.float32), out_dtype="f32"), r"c: got \[3, 2\]"),
    "out overlaps a": (lambda: tw.gemm(A, A, out=A[:, :2]), "out: got memory that overlaps a"),
    "recipe": (lambda: tw.quantize(A, "rows"), "recipe: got 'rows'; expected one of tensor, row, "),
    "pair as recipe": (lambda: tw.quantize(A, "row:row"), "recipe: got 'row:row'"),
    "values unlike recipe": (
        lambda: tw.Quantized(A, "row"),
        "values: got float32; expected e4m3, or its codes as uint8.",
    ),
    "scales unlike recipe": (
        lambda: tw.Quantized(A.astype(ml_dtypes.float8_e4m3fn), "row", np.ones(2)),
        "scales: got float64; expected f32.",
    ),
    "unpacked e2m1": (
        lambda: tw.Quantized(A.astype(ml_dtypes.float4_e2m1fn), "mxfp4"),
        "values: got float4_e2m1fn; expected e2m1, two values per byte of uint8 or int8. Pack.",
    ),
    "gaps in packed e2m1": (
        lambda: tw.Quantized(np.zeros((4, 8), np.uint8)[:, ::2], "mxfp4"),
        r"values: got strides \[8, 2\] in bytes; expected one dimension of stride 1.",
    ),
    "odd k of e2m1": (lambda: tw.quantize(A[:, :3], "mxfp4"), r"x: got \[2, 3\]; expected an even last dimension"),
    "scale shape": (
        lambda: tw.gemm(tw.Quantized(np.zeros((2, 128), np.uint8), "1x128", np.ones((1, 1), np.float32)), B),
        r"a.scales: got \[1, 1\]; expected \[2, 1\] for 1x128 scales of a \[2, 128\].",
    ),
    "no scales": (
        lambda: tw.gemm(tw.Quantized(np.zeros((2, 4), np.uint8), "row"), B),
        r"a.scales: got nothing; expected \[2\].",
    ),
    "vector": (lambda: tw.quantize(A[0], "row"), r"x: got \[4\]; expected \[rows, k\] or \[groups, rows, k\]."),
    "no groups": (lambda: tw.grouped_gemm(A, EXPERTS), "groups: got none; expected exactly one of indices, offsets"),
    "two groups": (lambda: tw.grouped_gemm(A, EXPERTS, indices=[0, 1], counts=[1]), "groups: got indices, counts"),
    "float offsets": (
        lambda: tw.grouped_gemm(A, EXPERTS, offsets=np.zeros(5)),
        r"offsets: got float64; expected int32 or int64. Convert it, e.g. x.astype\(numpy.int64\).",
    ),
    "number of offsets": (lambda: tw.grouped_gemm(A, EXPERTS, offsets=[1, 2]), r"offsets: got \[2\]; expected \[5\]."),
    "decode": (lambda: tw.decode(np.zeros(4, np.uint8)), "codes: got uint8"),
    "gaps in codes": (
        lambda: tw.encode(A[:, ::2], "e4m3"),
        r"x: got strides \[4, 2\]; expected \[2, 1\], rows without gaps.",
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
    assert (first.given, first.expected) == ("[3, 2]", "[2, 1] for 1x128 scales of a [2, 128]")
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
    assert message(lambda: tw.gemm(A, B, out=out)) == "out: got a read-only array; expected a writable array."
