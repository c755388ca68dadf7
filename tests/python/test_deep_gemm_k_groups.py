"""k-grouped products of tilewright.deep_gemm on a GPU, as far as they can be tested without one."""

import pytest

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from deep_gemm_operands import BF16, F32, rounded, sentinel, unscaled
from tilewright.deep_gemm import _bf16, _fp8
from torch._subclasses.fake_tensor import FakeTensorMode


needs_grouped = pytest.mark.skipif(_bf16._torchs_grouped_product() is None, reason="this torch has no grouped product")


@pytest.fixture
def empty_groups_are_nan(monkeypatch):
    """torch's grouped product as far as it is documented."""
    real = _bf16._torchs_grouped_product()

    def product(a, b, offs):
        assert offs.dtype == torch.int32
        ends = offs.tolist()
        empty = [end == start for start, end in zip([0, *ends], ends, strict=False)]
        return real(a, b, offs=offs).masked_fill_(torch.tensor(empty)[:, None, None], float("nan"))

    monkeypatch.setattr(_bf16, "_torchs_grouped_product", lambda: product)


def tall(rng, ks, rows):
    """bf16 [sum k, rows] and the groups of the same matrix."""
    values, real = unscaled(rng, (sum(ks), rows))
    return values, real.split(ks)


@needs_grouped
@pytest.mark.parametrize("sizes", [[16, 8, 40], [127, 0, 1], [0, 0, 0], [1, 1290, 7]], ids=str)
@pytest.mark.parametrize("with_c", [False, True])
def test_groups_of_k_of_bf16_with_sizes_on_the_device(rng, empty_groups_are_nan, sizes, with_c):
    """torch's grouped product is rounded to bf16; c is added in float32. k after the last group belongs to no group."""
    (a, reals_a), (b, reals_b) = tall(rng, [*sizes, 5], 24), tall(rng, [*sizes, 5], 40)
    products = torch.stack([x.T @ y for x, y in zip(reals_a[:-1], reals_b[:-1], strict=True)])
    c = torch.from_numpy(rng.integers(-1000, 1000, (3, 24, 40))).float() / 1024 if with_c else None
    d = c.clone() if with_c else sentinel(3, 24, 40, dtype=F32)
    _bf16._by_k_on_the_device(a, b, d, d if with_c else None, torch.tensor(sizes, dtype=torch.int32))
    rounded_products = rounded(products, F32).to(BF16).double()
    assert torch.equal(d, rounded(rounded_products + (c.double() if with_c else 0), F32))


@needs_grouped
def test_sizes_of_groups_of_k_stay_in_the_buffers(rng, empty_groups_are_nan):
    (a, reals_a), (b, reals_b) = tall(rng, [8, 24], 24), tall(rng, [8, 24], 40)
    d = sentinel(4, 24, 40, dtype=F32)
    _bf16._by_k_on_the_device(a, b, d, None, torch.tensor([8, -3, 1000, 5], dtype=torch.int32))
    assert torch.equal(d[2], rounded(reals_a[1].T @ reals_b[1], F32).to(BF16).float())
    assert not d[1].any() and not d[3].any()


def test_groups_without_any_k():
    a, b, sizes = sentinel(0, 24), sentinel(0, 40), torch.zeros(2, dtype=torch.int32)
    for c in (None, torch.ones(2, 24, 40)):
        d = sentinel(2, 24, 40, dtype=F32)
        _bf16._by_k_on_the_device(a, b, d, c, sizes)
        assert (d == (0 if c is None else 1)).all()


def test_groups_of_k_that_torch_cannot_read_are_named():
    with pytest.raises(ValueError, match=r"^b: got \[16, 12\] .*; expected rows that begin at .*\. Pad m and n to multiples of 8, or"):
        _bf16._grouped_along_k(sentinel(16, 16), sentinel(16, 12), torch.tensor([7, 16]))


@pytest.fixture
def taken(monkeypatch):
    """The path of a k-grouped product on a GPU, for tensors without memory."""
    ways = []
    for module, names in ((_bf16, ("_by_k_on_the_device", "_by_k_on_the_host")),
                          (_fp8, ("_launch_all_groups", "_launch_each_group"))):  # fmt: skip
        for name in names:
            monkeypatch.setattr(module, name, lambda *given, name=name: ways.append((name, given)))
    with FakeTensorMode():
        yield ways


@pytest.mark.parametrize("ks, there, way", [([64, 33], True, "host"), ([64, 33], False, "host"), (None, True, "device")])
def test_sizes_of_groups_of_bf16_are_read_where_they_are(taken, monkeypatch, ks, there, way):
    a, b, d = (torch.empty(shape, dtype=dtype, device="cuda")
               for shape, dtype in (((97, 16), BF16), ((97, 24), BF16), ((2, 16, 24), F32)))  # fmt: skip
    layout = torch.empty(2, dtype=torch.int32, device="cuda") if there else None
    _bf16.k_grouped(a, b, d, None, ks, layout)
    assert [name for name, _ in taken] == [f"_by_k_on_the_{way}"]
    monkeypatch.setattr(_bf16, "_torchs_grouped_product", lambda: None)
    if ks is None:
        with pytest.raises(ValueError, match="^ks_cpu: got None; expected .* Pass ks_cpu. bf16 products of a newer torch"):
            _bf16.k_grouped(a, b, d, None, ks, layout)


@pytest.mark.parametrize("flat, ks, there, way", [
    (True, [64, 32], False, "each"), (True, [64, 33], False, "all"), (True, [64, 33], True, "all"),
    (True, None, True, "all"), (False, [64, 33], False, "each"), (False, [64, 33], True, "all"),
])  # fmt: skip
def test_groups_of_k_whose_rows_are_not_aligned_are_one_product(taken, flat, ks, there, way):
    k = sum(ks or [64, 33])
    sides = [
        torch.empty(shape, device="cuda").to(dtype)
        for rows in (16, 24)
        for shape, dtype in (((rows * k,) if flat else (k, rows), torch.float8_e4m3fn), ((rows, 2) if flat else (2, rows), F32))
    ]
    layout = torch.empty(2, dtype=torch.int32, device="cuda") if there else None
    _fp8.k_grouped(*sides, torch.empty(2, 16, 24, device="cuda"), None, ks, layout, flat, (1, 1, 128))
    assert [name for name, _ in taken] == [f"_launch_{way}_group{'s' * (way == 'all')}"]


def test_sizes_of_the_host_on_a_device():
    sizes = _fp8._sizes_on(torch.device("cpu"), [127, 0, 2**31 - 1])
    assert sizes.dtype == torch.int32 and sizes.tolist() == [127, 0, 2**31 - 1]
