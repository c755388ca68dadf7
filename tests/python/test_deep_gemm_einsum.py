"""einsum and fp8_einsum of tilewright.deep_gemm."""

import pytest

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from deep_gemm_operands import BF16, F32, integers, rounded, scaled, sentinel, unscaled
from tilewright import deep_gemm


@pytest.mark.parametrize("batches", [1, 7, 96, 130])
def test_sum_of_products(rng, batches):
    (a, real_a), (b, real_b) = unscaled(rng, (batches, 24, 40)), unscaled(rng, (batches, 16, 40))
    total = torch.einsum("bmk,bnk->mn", real_a, real_b)
    d = integers(rng, 24, 16, dtype=F32)
    expected = rounded(d.double() + total, F32)
    deep_gemm.einsum("bmk,bnk->mn", a, b, d, c=d)
    assert torch.equal(d, expected)
    d = sentinel(24, 16)
    deep_gemm.einsum("bmk,bnk->mn", a, b, d)
    assert torch.equal(d, rounded(total, BF16))


def test_sum_of_no_products():
    d = sentinel(3, 4)
    deep_gemm.einsum("bmk,bnk->mn", torch.empty(0, 3, 8, dtype=BF16), torch.empty(0, 4, 8, dtype=BF16), d)
    assert (d == 0).all()


@pytest.mark.parametrize("expr", ["bhr,hdr->bhd", "bhd,hdr->bhr"])
@pytest.mark.parametrize("use_cublaslt", [False, True])
def test_batched(rng, expr, use_cublaslt):
    b, h, d, r = 5, 3, 24, 40
    sizes = {"b": b, "h": h, "d": d, "r": r}
    left, _, out = expr.replace("->", ",").split(",")
    (x, real_x), (y, real_y) = unscaled(rng, [sizes[i] for i in left]), unscaled(rng, (h, d, r + 8))
    z = sentinel(*(sizes[i] for i in out))
    deep_gemm.einsum(expr, x, y[:, :, :r], z, use_cublaslt=use_cublaslt)
    assert torch.equal(z, rounded(torch.einsum(expr, real_x, real_y[:, :, :r]), BF16))


def test_fp8_heads(rng):
    b, h, d, r = 6, 3, 136, 272
    (x, real_x), (y, real_y) = scaled(rng, (b * h, r), "1x128"), scaled(rng, (h, d, r), "128x128")
    x, real_x = (x[0].view(b, h, r), x[1].view(b, h, -1)), real_x.view(b, h, r)
    z, c = sentinel(b, h, d), integers(rng, b, h, d)
    deep_gemm.fp8_einsum("bhr,hdr->bhd", x, y, z)
    product = torch.einsum("bhr,hdr->bhd", real_x, real_y)
    assert torch.equal(z, rounded(product, BF16))
    deep_gemm.fp8_einsum("bhr,hdr->bhd", x, y, z, c)
    assert torch.equal(z, rounded(c.double() + product, BF16))


def test_fp8_expressions_of_other_gpus(rng):
    """On the CPU k need not be the dimension of stride 1."""
    b, h, d, r = 128, 2, 136, 144
    (x, real_x), (y, real_y) = scaled(rng, (b * h, d), "1x128"), scaled(rng, (h, d, r), "128x128")
    x, real_x = (x[0].view(b, h, d), x[1].view(b, h, -1)), real_x.view(b, h, d)
    z = sentinel(b, h, r)
    deep_gemm.fp8_einsum("bhd,hdr->bhr", x, y, z)
    assert torch.equal(z, rounded(torch.einsum("bhd,hdr->bhr", real_x, real_y), BF16))

    (x, real_x), (y, real_y) = (scaled(rng, (rows, b), "1x128") for rows in (h * d, h * r))
    x, y = ((v[0].T.contiguous().view(b, h, -1), v[1].T.contiguous().view(1, h, -1)) for v in (x, y))
    z = integers(rng, h, d, r, dtype=F32)
    product = torch.einsum("hdb,hrb->hdr", real_x.view(h, d, b), real_y.view(h, r, b))
    expected = rounded(z.double() + product, F32)
    deep_gemm.fp8_einsum("bhd,bhr->hdr", x, y, z, z, recipe=(1, 1, 128))
    assert torch.equal(z, expected)


def test_wrong_calls(rng):
    a, d = torch.ones(2, 3, 8, dtype=BF16), torch.empty(3, 3, dtype=BF16)
    with pytest.raises(ValueError, match=r"expr: got 'bmk, bnk->mn'; expected .*without spaces"):
        deep_gemm.einsum("bmk, bnk->mn", a, a, d)
    with pytest.raises(ValueError, match=r"b: got \[2, 3, 4\]; expected \[b, n, k\] as in bmk,bnk->mn"):
        deep_gemm.einsum("bmk,bnk->mn", a, a[:, :, :4], d)
    with pytest.raises(ValueError, match="use_cublaslt: got True; expected False"):
        deep_gemm.einsum("bmk,bnk->mn", a, a, d, use_cublaslt=True)
    with pytest.raises(ValueError, match=r"a: got torch\.float32; expected torch\.bfloat16"):
        deep_gemm.einsum("bmk,bnk->mn", a.float(), a, d)
    x, z = torch.ones(2, 3, 8, dtype=BF16), torch.empty(2, 3, 4, dtype=BF16)
    y = torch.ones(3, 4, 8, dtype=BF16)
    with pytest.raises(ValueError, match=r"c: got \[2, 3, 4\]; expected None for bhr,hdr->bhd\."):
        deep_gemm.einsum("bhr,hdr->bhd", x, y, z, c=z)
    with pytest.raises(ValueError, match=r"d: got torch\.float32; expected torch\.bfloat16 for bhr,hdr->bhd\."):
        deep_gemm.einsum("bhr,hdr->bhd", x, y, z.float())
    with pytest.raises(ValueError, match="expr: got 'bhr,hdr->dbh'"):
        deep_gemm.fp8_einsum("bhr,hdr->dbh", (x, x), (y, y), z)
