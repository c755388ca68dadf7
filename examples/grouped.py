"""A mixture of experts with MXFP4 weights. Each token goes to one expert, and experts may have any number of tokens.

python examples/grouped.py
"""

import numpy as np
import tilewright as tw

experts, tokens, k, n = 8, 300, 512, 256
rng = np.random.default_rng(0)
x = rng.standard_normal((tokens, k), np.float32)
w = rng.standard_normal((experts, n, k), np.float32)
expert_of = rng.integers(0, experts, tokens)

# Sort the tokens by expert, without padding. offsets[i] is the end row of expert i.
order = np.argsort(expert_of, kind="stable")
offsets = np.cumsum(np.bincount(expert_of, minlength=experts))

a = tw.quantize(x[order], "mxfp8")
b = tw.quantize(w, "mxfp4")
d = tw.grouped_gemm(a, b, offsets=offsets)  # [tokens, n], sorted by expert

# Without sorting: pass the expert of each row, and -1 for a token without an expert.
kept = np.where(np.arange(tokens) % 10 == 0, -1, expert_of)
e = tw.grouped_gemm(tw.quantize(x, "mxfp8"), b, indices=kept)

exact = np.einsum("tk,tnk->tn", x, w[expert_of])
for name, got, rows in (("sorted", d, order), ("indexed", e[kept >= 0], np.flatnonzero(kept >= 0))):
    error = np.linalg.norm(got.astype(np.float32) - exact[rows]) / np.linalg.norm(exact[rows])
    print(f"{name}: {len(rows)} tokens of {experts} experts, relative error {error:.1%}, all of it from quantization")
