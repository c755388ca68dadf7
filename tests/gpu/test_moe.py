"""A layer of experts on a Hopper GPU: the CPU's bits in every form, and graphs that are replayed with other routing."""

import itertools

import pytest
import tilewright as tw

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

# Activations, weights.
RECIPES = [
    ("1x128", "128x128"), ("1x128", "1x128"), ("row", "row"), ("tensor", "tensor"), ("mxfp8", "mxfp8"), ("1x128", "mxfp4"),
    ("mxfp8", "mxfp4"), ("nvfp4", "nvfp4"), ("bf16", "mxfp4"), ("bf16", "nvfp4"), ("1x128.ue8m0", "128x128"), ("row", "mxfp4"),
]  # fmt: skip
UNITS = {
    "swiglu": {},
    "swiglu, gpt-oss": {"activation": "swiglu", "alpha": 1.702, "beta": 1.0, "limit": 7.0, "interleaved": True},
    "situ": {"activation": "situ"},
    "geglu": {"activation": "geglu"},
    "relu_squared": {"activation": "relu_squared"},
}


def random(seed):
    return torch.Generator().manual_seed(seed)


def weights_of(experts, hidden, inner, recipe, has_up, seed):
    """up and down, quantized on the host."""
    numbers = random(seed)
    shapes = (experts, (2 if has_up else 1) * inner, hidden), (experts, hidden, inner)
    return [tw.quantize(torch.randn(shape, generator=numbers) * shape[2] ** -0.5, recipe) for shape in shapes]


def on_gpu(value):
    if isinstance(value, tw.Quantized):
        return tw.Quantized(*(part.cuda() if isinstance(part, torch.Tensor) else part for part in parts_of(value)))
    return value.cuda() if isinstance(value, torch.Tensor) else value


def parts_of(value):
    return value.values, value.recipe, value.scales, value.tensor_scale


def both(x, up, down, **keywords):
    """The layer on the CPU, bit-exact, and on the GPU."""
    device = next(name for name in ("h200", "h100") if name in torch.cuda.get_device_name().lower())
    exact = tw.moe(x, up, down, arithmetic="bit_exact", planned_device=device, **keywords)
    given = {name: on_gpu(value) for name, value in keywords.items()}
    return exact, tw.moe(on_gpu(x), on_gpu(up), on_gpu(down), planned_device=device, **given)


def expect_same(exact, given, rows=None):
    exact, given = exact.float(), given.float().cpu()
    if rows is not None:
        exact, given = exact[rows], given[rows]
    assert torch.equal(exact.isnan(), given.isnan())
    wrong = (exact.nan_to_num() != given.nan_to_num()).sum()
    assert wrong == 0, f"{wrong} of {exact.numel()} differ, the largest difference is {(exact - given).abs().max()}"


def choices(tokens, top, experts, seed):
    """Numbers of experts, some of which do not exist."""
    return torch.randint(-2, experts + 2, (tokens, top), generator=random(seed), dtype=torch.int32)


@pytest.mark.parametrize(("activations", "weights"), RECIPES)
@pytest.mark.parametrize("place", ["combine", "activation", "input"])
def test_each_recipe_and_place_of_weights_has_the_cpus_bits(activations, weights, place):
    tokens, experts, top, hidden, inner = 37, 6, 3, 256, 384
    up, down = weights_of(experts, hidden, inner, weights, True, 1)
    x = torch.randn(tokens, hidden, generator=random(2)).bfloat16()
    w = torch.rand(tokens, top, generator=random(3))
    expect_same(
        *both(x, up, down, experts=choices(tokens, top, experts, 4), weights=w, activations=activations, weights_at=place)
    )


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("activations", ["1x128", "row", "mxfp8", "bf16"])  # bf16 with MXFP4 weights
def test_each_unit_has_the_cpus_bits(unit, activations):
    weights = {"1x128": "128x128", "bf16": "mxfp4"}.get(activations, activations)
    up, down = weights_of(5, 256, 128, weights, unit != "relu_squared", 1)
    x = torch.randn(50, 256, generator=random(2)) * 3
    ids = choices(50, 4, 5, 3)
    bias = torch.randn(5, up.values.shape[1], generator=random(5))
    addend = torch.randn(50, 256, generator=random(6)).bfloat16()
    expect_same(*both(x, up, down, experts=ids, activations=activations, up_bias=bias, addend=addend, **UNITS[unit]))


@pytest.mark.parametrize(("tokens", "top", "experts"), [(1, 1, 1), (3, 16, 512), (128, 8, 128), (129, 8, 128), (600, 2, 512)])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_routing_of_few_and_many_choices_has_the_cpus_bits(tokens, top, experts, dtype):
    up, down = weights_of(experts, 128, 128, "128x128", True, 1)
    x = torch.randn(tokens, 128, generator=random(2)).bfloat16()
    ids = choices(tokens, top, experts, 3).to(dtype)
    places = torch.randperm(experts, generator=random(4)).to(torch.int32)
    places[::3] = -1
    w = torch.rand(tokens, top, generator=random(5)).bfloat16()
    expect_same(*both(x, up, down, experts=ids, weights=w, expert_map=places, shared=min(2, experts - 1)))


# One block, a cluster that all GPUs run, and larger ones: with all that shared memory keeps, with less, and with nothing.
@pytest.mark.parametrize(
    ("tokens", "top", "experts"),
    [(1024, 1, 255), (205, 5, 13), (1639, 5, 256), (8192, 8, 256), (4097, 16, 2048), (2**18, 1, 2048), (2**20, 1, 2048)],
)
@pytest.mark.parametrize("shared", [0, 1])
def test_the_order_of_choices_is_that_of_the_cpu(tokens, top, experts, shared):
    ids = torch.randint(-1, experts - shared, (tokens, top), generator=random(1), dtype=torch.int32)
    ids[: tokens // 3] = experts // 2  # one is hot
    w = torch.rand(tokens, top, generator=random(2))
    exact, given = (tw.route(on(ids), experts, on(w), shared=shared) for on in (lambda part: part, on_gpu))
    count = int(exact.ends[-1])
    assert torch.equal(exact.rows, given.rows.cpu())
    assert torch.equal(exact.ends, given.ends.cpu())
    assert torch.equal(exact.sources[:count], given.sources[:count].cpu())
    assert torch.equal(exact.weights[:count], given.weights[:count].cpu())


@pytest.mark.parametrize("value", [-1, 0, 7, 2**31 - 1, -(2**31)])
def test_all_choices_are_alike(value):
    up, down = weights_of(8, 256, 128, "128x128", True, 1)
    x = torch.randn(200, 256, generator=random(2)).bfloat16()
    expect_same(*both(x, up, down, experts=torch.full((200, 9), value, dtype=torch.int32)))


@pytest.mark.parametrize("recipe", ["1x128", "row", "tensor", "mxfp8", "bf16"])
@pytest.mark.parametrize("form", ["offsets", "aligned_offsets", "counts"])
def test_rows_of_experts_have_the_cpus_bits(form, recipe):
    weights = {"1x128": "128x128", "bf16": "mxfp4"}.get(recipe, recipe)
    up, down = weights_of(4, 256, 128, weights, True, 1)
    sizes = {"offsets": [0, 33, 33, 90], "aligned_offsets": [5, 133, 128, 300], "counts": [0, 64, 7, 100]}[form]
    shape = (4, 64, 256) if form == "counts" else (310, 256)
    x = torch.randn(shape, generator=random(2)).bfloat16()
    row_weights = torch.rand(shape[:-1], generator=random(3))
    out = torch.full(shape, 5.0, dtype=torch.float32)
    given = {form: torch.tensor(sizes, dtype=torch.int32), "row_weights": row_weights, "activations": recipe}
    exact, gpu = both(x, up, down, out=out, **given)
    expect_same(exact, gpu)


def test_a_graph_is_replayed_a_thousand_times_with_other_routing():
    tokens, top, experts, hidden, inner = 48, 4, 16, 256, 128
    up, down = (on_gpu(each) for each in weights_of(experts, hidden, inner, "128x128", True, 1))
    x = torch.randn(tokens, hidden, generator=random(2)).bfloat16().cuda()
    ids = torch.zeros(tokens, top, dtype=torch.int32, device="cuda")
    w = torch.rand(tokens, top, generator=random(3)).cuda()
    out = torch.empty(tokens, hidden, dtype=torch.bfloat16, device="cuda")
    tw.moe(x, up, down, experts=ids, weights=w, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tw.moe(x, up, down, experts=ids, weights=w, out=out)
    beside, other = torch.cuda.Stream(), torch.randn(2048, 2048, device="cuda")
    routings = [torch.randint(-1, experts, ids.shape, dtype=torch.int32, device="cuda") for _ in range(10)]
    expected = [tw.moe(x, up, down, experts=each, weights=w) for each in routings]
    for index in itertools.islice(itertools.cycle(range(len(routings))), 1000):
        with torch.cuda.stream(beside):
            other @ other
        ids.copy_(routings[index])
        graph.replay()
        assert torch.equal(out, expected[index])


@pytest.mark.parametrize(("activations", "weights"), [("1x128", "mxfp4"), ("row", "mxfp4"), ("bf16", "mxfp4"), ("bf16", "nvfp4")])
def test_packed_weights_give_the_bits_of_unpacked_ones(activations, weights):
    up, down = (on_gpu(each) for each in weights_of(6, 256, 384, weights, True, 1))
    packed = [tw.pack_weights(each, "bf16" if activations == "bf16" else "fp8") for each in (up, down)]
    x = torch.randn(70, 256, generator=random(2)).bfloat16().cuda()
    given = {"experts": choices(70, 3, 6, 3).cuda(), "activations": activations}
    assert torch.equal(tw.moe(x, up, down, **given), tw.moe(x, *packed, **given))


@pytest.mark.parametrize("recipe", ["1x128", "row", "mxfp8"])
def test_invariant_tokens_have_the_same_bits_in_any_batch(recipe):
    weights = {"1x128": "128x128"}.get(recipe, recipe)
    up, down = (on_gpu(each) for each in weights_of(16, 512, 256, weights, True, 1))
    x = torch.randn(900, 512, generator=random(2)).bfloat16().cuda()
    ids = torch.randint(0, 16, (900, 4), generator=random(3), dtype=torch.int32).cuda()
    w = torch.rand(900, 4, generator=random(4)).cuda()
    whole = tw.moe(x, up, down, experts=ids, weights=w, activations=recipe, invariant=True)
    for begin, end in ((0, 1), (5, 8), (100, 333)):
        part = slice(begin, end)
        alone = tw.moe(x[part], up, down, experts=ids[part], weights=w[part], activations=recipe, invariant=True)
        assert torch.equal(whole[part], alone)


def test_many_tokens_in_chunks_are_those_of_one_chunk():
    up, down = (on_gpu(each) for each in weights_of(32, 512, 256, "128x128", True, 1))
    x = torch.randn(5000, 512, device="cuda", dtype=torch.bfloat16)
    ids = torch.randint(0, 32, (5000, 6), dtype=torch.int32, device="cuda")
    w = torch.rand(5000, 6, device="cuda")
    whole = tw.moe(x, up, down, experts=ids, weights=w, invariant=True)
    assert torch.equal(whole, tw.moe(x, up, down, experts=ids, weights=w, invariant=True, chunk=1111))
