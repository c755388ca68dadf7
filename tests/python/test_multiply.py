"""Every operation and recipe against float64 numpy, on operands whose products are exact: equality, no tolerance."""

import numpy as np
import pytest
import tilewright as tw
from operands import DTYPES, exact, exact_pair, product, rounded
from tilewright import _core

LAYOUTS = ["nt", "nn", "tn", "tt"]
SAMPLE = [
    "tensor:tensor",
    "row:row",
    "e5m2.row:row",
    "1x128:128x128",
    "1x128.ue8m0:1x128",
    "128x128:128x128",
    "1x128:row",
    "row:e4m3",
    "128x128:e5m2",
    "1x128.ue8m0:tensor",
    "mxfp8:mxfp8",
    "mxfp8:mxfp4",
    "bf16:nvfp4",
    "nvfp4:nvfp4",
    "bf16:bf16",
    "f16:f16",
    "f32:f32",
]


@pytest.mark.parametrize("recipe", tw.recipes())
def test_gemm_with_every_recipe(rng, recipe):
    a, b = exact_pair(rng, (6, 160), (10, 160), recipe)
    d = tw.gemm(a.given, b.given, out_dtype="f32")
    np.testing.assert_array_equal(d, product(a, b))


@pytest.mark.parametrize("arithmetic", ["fast", "bit_exact"])
@pytest.mark.parametrize("out_dtype", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("recipe", SAMPLE)
def test_gemm_layouts_and_outputs(rng, recipe, layout, out_dtype, arithmetic):
    a, b = exact_pair(rng, (4, 64), (18, 64), recipe, layout, exponents=2)
    if recipe in ("f16:f16", "f32:f32") and arithmetic == "bit_exact":
        with pytest.raises(ValueError, match=f"arithmetic: got bit_exact; expected fast for {recipe[:3]} operands."):
            tw.gemm(a.given, b.given, layout=layout, arithmetic=arithmetic)
        return
    d = tw.gemm(a.given, b.given, layout=layout, out_dtype=out_dtype, arithmetic=arithmetic)
    assert d.dtype == DTYPES[out_dtype]
    np.testing.assert_array_equal(d, rounded(product(a, b), DTYPES[out_dtype]))


@pytest.mark.parametrize("recipe", SAMPLE)
def test_c_and_alpha(rng, recipe):
    a, b = exact_pair(rng, (5, 32), (7, 32), recipe)
    c = rng.integers(-8, 9, (5, 7)).astype(np.float32)
    kept = c.copy()
    expected = c + 0.5 * product(a, b)
    np.testing.assert_array_equal(tw.gemm(a.given, b.given, c=c, alpha=0.5, out_dtype="f32"), expected)
    np.testing.assert_array_equal(c, kept)
    assert tw.gemm(a.given, b.given, c=c, alpha=0.5, out=c) is c
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("recipe", SAMPLE)
def test_batched(rng, recipe, layout):
    a, b = exact_pair(rng, (3, 4, 32), (3, 6, 32), recipe, layout)
    d = tw.batched_gemm(a.given, b.given, layout=layout, out_dtype="f32")
    np.testing.assert_array_equal(d, product(a, b))


def grouped_rows(a, b, row_groups):
    """D of the contiguous groupings: the group of each row, -1 = none."""
    d = np.zeros((a.real.shape[0], b.real.shape[1]))
    for row, group in enumerate(row_groups):
        if group >= 0:
            d[row] = b.real[group] @ a.real[row]
    return d


# The same rows in all three descriptions of contiguous groups; group 1 has none.
ROW_GROUPS = {
    "indices": ([2, -1, 0, 0, 2, 3, -1, 1, 3, 3], [2, -1, 0, 0, 2, 3, -1, 1, 3, 3]),
    "offsets": ([3, 3, 7, 8], [0, 0, 0, 2, 2, 2, 2, 3, -1, -1]),
    "aligned_offsets": ([3, 4, 6, 10], [0, 0, 0, -1, 2, 2, -1, -1, 3, 3]),
}


@pytest.mark.parametrize("integers", [list, np.int32, np.int64])
@pytest.mark.parametrize("word", ROW_GROUPS)
@pytest.mark.parametrize("recipe", SAMPLE)
def test_grouped_contiguous(rng, recipe, word, integers):
    sizes, row_groups = ROW_GROUPS[word]
    sizes = sizes if integers is list else np.array(sizes, integers)
    a, b = exact_pair(rng, (10, 32), (4, 6, 32), recipe)
    options = {word: sizes} | ({"alignment": 4} if word == "aligned_offsets" else {})
    d = tw.grouped_gemm(a.given, b.given, **options, out_dtype="f32")
    np.testing.assert_array_equal(d, grouped_rows(a, b, row_groups))
    untouched = np.full_like(d, 7)
    tw.grouped_gemm(a.given, b.given, **options, out=untouched)
    expected = np.where(np.array(row_groups)[:, None] < 0, 7, d)
    np.testing.assert_array_equal(untouched, expected)


@pytest.mark.parametrize("recipe", SAMPLE)
def test_grouped_masked(rng, recipe):
    counts = np.array([2, 0, 5], np.int32)
    a, b = exact_pair(rng, (3, 5, 64), (3, 6, 64), recipe)
    d = tw.grouped_gemm(a.given, b.given, counts=counts, expected_m=2, out_dtype="f32")
    rows = np.arange(5)[None, :, None] < counts[:, None, None]
    np.testing.assert_array_equal(d, np.where(rows, product(a, b), 0))


@pytest.mark.parametrize("layout", ["nt", "tn"])
@pytest.mark.parametrize("recipe", SAMPLE)
def test_k_grouped(rng, recipe, layout):
    """Groups of whole blocks, so that the scales of the stretches are those of the whole."""
    a, b = exact_pair(rng, (4, 384), (6, 384), recipe, layout)
    ends = [128, 128, 384]
    d = tw.k_grouped_gemm(a.given, b.given, offsets=ends, layout=layout, out_dtype="f32")
    for group, (begin, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        np.testing.assert_array_equal(d[group], a.real[:, begin:end] @ b.real[:, begin:end].T)


@pytest.mark.parametrize("recipe", ["1x128:1x128", "1x128:128x128", "row:row", "bf16:bf16"])
def test_k_grouped_by_aligned_ends(rng, recipe):
    """What is between two groups does not count, whatever it is."""
    a, b = exact_pair(rng, (4, 384), (6, 384), recipe)
    d = tw.k_grouped_gemm(a.given, b.given, aligned_offsets=[100, 128, 257], out_dtype="f32")
    for group, (begin, end) in enumerate([(0, 100), (128, 128), (128, 257)]):
        np.testing.assert_array_equal(d[group], a.real[:, begin:end] @ b.real[:, begin:end].T)


def test_k_grouped_flat(rng):
    """In memory [rows, k of a group] after one another; c is added, and a group without k is c."""
    counts = [127, 0, 1, 129]
    parts = [[rng.integers(-3, 4, (rows, k)).astype(np.float32) for k in counts] for rows in (4, 6)]
    flat = [np.concatenate([part.ravel() for part in side]).reshape(len(side[0]), -1) for side in parts]
    c = rng.integers(-9, 9, (4, 4, 6)).astype(np.float32)
    d = tw.k_grouped_gemm(*flat, counts=counts, c=c, out_dtype="f32")
    np.testing.assert_array_equal(d, c + np.stack([a @ b.T for a, b in zip(*parts, strict=True)]))


@pytest.mark.parametrize("m,n,k", [(0, 4, 32), (4, 0, 32), (4, 4, 0)])
def test_nothing_to_do(m, n, k):
    d = tw.gemm(np.zeros((m, k), np.float32), np.zeros((n, k), np.float32), out_dtype="f32")
    np.testing.assert_array_equal(d, np.zeros((m, n)))


@pytest.mark.parametrize("recipe", ["row:row", "1x128:128x128", "mxfp8:mxfp4", "bf16:nvfp4"])
def test_options_that_change_bits_are_passed_on(rng, recipe):
    """On random data bit_exact arithmetic differs from float32 in some bit, and `invariant` is bit_exact where k is not
    split, as 128 of it cannot be; 1x128, and bf16 with FP4, split the 512 of the others."""
    a_name, b_name = recipe.split(":")
    k = 128 if a_name in ("1x128", "bf16") else 512
    x, w = (np.abs(rng.standard_normal((rows, k))).astype(np.float32) for rows in (16, 24))
    a = tw.encode(x, "bf16") if a_name == "bf16" else tw.quantize(x, a_name)
    b = tw.quantize(w, b_name)
    fast = tw.gemm(a, b, out_dtype="f32")
    bit_exact = tw.gemm(a, b, out_dtype="f32", arithmetic="bit_exact")
    invariant = tw.gemm(a, b, out_dtype="f32", invariant=True, threads=1)
    assert (fast != bit_exact).any()
    np.testing.assert_array_equal(bit_exact, invariant)
    np.testing.assert_allclose(bit_exact, fast, rtol=2e-3)
    if recipe == "row:row":
        unpromoted = tw.gemm(a, b, out_dtype="f32", arithmetic="bit_exact", accumulation="unpromoted")
        assert (unpromoted != bit_exact).any()


def test_one_operand_serves_many_calls(rng):
    a, b = exact_pair(rng, (3, 64), (5, 64), "mxfp8:mxfp4")
    first = tw.gemm(a.given, b.given)
    assert all((tw.gemm(a.given, b.given) == first).all() for _ in range(10))
    other = exact(rng, (2, 64), "mxfp8")
    np.testing.assert_array_equal(tw.gemm(other.given, b.given, out_dtype="f32"), product(other, b))


@pytest.mark.parametrize("own,process,expected", [
    (None, False, False), (None, True, True), (True, False, True), (False, True, False),
])  # fmt: skip
def test_overlap_is_the_calls_choice_or_else_the_process(rng, monkeypatch, own, process, expected):
    """It reaches the extension, which takes it, and changes nothing on the CPU."""
    seen, real = [], _core.multiply

    def recording(a, b, *, groups, options):
        seen.append(options["overlap"])
        return real(a, b, groups=groups, options=options)

    monkeypatch.setattr(_core, "multiply", recording)
    x, w = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((4, 32), (2, 6, 32)))
    tw.defaults.overlap = process
    try:
        assert tw.options.current().overlap is process
        d = tw.gemm(x, w[0], overlap=own, out_dtype="f32")
        tw.batched_gemm(x[None], w[:1], overlap=own)
        tw.grouped_gemm(x, w, offsets=[2, 4], overlap=own)
        tw.k_grouped_gemm(x, w[0], offsets=[16, 32], overlap=own)
    finally:
        tw.defaults.overlap = False
    np.testing.assert_array_equal(d, x @ w[0].T)
    assert seen == [expected] * 4


def test_the_device_whose_bits_are_wanted(rng):
    """Some GPUs split k where the H200 does not; the bits differ then, and only then."""
    different = 0
    for m, n, k in ((8, 256, 1024), (8, 1536, 2048), (128, 1024, 2048)):
        a = tw.quantize(rng.standard_normal((m, k)).astype(np.float32), "1x128")
        b = tw.quantize(rng.standard_normal((n, k)).astype(np.float32), "128x128")
        splits, results = [], []
        for name in ("h200", "h100-pcie"):
            splits.append(tw.explain(a, b, out_dtype="f32", planned_device=name).chosen.tile.partition("split=")[2])
            results.append(tw.gemm(a, b, out_dtype="f32", arithmetic="bit_exact", planned_device=name))
        assert np.array_equal(*results) == (splits[0] == splits[1]), (m, n, k, splits)
        np.testing.assert_allclose(*results, rtol=1e-3, atol=1e-3)
        different += splits[0] != splits[1]
    assert different > 0
    np.testing.assert_array_equal(tw.gemm(a, b, planned_device="h20"), tw.gemm(a, b))  # fast arithmetic follows no GPU
    with pytest.raises(tw.InvalidCall, match="^planned_device: got 'h1'; expected one of h200, h100.*."):
        tw.gemm(a, b, planned_device="h1")


@pytest.mark.parametrize("given", ["cuda", "cuda:0", "cpu", 0])
@pytest.mark.parametrize("sets", [False, True])
def test_a_device_to_run_on_is_told_what_device_means(given, sets):
    x = np.ones((2, 4), np.float32)
    call = (lambda **device: tw.options(**device)) if sets else lambda **device: tw.gemm(x, x, **device)
    with pytest.raises(tw.InvalidCall) as raised:
        call(planned_device=given)
    message = str(raised.value)
    assert message.startswith(f"planned_device: got {given!r}; expected one of h200, h100, ")
    assert message.endswith(
        " or automatic (the GPU whose plans determine the bits, also on a machine without a GPU), or a device file, e.g. "
        '"./my_h100.tsv". Omit it to run on a GPU: '
        'pass arrays in GPU memory. backend="hopper" rejects all others.'
    )
