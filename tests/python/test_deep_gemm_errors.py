"""Messages of wrong calls of tilewright.deep_gemm: the operand, its value and the expected value. Nothing is written."""

import re

import pytest

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from deep_gemm_operands import BF16, F32, SENTINEL, scaled, sentinel, unscaled
from tilewright import deep_gemm

pytestmark = pytest.mark.usefixtures("cublas_allowed")

INT = torch.int32
M, N, K, G = 8, 136, 256, 2


@pytest.fixture
def call(rng):
    """Arguments of right calls, by the name of the function; a test replaces one of them."""
    a, b = scaled(rng, (M, K), "1x128")[0], scaled(rng, (N, K), "128x128")[0]
    experts, by_group = scaled(rng, (G, N, K), "128x128")[0], scaled(rng, (G, M, K), "1x128")[0]
    rows = torch.zeros(M, dtype=INT)
    per_row = (b[0].flatten(), scaled(rng, (N, K), "1x128")[0][1])
    right = {
        "fp8_gemm_nt": {"a": a, "b": b, "d": sentinel(M, N)},
        "bf16_gemm_nt": {"a": unscaled(rng, (M, K))[0], "b": unscaled(rng, (N, K))[0], "d": sentinel(M, N)},
        "fp8_gemm_nt_skip_head_mid": {"a": a, "b": b, "d": sentinel(M, N + 8), "head_splits": (36, 4, 32)},
        "m_grouped_fp8_gemm_nt_contiguous": {"a": a, "b": experts, "d": sentinel(M, N), "grouped_layout": rows},
        "m_grouped_fp8_gemm_nt_masked": {
            "a": by_group, "b": experts, "d": sentinel(G, M, N), "masked_m": torch.full((G,), 3, dtype=INT),
            "expected_m": 4,
        },
        "k_grouped_fp8_gemm_nt_contiguous": {
            "a": per_row, "b": per_row, "d": sentinel(G, N, N, dtype=F32), "ks_cpu": [128, 128],
            "grouped_layout": torch.full((G,), 128, dtype=INT), "c": torch.zeros(G, N, N),
        },
    }  # fmt: skip

    def run(name, **wrong):
        arguments = right[name] | wrong
        getattr(deep_gemm, name)(**arguments)
        return arguments["d"]

    run.right = right
    return run


def test_right_calls_pass(call):
    for name in call.right:
        assert (call(name) != SENTINEL).any(), name


DENSE, INDEXED, MASKED = "fp8_gemm_nt", "m_grouped_fp8_gemm_nt_contiguous", "m_grouped_fp8_gemm_nt_masked"
SKIP, K_GROUPED = "fp8_gemm_nt_skip_head_mid", "k_grouped_fp8_gemm_nt_contiguous"


@pytest.mark.parametrize(
    "name, argument, change, message",
    [
        (DENSE, "d", lambda d: d[:, :5], r"^d: got \[8, 5\]; expected \[8, 136\]."),
        (DENSE, "d", lambda d: d.double(), r"^d: got .*float64; expected bfloat16, float16 or float32."),
        (DENSE, "a", lambda a: (a[0][:, :128], a[1]), r"k is 128 in a\[0\]"),
        (DENSE, "a", lambda a: (a[0], a[1][:, :1]), r"^a\[1\]: got \[8, 1\]; expected \[8, 2\]."),
        (DENSE, "b", lambda b: (b[0], b[1][:1]), r"^b\[1\]: got \[1, 2\]; expected \[2, 2\]."),
        (DENSE, "a", lambda a: (a[0].float(), a[1]), r"^a\[0\]: got torch.float32; expected torch.float8_e4m3fn"),
        (DENSE, "b", lambda b: (b[0], b[1].double()), r"^b\[1\]: got torch.float64; expected torch.float32, or torch.int32"),
        (DENSE, "c", lambda _: torch.zeros(M, N), r"^c: got (f32|.*float32); expected (bf16|bfloat16)."),
        (DENSE, "recipe", lambda _: (1, 64, 128), r"^the recipe of b: got \(64, 128\); expected \(1, 128\), \(128, 128\)"),
        (DENSE, "recipe", lambda _: (1, 128), r"^recipe: got \(1, 128\); expected \(gran_m, gran_n, gran_k\)\. Pass recipe"),
        (DENSE, "recipe_a", lambda _: (1, 128), r"^recipe_b: got None; expected recipe_a and recipe_b, or neither"),
        ("bf16_gemm_nt", "a", lambda a: a.half(), r"^a: got torch.float16; expected torch.bfloat16."),
        ("bf16_gemm_nt", "b", lambda b: b[:, :7], r"^b: got \[136, 7\]"),
        (
            SKIP,
            "head_splits",
            lambda _: (100, 4, 32),
            r"^b\[0\]: got \[136, 256\]; expected a multiple of left \+ right = 132",
        ),
        (SKIP, "head_splits", lambda _: (36, 32), r"^head_splits: got \(36, 32\); expected \(left, mid, right\)"),
        (SKIP, "d", lambda d: d[:, 1:], r"^d: got \[8, 143\]; expected \[8, 144\], 2 heads of 36 \+ 4 \+ 32 columns"),
        (INDEXED, "grouped_layout", lambda x: x.long(), r"^grouped_layout: got torch.int64 \[8\]; expected contiguous"),
        (INDEXED, "grouped_layout", lambda x: x[:3], r"^grouped_layout: got torch.int32 \[3\]; expected .* \[8\], the group of each row"),
        (INDEXED, "use_psum_layout", lambda _: True, r"^grouped_layout: got .*\[8\]; expected .*\[2\], the end row of each group"),
        (INDEXED, "expected_m_for_psum_layout", lambda _: 3, r"^expected_m_for_psum_layout: got 3; expected None without use_psum_layout=True\."),
        (INDEXED, "d", lambda d: d.float(), r"^d: got torch.float32; expected torch.bfloat16."),
        (INDEXED, "b", lambda b: (b[0][0], b[1][0]), r"^b: got \[136, 256\]; expected \[groups, n, k\]."),
        (MASKED, "masked_m", lambda x: x[:1], r"^masked_m: got torch.int32 \[1\]; expected .*\[2\], the valid rows"),
        (MASKED, "expected_m", lambda _: 0, r"^expected_m: got 0; expected a positive number."),
        (MASKED, "a", lambda a: (a[0][0], a[1][0]), r"^a: got \[8, 256\]; expected \[groups, m, k\]."),
        (K_GROUPED, "ks_cpu", lambda _: [128, 100], r"^a\[0\]: got \[34816\]; expected contiguous \[31008\]"),
        (K_GROUPED, "ks_cpu", lambda _: [384, -128], r"^ks_cpu: got -128; expected values of at least 0\."),
        (K_GROUPED, "ks_cpu", lambda _: [256], r"^ks_cpu: got 1 value; expected 2, one per group of d\."),
        (K_GROUPED, "ks_cpu", lambda _: [128, 0], r"^a\[0\]: got \[34816\]; expected contiguous \[17408\]"),
        (K_GROUPED, "d", lambda d: d.bfloat16(), r"^d: got torch.bfloat16 .*; expected torch.float32 \[groups, m, n\]\."),
        (K_GROUPED, "grouped_layout", lambda x: x.float(), r"^grouped_layout: .*ks_cpu on the device"),
    ],
)
def test_wrong_arguments(call, name, argument, change, message):
    changed = change(call.right[name].get(argument))
    with pytest.raises(ValueError) as error:
        call(name, **{argument: changed})
    assert re.search(message, str(error.value), re.MULTILINE), str(error.value)
    d = changed if argument == "d" else call.right[name]["d"]
    assert (d == SENTINEL).all()


def test_two_recipes(call):
    with pytest.raises(ValueError, match=r"recipe: .* None with recipe_a and recipe_b"):
        call(DENSE, recipe=(1, 128, 128), recipe_a=(1, 128), recipe_b=(128, 128))
    with pytest.raises(ValueError, match="grouped_layout: got nothing; expected the group of each row"):
        call(INDEXED, grouped_layout=None)


def test_every_mistake_is_told(call):
    a, b = call.right[DENSE]["a"], call.right[DENSE]["b"]
    with pytest.raises(ValueError) as error:
        call(DENSE, a=(a[0], a[1][:3]), b=(b[0], b[1][:1]))
    assert [line.split(":")[0] for line in str(error.value).splitlines()] == ["a[1]", "b[1]"]


def test_k_of_groups_from_nowhere(call):
    with pytest.raises(ValueError, match=r"^ks_cpu: got None; expected the k of each group. Pass ks_cpu, grouped_layout or both"):
        call(K_GROUPED, ks_cpu=None, grouped_layout=None)


def test_psum_of_k_is_for_other_gpus(call):
    with pytest.raises(NotImplementedError, match=r"^k_grouped_fp8_gemm_nt_contiguous: use_psum_layout=True"):
        call(K_GROUPED, use_psum_layout=True)
    with pytest.raises(NotImplementedError, match=r"^k_grouped_bf16_gemm_tn_contiguous: use_psum_layout=True"):
        deep_gemm.k_grouped_bf16_gemm_tn_contiguous(
            torch.zeros(4, 4, dtype=BF16), torch.zeros(4, 4, dtype=BF16), torch.zeros(1, 4, 4), None,
            torch.zeros(1, dtype=INT), use_psum_layout=True,
        )  # fmt: skip
