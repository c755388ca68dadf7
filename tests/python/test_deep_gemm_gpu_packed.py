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
    tw.set_invariant()
    yield
    tw.set_invariant(False)


def test_packed_weights_have_the_cpus_bits(rng, the_gpus_bits):
    """Packed where they are multiplied: dense, and in groups that are masked."""
    weights = tw.quantize(torch.from_numpy(rng.standard_normal((G, N, 640))).float(), "mxfp4")
    there = tw.Quantized(weights.values.cuda(), "mxfp4", weights.scales.cuda())
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
    one = [tw.Quantized(q.values[0], "mxfp4", q.scales[0]) for q in (weights, there)]
    d, on_gpu = torch.empty(64, N, dtype=BF16), torch.empty(64, N, dtype=BF16, device="cuda")
    deep_gemm.fp8_fp4_gemm_nt((values[:64], factors[:64]), tw.pack_weights(one[0], "fp8"), d)
    deep_gemm.fp8_fp4_gemm_nt(moved((values[:64], factors[:64])), tw.pack_weights(one[1], "fp8"), on_gpu)
    assert bits_equal(on_gpu.cpu(), d)
