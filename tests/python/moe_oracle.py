"""A layer of experts in float64, and as its steps by public calls of tilewright."""

import numpy as np
import tilewright as tw


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def unit(kind, gate_up, *, alpha=1.0, beta=0.0, limit=np.inf, gate_bound=4.0, up_bound=25.0, interleaved=False):
    """h of gate_up [..., rows of W_up], in float64."""
    gate_up = np.asarray(gate_up, np.float64)
    if kind == "relu_squared":
        return np.maximum(gate_up, 0) ** 2
    gate, up = (gate_up[..., 0::2], gate_up[..., 1::2]) if interleaved else np.split(gate_up, 2, axis=-1)
    if kind == "swiglu":
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
        return gate * sigmoid(alpha * gate) * (up + beta)
    if kind == "geglu":
        return gate * sigmoid(2 * (2 / np.pi) ** 0.5 * (gate + 0.044715 * gate**3)) * up
    bounded = gate_bound * np.tanh(gate / gate_bound) * sigmoid(gate)
    return bounded * (up if np.isinf(up_bound) else up_bound * np.tanh(up / up_bound))


def choices_of(ids, weights, experts, expert_map=None, shared=0):
    """(token, choice, local expert, weight) of every choice that names an expert, the shared ones of a token last."""
    for token, row in enumerate(np.asarray(ids)):
        for choice, number in enumerate(row):
            if expert_map is not None:
                number = expert_map[number] if 0 <= number < len(expert_map) else -1
            if 0 <= number < experts:
                yield token, choice, int(number), 1.0 if weights is None else float(weights[token, choice])
        for i in range(shared):
            yield token, len(row) + i, experts - shared + i, 1.0


def exact(x, up, down, ids, weights=None, *, kind="swiglu", up_bias=0, down_bias=0, addend=0, at="combine", expert_map=None, shared=0, **numbers):
    """The layer in float64."""
    x, up, down = (np.asarray(array, np.float64) for array in (x, up, down))
    up_bias = np.broadcast_to(up_bias, up.shape[:2]).astype(np.float64)
    down_bias = np.broadcast_to(down_bias, down.shape[:2]).astype(np.float64)
    out = np.zeros(x.shape) + np.asarray(addend, np.float64)
    for token, _, expert, weight in choices_of(ids, weights, len(up), expert_map, shared):
        row = x[token] * (weight if at == "input" else 1)
        h = unit(kind, up[expert] @ row + up_bias[expert], **numbers) * (weight if at == "activation" else 1)
        out[token] += (down[expert] @ h + down_bias[expert]) * (weight if at == "combine" else 1)
    return out


def steps(x, up, down, ids, weights=None, *, activations, at="combine", dtype=np.float32, **numbers):
    """SwiGLU's layer by public calls, with a GPU's bits. The sum is the definition's: fma by choice, in float32."""
    routed = tw.route(ids, up.shape[0], weights)
    rows = x[routed.sources // ids.shape[1]]
    factors = dict.fromkeys(("input", "activation"))
    if at != "combine":
        factors[at] = routed.weights
    exact_bits = {"offsets": routed.ends, "arithmetic": "bit_exact"}
    if activations == "bf16":
        codes = rows
    else:
        codes, _ = tw.quantize_tokens(rows, routed.ends, rows=activations, rows_token_factors=factors["input"])
    gate_up = tw.grouped_gemm(codes, up, **exact_bits)
    h, _ = tw.quantize_tokens(gate_up, routed.ends, rows=activations, activation="swiglu", rows_token_factors=factors["activation"], **numbers)
    y = tw.grouped_gemm(h, down, **exact_bits).astype(np.float64)
    out = np.zeros(x.shape, np.float32)
    for token, row in enumerate(routed.rows):
        for choice, place in enumerate(row):
            if place >= 0:
                weight = weights[token, choice] if at == "combine" and weights is not None else 1
                out[token] = (float(weight) * y[place] + out[token].astype(np.float64)).astype(np.float32)
    return out.astype(dtype)


def error(given, wanted):
    return np.linalg.norm(np.asarray(given, np.float64) - wanted) / max(np.linalg.norm(wanted), 1e-30)
