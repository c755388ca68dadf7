"""Packed weights through tilewright.deep_gemm on a Hopper GPU. Skipped elsewhere."""

import pytest
import tilewright as tw

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from deep_gemm_operands import BF16, bits_equal, moved
from tilewright import deep_gemm

if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

INT = torch.int32
N, G = 264, 4


@pytest.fixture
def the_gpus_bits():
    """Invariant calls return a GPU's bits on the CPU too."""
    with tw.options(invariant=True):
        yield


def weights_of(pair, packed, gran_k=32):
    """DeepGEMM's FP4 operand [groups, n, k] as the library has it."""
    values, factors = pair
    codes = torch.stack([deep_gemm.unpack_ue8m0_from_int(sf) for sf in factors]) if packed else factors
    exponents = (codes.contiguous().view(torch.int32) >> 23).to(torch.uint8).repeat_interleave(gran_k // 32, 2)
    scales = exponents[..., : -(-values.shape[-1] * 2 // 32)].contiguous()
    return tw.Quantized(values.view(torch.uint8), "mxfp4", scales)


def fp4(rng, groups, n, k, gran_k, packed):
    """DeepGEMM's casts of weights, and the same for the library, packed."""
    casts = [
        deep_gemm.per_token_cast_to_fp4(torch.from_numpy(rng.standard_normal((n, k))).float(), True, gran_k, packed)
        for _ in range(groups)
    ]
    values, factors = (torch.stack([cast[i] for cast in casts]) for i in (0, 1))
    return (values, factors), tw.pack_weights(weights_of((values, factors), packed, gran_k), "fp8")


@pytest.mark.parametrize("gran_k, packed", [(32, False), (32, True), (128, True)])
def test_weights_that_are_not_packed_have_the_bits_of_packed_ones(rng, the_gpus_bits, gran_k, packed):
    """DeepGEMM's FP4 operands, packed at each call: dense, in blocks of rows, masked, and in a graph."""
    k, recipes = 640, {"recipe_a": (1, 128), "recipe_b": (1, gran_k)}
    b, weights = fp4(rng, G, N, k, gran_k, packed)
    values, factors = deep_gemm.per_token_cast_to_fp8(torch.from_numpy(rng.standard_normal((G * 128, k))).float(), False)
    a, rows = (values, factors), torch.arange(G * 128, dtype=INT) // 128
    expected = torch.zeros(G * 128, N, dtype=BF16)
    deep_gemm.m_grouped_fp8_fp4_gemm_nt_contiguous(a, weights, expected, rows)
    d = torch.zeros(G * 128, N, dtype=BF16, device="cuda")
    a, b, rows = moved(a), moved(b), rows.cuda()
    deep_gemm.m_grouped_fp8_fp4_gemm_nt_contiguous(a, b, d, rows, **recipes)
    assert bits_equal(d.cpu(), expected)
    by_group, sizes = (a[0].view(G, 128, k), a[1].reshape(G, 128, -1)), torch.tensor([3, 128, 0, 17], dtype=INT).cuda()
    masked = torch.zeros(G, 128, N, dtype=BF16, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        deep_gemm.m_grouped_fp8_fp4_gemm_nt_masked(by_group, b, masked, sizes, 21, **recipes)
    for _ in range(2):
        masked.zero_()
        graph.replay()
        for group, size in enumerate(sizes.tolist()):
            assert bits_equal(masked[group, :size].cpu(), expected.view(G, 128, N)[group, :size])
    one, out = tuple(x[1] for x in b), torch.zeros(128, N, dtype=BF16, device="cuda")
    deep_gemm.fp8_fp4_gemm_nt((by_group[0][1], by_group[1][1]), one, out, **recipes)
    assert bits_equal(out.cpu(), expected.view(G, 128, N)[1])


@pytest.mark.parametrize("cast, gran_k, packed", [("fp8", 32, False), ("fp8", 32, True), ("fp4", 32, True),
                                                  ("fp4", 32, False), ("fp4", 128, True)])  # fmt: skip
def test_factors_for_32_and_fp4_activations_have_the_cpus_bits(rng, the_gpus_bits, cast, gran_k, packed):
    """FP8 with factors per 32 elements, and FP4, with FP4 weights: dense, in blocks of rows, masked."""
    k = 640 if (cast, packed) == ("fp8", True) else 608  # DeepGEMM's cast packs whole fours of factors
    recipes = {"recipe_a": (1, gran_k), "recipe_b": (1, 32)}
    b, weights = fp4(rng, G, N, k, 32, packed)
    x = torch.from_numpy(rng.standard_normal((G * 128, k))).float()
    a = getattr(deep_gemm, f"per_token_cast_to_{cast}")(x, True, gran_k, packed)
    rows, expected = torch.arange(G * 128, dtype=INT) // 128, torch.zeros(G * 128, N, dtype=BF16)
    deep_gemm.m_grouped_fp8_fp4_gemm_nt_contiguous(a, weights, expected, rows, recipe_a=recipes["recipe_a"])
    a, there = moved(a), moved(b)
    for weights_there in (there, None):
        given = there if weights_there else tw.pack_weights(weights_of(there, packed), "fp8")
        d = torch.zeros(G * 128, N, dtype=BF16, device="cuda")
        deep_gemm.m_grouped_fp8_fp4_gemm_nt_contiguous(a, given, d, rows.cuda(), **recipes)
        assert bits_equal(d.cpu(), expected)
    by_group, sizes = (a[0].view(G, 128, -1), a[1].reshape(G, 128, -1)), torch.tensor([3, 128, 0, 17], dtype=INT)
    masked = torch.zeros(G, 128, N, dtype=BF16, device="cuda")
    deep_gemm.m_grouped_fp8_fp4_gemm_nt_masked(by_group, there, masked, sizes.cuda(), 21, **recipes)
    for group, size in enumerate(sizes.tolist()):
        assert bits_equal(masked[group, :size].cpu(), expected.view(G, 128, N)[group, :size])
    one, out = tuple(side[1] for side in there), torch.zeros(128, N, dtype=BF16, device="cuda")
    deep_gemm.fp8_fp4_gemm_nt((by_group[0][1], by_group[1][1]), one, out, **recipes)
    assert bits_equal(out.cpu(), expected.view(G, 128, N)[1])


@pytest.mark.parametrize("cast", ["fp8", "fp4"])
def test_factors_that_transform_sf_into_required_layout_packed(rng, cast):
    """Float32 powers of two for 32, four to an int32: the same product."""
    k, recipes = 640, {"recipe_a": (1, 32), "recipe_b": (1, 32)}
    a = getattr(deep_gemm, f"per_token_cast_to_{cast}")(torch.from_numpy(rng.standard_normal((70, k))).float(), True, 32)
    b = deep_gemm.per_token_cast_to_fp4(torch.from_numpy(rng.standard_normal((N, k))).float(), True, 32)
    a, b = moved(a), moved(b)
    expected, d = (torch.zeros(70, N, dtype=BF16, device="cuda") for _ in range(2))
    deep_gemm.fp8_fp4_gemm_nt(a, b, expected, **recipes)
    transform = deep_gemm.transform_sf_into_required_layout
    sides = (a[0], transform(a[1], 70, k, (1, 32))), (b[0], transform(b[1], N, k, (1, 32)))
    assert all(sf.dtype == INT and sf.stride(0) == 1 for _, sf in sides)
    deep_gemm.fp8_fp4_gemm_nt(*sides, d, **recipes)
    assert bits_equal(d, expected)


@pytest.mark.parametrize("cast, gran_k", [("fp8", 128), ("fp8", 32), ("fp4", 32)])
def test_a_factor_that_is_no_power_of_two_makes_nan(rng, cast, gran_k):
    """No host waits to see it; its mantissa is not dropped either."""
    k, recipes = 640, {"recipe_a": (1, gran_k), "recipe_b": (1, 32)}
    x = torch.from_numpy(rng.standard_normal((70, k))).float()
    a = getattr(deep_gemm, f"per_token_cast_to_{cast}")(x, True, gran_k)
    b = deep_gemm.per_token_cast_to_fp4(torch.from_numpy(rng.standard_normal((N, k))).float(), True, 32)
    a, b = moved(a), moved(b)
    right, d = (torch.zeros(70, N, dtype=BF16, device="cuda") for _ in range(2))
    deep_gemm.fp8_fp4_gemm_nt(a, b, right, **recipes)
    b[1][3, 5] *= 1.5
    if gran_k == 32:
        a[1][7, 0] *= 1.25
    deep_gemm.fp8_fp4_gemm_nt(a, b, d, **recipes)
    wrong = torch.zeros(70, N, dtype=torch.bool, device="cuda")
    wrong[:, 3] = True
    wrong[7] |= gran_k == 32
    assert right.isfinite().all() and torch.equal(d.isnan(), wrong) and torch.equal(d[~wrong], right[~wrong])


def on_the_gpu(q):
    tensor_scale = None if q.tensor_scale is None else q.tensor_scale.cuda()
    return tw.Quantized(q.values.cuda(), q.recipe, q.scales.cuda(), tensor_scale)


def first_of(q):
    return tw.Quantized(q.values[0], q.recipe, q.scales[0], None if q.tensor_scale is None else q.tensor_scale[:1])


@pytest.mark.parametrize("recipe", ["mxfp4", "nvfp4"])
def test_packed_weights_have_the_cpus_bits(rng, the_gpus_bits, recipe):
    """Packed where they are multiplied: dense, and in groups that are masked."""
    weights = tw.quantize(torch.from_numpy(rng.standard_normal((G, N, 640))).float(), recipe)
    there = on_the_gpu(weights)
    x = torch.from_numpy(rng.standard_normal((G * 64, 640))).float()
    values, factors = deep_gemm.per_token_cast_to_fp8(x, False)
    a = (values.view(G, 64, 640), factors.reshape(G, 64, -1))
    sizes = torch.tensor([3, 64, 0, 17], dtype=INT)
    d = torch.zeros(G, 64, N, dtype=BF16)
    deep_gemm.m_grouped_fp8_fp4_gemm_nt_masked(a, tw.pack_weights(weights, "fp8"), d, sizes, 21)
    on_gpu = torch.zeros(G, 64, N, dtype=BF16, device="cuda")
    deep_gemm.m_grouped_fp8_fp4_gemm_nt_masked(moved(a), tw.pack_weights(there, "fp8"), on_gpu, sizes.cuda(), 21)
    for group, size in enumerate(sizes.tolist()):
        assert bits_equal(on_gpu[group, :size].cpu(), d[group, :size])
    one = [first_of(q) for q in (weights, there)]
    d, on_gpu = torch.empty(64, N, dtype=BF16), torch.empty(64, N, dtype=BF16, device="cuda")
    deep_gemm.fp8_fp4_gemm_nt((values[:64], factors[:64]), tw.pack_weights(one[0], "fp8"), d)
    deep_gemm.fp8_fp4_gemm_nt(moved((values[:64], factors[:64])), tw.pack_weights(one[1], "fp8"), on_gpu)
    assert bits_equal(on_gpu.cpu(), d)


@pytest.mark.parametrize("recipe", ["mxfp4", "nvfp4"])
def test_packed_weights_are_unpacked_where_they_are(rng, recipe):
    weights = tw.quantize(torch.from_numpy(rng.standard_normal((G, N, 640))).float(), recipe)
    packed = tw.pack_weights(weights, "bf16")
    there = tw.PackedWeights(packed.data.cuda(), packed.header)
    back, real = there.unpack(), there.dequantize("bf16")
    for name in ("values", "scales", "tensor_scale"):
        mine, given = getattr(back, name), getattr(weights, name)
        assert mine is given is None or (mine.is_cuda and bits_equal(mine.cpu(), given))
    assert real.is_cuda and bits_equal(real.cpu(), weights.dequantize("bf16"))
