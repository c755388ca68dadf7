"""What a call from Python costs beside the computing: the smallest products, best of many runs.

python benchmarks/python_overhead.py
"""

import timeit

import ml_dtypes
import numpy as np
import tilewright as tw

x = np.ones((2, 4), np.float32)
half = x.astype(ml_dtypes.bfloat16)
out = np.zeros((2, 2), np.float32)
quantized = tw.Quantized(np.zeros((2, 4), np.uint8), "row", np.ones(2, np.float32))


class DLPack:
    """Speaks DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


exported, exported_out = DLPack(x), DLPack(out)
CALLS = {
    "quantised operands, out given": lambda: tw.gemm(quantized, quantized, out=out, threads=1),
    "quantised operands, new float32": lambda: tw.gemm(quantized, quantized, out_dtype="f32", threads=1),
    "quantised operands, new bfloat16": lambda: tw.gemm(quantized, quantized, threads=1),
    "numpy float32, out given": lambda: tw.gemm(x, x, out=out, threads=1),
    "numpy bfloat16 (ml_dtypes), out given": lambda: tw.gemm(half, half, out=out, threads=1),
    "a DLPack class in Python, out given": lambda: tw.gemm(exported, exported, out=exported_out, threads=1),
    "validate": lambda: tw.validate(quantized, quantized, out=out),
    "Quantized from arrays": lambda: tw.Quantized(quantized.values, "row", quantized.scales),
}

for name, call in CALLS.items():
    seconds = min(timeit.repeat(call, number=2000, repeat=20)) / 2000
    print(f"{name:40}{seconds * 1e6:7.2f} us")
