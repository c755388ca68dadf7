"""The shortest useful program: quantize, multiply, compare with the exact product.

python examples/gemm.py
"""

import numpy as np
import tilewright as tw

rng = np.random.default_rng(0)
x = rng.standard_normal((64, 2048), np.float32)  # activations [m, k]
w = rng.standard_normal((512, 2048), np.float32)  # weights [n, k]

a = tw.quantize(x, "1x128")  # fp8, one scale per row and 128 k-elements
b = tw.quantize(w, "128x128")  # fp8, one scale per 128 x 128 block
d = tw.gemm(a, b)  # [m, n], bfloat16

exact = x @ w.T
error = np.linalg.norm(d.astype(np.float32) - exact) / np.linalg.norm(exact)
print(f"{a} times {b}: {d.dtype} {list(d.shape)}, relative error {error:.1%}, all of it from quantization")
