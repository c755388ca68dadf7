"""Call sites of vLLM, SGLang and torchao, with only the import changed."""

import contextlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from tilewright import deep_gemm
from tilewright.deep_gemm import _settings

TOKENS, EXPERTS, TOP, HIDDEN, INNER = 50, 6, 2, 256, 384


@pytest.fixture
def layer(rng):
    """A mixture-of-experts layer: tokens, routing, weights and their FP8 form."""

    def randn(*shape):
        return torch.from_numpy(rng.standard_normal(shape)).float()

    def cast(weights):
        parts = [deep_gemm.utils.per_block_cast_to_fp8(w, use_ue8m0=False) for w in weights]
        return torch.stack([values for values, _ in parts]), torch.stack([sf for _, sf in parts])

    x = randn(TOKENS, HIDDEN).bfloat16()
    w1, w2 = cast(randn(EXPERTS, 2 * INNER, HIDDEN) / HIDDEN**0.5), cast(randn(EXPERTS, HIDDEN, INNER) / INNER**0.5)
    experts = torch.from_numpy(rng.permuted([list(range(EXPERTS - 1))] * TOKENS, axis=1)[:, :TOP])  # the last is idle
    shares = torch.softmax(randn(TOKENS, TOP), 1)
    return x, experts, shares, w1, w2


def gated(gate_and_up):
    gate, up = gate_and_up.float().chunk(2, -1)
    return (torch.nn.functional.silu(gate) * up).bfloat16()


def expected(layer):
    """Token by token, with the same casts."""
    x, experts, shares, w1, w2 = layer
    out = torch.zeros(TOKENS, HIDDEN)
    for token in range(TOKENS):
        for expert, share in zip(experts[token].tolist(), shares[token], strict=True):
            inner = gated(product(x[token : token + 1], w1, expert))
            out[token] += share * product(inner, w2, expert)[0].float()
    return out


def product(rows, weights, expert):
    values, sf = deep_gemm.per_token_cast_to_fp8(rows, False)
    rows = values.double() * sf.repeat_interleave(128, 1)
    blocks = weights[1][expert].repeat_interleave(128, 0).repeat_interleave(128, 1)
    return (rows @ (weights[0][expert].double() * blocks).T).bfloat16()


def test_experts_on_contiguous_rows(layer):
    """vLLM's DeepGemmExperts: rows sorted by expert, each group padded to the alignment with rows of -1."""
    x, experts, shares, w1, w2 = layer
    align = deep_gemm.get_mk_alignment_for_contiguous_layout()
    counts = torch.bincount(experts.flatten(), minlength=EXPERTS)
    padded = (counts + align - 1) // align * align
    starts = padded.cumsum(0) - padded
    total = int(padded.sum())
    expert_ids = torch.full((total,), -1, dtype=torch.int32)
    place = torch.empty(TOKENS, TOP, dtype=torch.long)
    for expert in range(EXPERTS):
        rows = starts[expert] + torch.arange(int(counts[expert]))
        expert_ids[rows] = expert
        place[experts == expert] = rows
    a = torch.zeros(total, HIDDEN, dtype=torch.bfloat16)
    a[place.flatten()] = x.repeat_interleave(TOP, 0)

    aq, sf = deep_gemm.per_token_cast_to_fp8(a, use_ue8m0=False)
    mm1 = torch.empty(total, 2 * INNER, dtype=torch.bfloat16)
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous((aq, sf), w1, mm1, expert_ids)
    a2q = deep_gemm.per_token_cast_to_fp8(gated(mm1), use_ue8m0=False)
    sf2 = deep_gemm.get_mn_major_tma_aligned_tensor(a2q[1])
    mm2 = torch.empty(total, HIDDEN, dtype=torch.bfloat16)
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous((a2q[0], sf2), w2, mm2, expert_ids)
    out = (mm2[place].float() * shares[..., None]).sum(1)
    assert deep_gemm.calc_diff(out, expected(layer)) < 1e-5
    assert mm2.isfinite().all()


def test_experts_on_masked_rows(layer):
    """vLLM's BatchedDeepGemmExperts and SGLang's low-latency path: a block of rows for each expert."""
    x, experts, shares, w1, w2 = layer
    most = 64
    masked_m = torch.bincount(experts.flatten(), minlength=EXPERTS).int()
    rows, place = torch.zeros(EXPERTS, most, HIDDEN, dtype=torch.bfloat16), torch.empty(TOKENS, TOP, dtype=torch.long)
    for expert in range(EXPERTS):
        chosen = experts == expert
        place[chosen] = expert * most + torch.arange(int(chosen.sum()))
        rows[expert, : int(chosen.sum())] = x[chosen.nonzero()[:, 0]]
    expected_m = max(1, int(masked_m.float().mean()))

    def cast(t):
        values, sf = deep_gemm.per_token_cast_to_fp8(t.flatten(0, 1), False)
        sf = sf.unflatten(0, (EXPERTS, most))
        mn, k = t.shape[1:]
        sf = deep_gemm.transform_sf_into_required_layout(
            sf=sf, mn=mn, k=k, recipe=(1, 128, 128), num_groups=EXPERTS, is_sfa=True, disable_ue8m0_cast=True
        )
        return values.unflatten(0, (EXPERTS, most)), sf

    mm1 = torch.zeros(EXPERTS, most, 2 * INNER, dtype=torch.bfloat16)
    deep_gemm.fp8_m_grouped_gemm_nt_masked(cast(rows), w1, mm1, masked_m, expected_m, disable_ue8m0_cast=True)
    mm2 = torch.zeros(EXPERTS, most, HIDDEN, dtype=torch.bfloat16)
    deep_gemm.fp8_m_grouped_gemm_nt_masked(cast(gated(mm1)), w2, mm2, masked_m, expected_m)
    out = (mm2.flatten(0, 1)[place].float() * shares[..., None]).sum(1)
    assert deep_gemm.calc_diff(out, expected(layer)) < 1e-5


def test_a_linear_layer_under_a_limit(rng):
    """SGLang's wrapper limits one call to a part of the GPU, and restores the previous limit."""

    @contextlib.contextmanager
    def configure_deep_gemm_num_sms(num_sms):
        original = deep_gemm.get_num_sms()
        deep_gemm.set_num_sms(num_sms)
        try:
            yield
        finally:
            deep_gemm.set_num_sms(original)

    x, w = (torch.from_numpy(rng.standard_normal(shape)).bfloat16() for shape in ((7, 256), (384, 256)))
    output = x.new_empty(7, 384)
    weight, scales = deep_gemm.per_block_cast_to_fp8(w, use_ue8m0=True)
    scales = deep_gemm.transform_sf_into_required_layout(
        scales, mn=384, k=256, recipe=(1, 128, 128), is_sfa=False, disable_ue8m0_cast=False
    )
    with configure_deep_gemm_num_sms(24):
        assert _settings.call_options["sm_limit"] == 24
        deep_gemm.fp8_gemm_nt(deep_gemm.per_token_cast_to_fp8(x, True), (weight, scales), output)
    assert _settings.call_options["sm_limit"] == 0
    assert deep_gemm.calc_diff(output, x.float() @ w.float().T) < 1e-3


UNTOUCHED = """
import sys, tilewright.deep_gemm
sys.modules["deep_gemm"] = tilewright.deep_gemm
sys.modules["deep_gemm.utils"] = tilewright.deep_gemm.utils
sys.modules["deep_gemm.testing"] = tilewright.deep_gemm.testing

import torch, deep_gemm
from deep_gemm import fp8_gemm_nt
from deep_gemm.testing import calc_diff
from deep_gemm.utils.math import per_token_cast_to_fp8
from deep_gemm.utils.layout import set_mk_alignment_for_contiguous_layout
from deep_gemm.utils import per_block_cast_to_fp8
x = torch.randn(4, 128)
d = torch.empty(4, 4)
fp8_gemm_nt(per_token_cast_to_fp8(x, False), per_block_cast_to_fp8(x, False), d)
assert calc_diff(d, x @ x.T) < 1e-3
set_mk_alignment_for_contiguous_layout(64)
assert tilewright.deep_gemm.get_mk_alignment_for_contiguous_layout() == 64
try:
    fp8_gemm_nt((x, x), (x, x), d)
except ValueError as error:
    caught = error
"""


def test_source_that_is_not_to_be_touched():
    """docs/deep_gemm.md shows how; and nothing is left over at exit, where nanobind would say so."""
    done = subprocess.run([sys.executable, "-c", UNTOUCHED], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_torchao_s_products_of_training(rng):
    """blockwise_fp8_training of torchao 0.18.0: experts on rows padded to 128, then the gradient of their weights."""
    sizes, n, k = [128, 0, 256], 192, 256
    x, dy = (torch.from_numpy(rng.standard_normal((sum(sizes), width))).float() for width in (k, n))
    w = torch.from_numpy(rng.standard_normal((len(sizes), n, k))).float()
    blocks = [deep_gemm.utils.per_block_cast_to_fp8(each, use_ue8m0=False) for each in w]
    b = tuple(torch.stack(part) for part in zip(*blocks, strict=True))
    of_row = torch.repeat_interleave(torch.arange(len(sizes), dtype=torch.int32), torch.tensor(sizes))
    y = torch.empty(sum(sizes), n, dtype=torch.bfloat16)
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(
        deep_gemm.per_token_cast_to_fp8(x, False), b, y, of_row,
        recipe_a=(1, 128), recipe_b=(128, 128), disable_ue8m0_cast=True,
    )  # fmt: skip
    columns = [[deep_gemm.per_token_cast_to_fp8(part.T.contiguous(), False) for part in each.split(sizes)] for each in (dy, x)]
    flat = [(torch.cat([v.flatten() for v, _ in each]), torch.cat([sf for _, sf in each], dim=1)) for each in columns]
    dw, start = torch.empty(len(sizes), n, k), torch.zeros(len(sizes), n, k)
    deep_gemm.k_grouped_fp8_gemm_nt_contiguous(*flat, dw, sizes, torch.tensor(sizes, dtype=torch.int32), start, recipe=(1, 1, 128))
    for group, rows in enumerate(torch.arange(sum(sizes)).split(sizes)):
        assert torch.dist(y[rows].float(), x[rows] @ w[group].T) <= 0.06 * (x[rows] @ w[group].T).norm()
        assert torch.dist(dw[group], dy[rows].T @ x[rows]) <= 0.06 * (dy[rows].T @ x[rows]).norm()
