"""What people try first: operands that are not quantised, swapped or of groups, arrays of other kinds, no torch."""

import subprocess
import sys

import numpy as np
import pytest
import tilewright as tw

A = np.ones((4, 8), np.float32)
EXPERTS = np.ones((2, 3, 8), np.float32)
QUANTISED = tw.quantize(np.ones((4, 256), np.float32), "1x128")
WEIGHTS = tw.quantize(np.ones((2, 128, 256), np.float32), "128x128")
ENDS = [2, 4]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: tw.grouped_gemm(np.ones((4, 256), np.float32), WEIGHTS, offsets=ENDS), ". Quantize a, e.g. to 1x128 (tilewright.quantize(a, '1x128') in Python)."),
        (lambda: tw.grouped_gemm(QUANTISED, np.ones((2, 128, 256), np.float32), offsets=ENDS), ". Quantize b, e.g. to 128x128 (tilewright.quantize(b, '128x128') in Python)."),
        (lambda: tw.grouped_gemm(WEIGHTS, QUANTISED, offsets=ENDS), ". Did you swap a and b? a holds the activations, b the weights"),
        (lambda: tw.grouped_gemm(EXPERTS, A, offsets=ENDS), ". Did you swap a and b? a holds the rows of all groups"),
        (lambda: tw.gemm(QUANTISED, WEIGHTS), ". For rows of several groups use m_grouped_offsets (grouped_gemm(offsets=) in Python)"),
        (lambda: tw.batched_gemm(QUANTISED, WEIGHTS), ". For rows of several groups use m_grouped_offsets"),
        (lambda: tw.gemm(EXPERTS, EXPERTS), ". For groups of equal size use batched (batched_gemm in Python)"),
        (lambda: tw.gemm(EXPERTS, A), ". b is one matrix: reshape a to two dimensions before you quantize it"),
        (lambda: tw.quantize(A.astype(np.int32), "row"), ". Convert it, e.g. x.astype(numpy.float32)"),
        (lambda: tw.quantize(A > 0, "row"), ". Convert it, e.g. x.astype(numpy.float32)"),
        (lambda: tw.quantize(A.astype(np.complex64), "row"), ". Pass x.real and x.imag"),
        (lambda: tw.quantize(A.tolist(), "row"), ". Convert it, e.g. numpy.array(x, numpy.float32)"),
        (lambda: tw.route([[0, 1]], 2), ". Convert it, e.g. numpy.array(x, numpy.int64)"),
        (lambda: tw.gemm(A.astype(np.int8), A), ". For values that are already quantized, use Quantized"),
    ],
)
def test_first_tries_are_told_what_to_do(call, expected):
    with pytest.raises(tw.InvalidCall) as caught:
        call()
    assert expected in str(caught.value)


@pytest.mark.parametrize("function", [tw.grouped_gemm, tw.k_grouped_gemm])
def test_groups_are_given_by_name(function):
    with pytest.raises(TypeError, match=rf"^{function.__name__}\(\) takes only a and b by position\. Pass groups by keyword: "):
        function(QUANTISED, WEIGHTS, ENDS)


@pytest.mark.parametrize("module", ["tilewright.torch", "tilewright.deep_gemm"])
def test_a_missing_torch_is_named(module):
    lines = f"import sys; sys.modules['torch'] = None; import {module}"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True)
    assert done.returncode == 1 and f"ImportError: {module}" in done.stderr and "install" in done.stderr.splitlines()[-1]
