"""Groups of tilewright.deep_gemm on a Hopper GPU: one launch per call, and the error for indices that mix groups.

Skipped elsewhere.
"""

import pytest

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from deep_gemm_operands import BF16, launches, moved, rounded, scaled, sentinel
from tilewright import deep_gemm

if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

INT = torch.int32
M, N, K, G = 200, 264, 656, 4
ROWS_FIRST, ALONG_K = deep_gemm.get_mn_major_tma_aligned_tensor, torch.Tensor.contiguous


@pytest.mark.parametrize("order", [ROWS_FIRST, ALONG_K])
def test_grouped_factors_in_either_order(rng, order):
    groups, counts = [2] * 100 + [-1] * 28 + [0] * 72, torch.tensor([50, 0, 7, 31], dtype=INT).cuda()
    (a, real_a), (b, real_b) = scaled(rng, (M, K), "1x128"), scaled(rng, (G, N, K), "128x128")
    d, indices = sentinel(M, N).cuda(), torch.tensor(groups, dtype=INT).cuda()
    on_gpu = (a[0].cuda(), order(a[1].cuda())), moved(b)
    assert launches(lambda: deep_gemm.m_grouped_fp8_gemm_nt_contiguous(*on_gpu, d, indices)) == 1
    groups = [group if group >= 0 else groups[row // 128 * 128] for row, group in enumerate(groups)]
    assert torch.equal(
        d.cpu(), rounded(torch.stack([x @ real_b[g].T for x, g in zip(real_a, groups, strict=True)]), BF16)
    )
    masked = sentinel(G, M // G, N).cuda()
    by_group = a[0].view(G, M // G, K).cuda(), order(a[1].view(G, M // G, -1).cuda())
    function = lambda: deep_gemm.m_grouped_fp8_gemm_nt_masked(by_group, moved_b, masked, counts, 22)
    moved_b = moved(b)
    assert launches(function) == 1
    for group, count in enumerate(counts.tolist()):
        expected = rounded(real_a.view(G, M // G, K)[group, :count] @ real_b[group].T, BF16)
        assert torch.equal(masked[group, :count].cpu(), expected)


@pytest.mark.parametrize("order", [ROWS_FIRST, ALONG_K])
def test_rows_of_two_groups_in_a_block_are_reported_by_the_next_call(rng, order):
    a, b = scaled(rng, (256, K), "1x128")[0], scaled(rng, (G, N, K), "128x128")[0]
    a, b, d = (a[0].cuda(), order(a[1].cuda())), moved(b), sentinel(256, N).cuda()
    indices = torch.tensor([0] * 128 + [2] * 100 + [1] * 28, dtype=INT).cuda()
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, b, d, indices)
    torch.cuda.synchronize()
    mixed = d.clone()
    with pytest.raises(RuntimeError, match=r"^cuda:0: an earlier call: groups.sizes: got group 1 at row \d+ of a block whose "):
        deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, b, d, indices)
    indices[228:] = -1
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, b, d, indices)  # an error is told once
    torch.cuda.synchronize()
    assert torch.equal(d, mixed), "not the product with the group of the block's first row"
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, b, d, indices)
