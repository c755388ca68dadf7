"""torch.compile and torch.library: every product is one operator of the graph, with a right schema."""

import pytest

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from deep_gemm_operands import BF16, F32, bits_equal, integers, rounded, scaled, sentinel, unscaled
from tilewright import deep_gemm
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.usefixtures("cublas_allowed", "scalar_inductor")

INT = torch.int32
M, N, K, G = 16, 136, 256, 2
OPERATORS = torch.ops.tilewright


def operators_of(graph):
    """Names of our operators in a graph, also where the compiler wrapped them."""
    found = []
    for node in graph.nodes:
        targets = [node.target, *node.args] if node.op == "call_function" else []
        found += [str(t).split(".")[1] for t in targets if str(t).startswith("tilewright.")]
    return found


def compiled(function):
    """The function with nothing left to Python, and the operators that the compiler saw."""
    seen = []

    def backend(graph, inputs):
        seen.extend(operators_of(graph.graph))
        return graph.forward

    return torch.compile(function, backend=backend, fullgraph=True), seen


def test_a_layer_stays_one_graph(rng):
    (a, real_a), (b, real_b) = scaled(rng, (M, K), "1x128"), scaled(rng, (N, K), "128x128")

    def layer(a, b, bias):
        d = torch.empty(a[0].shape[0], b[0].shape[0], dtype=BF16)
        deep_gemm.fp8_gemm_nt(a, b, d)
        deep_gemm.fp8_gemm_nt(a, b, d, c=d)
        return d + bias

    bias = integers(rng, N)
    function, seen = compiled(layer)
    once = rounded(real_a @ real_b.T, BF16)
    twice = rounded(once.double() + real_a @ real_b.T, BF16)
    assert torch.equal(function(a, b, bias), twice + bias)
    assert seen == ["fp8_gemm", "fp8_gemm"]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compilers_see_what_is_written(rng, backend):
    """Operators that write into d survive functionalisation, in place and not."""
    (x, real_x), (w, real_w) = unscaled(rng, (M, K)), unscaled(rng, (N, K))
    (a, real_a), (b, real_b) = scaled(rng, (M, K), "1x128"), scaled(rng, (N, K), "128x128")

    def function(x, w, a, b, d):
        deep_gemm.bf16_gemm_nt(x, w, d)
        half = d * 0.5
        deep_gemm.fp8_gemm_nt(a, b, d, c=d)
        return half

    d = sentinel(M, N, dtype=F32)
    try:
        half = torch.compile(function, backend=backend, fullgraph=True)(x, w, a, b, d)
    except torch._inductor.exc.InductorError as error:
        pytest.skip(f"this machine lacks what inductor compiles with: {str(error)[:80]}")
    assert torch.equal(half, rounded(real_x @ real_w.T * 0.5, F32))
    assert torch.equal(d, rounded(real_x @ real_w.T + real_a @ real_b.T, F32))


def test_token_counts_may_vary(rng):
    (b, real_b) = scaled(rng, (N, K), "128x128")

    @torch.compile(backend="aot_eager", fullgraph=True, dynamic=True)
    def function(a, sf, b, sfb):
        d = torch.empty(a.shape[0], b.shape[0], dtype=BF16)
        deep_gemm.fp8_gemm_nt((a, sf), (b, sfb), d)
        return d

    for rows in (3, 17, 40):
        (a, real_a) = scaled(rng, (rows, K), "1x128")
        assert torch.equal(function(*a, *b), rounded(real_a @ real_b.T, BF16))


def test_grouped_calls_stay_in_the_graph(rng):
    a, experts = scaled(rng, (M, K), "1x128")[0], scaled(rng, (G, N, K), "128x128")[0]
    x, w = unscaled(rng, (M, K))[0], unscaled(rng, (G, N, K))[0]
    groups, counts = torch.zeros(M, dtype=INT), torch.full((G,), 5, dtype=INT)

    def function(d, by_group, total):
        deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, experts, d, groups)
        deep_gemm.m_grouped_bf16_gemm_nt_contiguous(x, w, d, groups)
        masked = (a[0].view(G, M // G, K), a[1].view(G, M // G, -1))
        deep_gemm.fp8_m_grouped_gemm_nt_masked(masked, experts, by_group, counts, 4)
        deep_gemm.einsum("bmk,bnk->mn", x[None], w[:1], total, c=total)
        return d + 1

    outputs = lambda: (sentinel(M, N), sentinel(G, M // G, N), torch.zeros(M, N))
    graph, seen = compiled(function)
    ours, theirs = outputs(), outputs()
    assert torch.equal(graph(*ours), function(*theirs))
    assert all(torch.equal(mine, other) for mine, other in zip(ours, theirs, strict=True))
    assert seen == ["m_grouped_fp8_gemm_contiguous", "m_grouped_bf16_gemm_contiguous", "m_grouped_fp8_gemm_masked",
                    "einsum"]  # fmt: skip


def test_whoever_watches_operators_sees_them(rng):
    """Other calls go past the dispatcher, with the same result."""
    (a, real_a), (b, real_b) = scaled(rng, (M, K), "1x128"), scaled(rng, (N, K), "128x128")
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    class Tagged(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*(torch.empty_like(real_a) if isinstance(x, Tagged) else x for x in args), **(kwargs or {}))

    def product(x=a[0]):
        d = sentinel(M, N)
        deep_gemm.fp8_gemm_nt((x, a[1]), b, d)
        return d

    expected = rounded(real_a @ real_b.T, BF16)
    assert torch.equal(product(), expected) and not seen
    with Watch():
        assert torch.equal(product(), expected)
    assert seen.count("tilewright.fp8_gemm.default") == 1
    with pytest.raises(ValueError, match=r"^a\[0\]: got torch.float64"):
        product(torch.Tensor._make_subclass(Tagged, a[0]))
    assert seen.count("tilewright.fp8_gemm.default") == 2
    assert torch.equal(product(torch.nn.Parameter(a[0], requires_grad=False)), expected)


def arguments(rng, name):
    a, b = scaled(rng, (M, K), "1x128")[0], scaled(rng, (N, K), "128x128")[0]
    experts, x, w = scaled(rng, (G, N, K), "128x128")[0], unscaled(rng, (M, K))[0], unscaled(rng, (G, N, K))[0]
    d, groups = sentinel(M, N), torch.zeros(M, dtype=INT)
    by_group, counts = sentinel(G, M, N), torch.full((G,), 5, dtype=INT)
    per_row = (b[0].flatten(), scaled(rng, (N, K), "1x128")[0][1])
    none = (None, None, None)
    return {
        "fp8_gemm": (*a, *b, d, None, *none),
        "fp8_gemm_skip_head_mid": (*a, *b, sentinel(M, N + 8), [36, 4, 32], None),
        "m_grouped_fp8_gemm_contiguous": (*a, *experts, d, groups, False, 0, *none),
        "m_grouped_fp8_gemm_masked": (*(t.repeat(G, 1, 1) for t in a), *experts, by_group, counts, 4, *none),
        "k_grouped_fp8_gemm": (*per_row, *per_row, sentinel(G, N, N, dtype=F32), None, [128, 128], None, True, [1, 1, 128]),
        "fp8_einsum": ("bhr,hdr->bhd", *(t.repeat(G, 1, 1).transpose(0, 1) for t in a), *experts,
                       sentinel(M, G, N), None, [1, 128, 128]),
        "bf16_gemm": (x, w[0], d, None),
        "cublaslt_gemm": (x, w[0], d, None),
        "m_grouped_bf16_gemm_contiguous": (x, w, d, groups, False, 0),
        "m_grouped_bf16_gemm_masked": (x.repeat(G, 1, 1), w, by_group, counts, 4),
        "k_grouped_bf16_gemm": (x, w[0][:M], sentinel(1, K, K, dtype=F32), None, [M], None),
        "einsum": ("bmk,bnk->mn", x[None], w[:1], d, None, False),
    }[name]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["fp8_gemm", "fp8_gemm_skip_head_mid", "m_grouped_fp8_gemm_contiguous", "m_grouped_fp8_gemm_masked",
     "k_grouped_fp8_gemm", "fp8_einsum", "bf16_gemm", "cublaslt_gemm", "m_grouped_bf16_gemm_contiguous",
     "m_grouped_bf16_gemm_masked", "k_grouped_bf16_gemm", "einsum"],
)  # fmt: skip
def test_schemas_tell_the_truth(rng, name):
    operator = getattr(OPERATORS, name).default
    assert str(operator._schema).endswith("-> ()") and "(d!) d" in str(operator._schema)
    given = arguments(rng, name)
    tensors = [x for x in given if isinstance(x, torch.Tensor)]
    if all(x.dtype != torch.float8_e4m3fn for x in tensors):
        torch.library.opcheck(operator, given)
        return
    # torch compares no FP8: that nothing but d is written is seen in the bytes
    torch.library.opcheck(operator, given, test_utils=("test_autograd_registration", "test_faketensor"))
    before = [x.clone() for x in tensors]
    operator(*given)
    written = [not bits_equal(x, y) for x, y in zip(tensors, before, strict=True)]
    assert written == [False] * 4 + [True] + [False] * (len(tensors) - 5)
