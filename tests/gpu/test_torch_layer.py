"""tilewright.torch on a Hopper GPU: CUDA graphs of a whole step, compiled graphs, gradients in e5m2, and the CPU's results."""

import gc

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

import tilewright as tw  # noqa: E402
from tilewright.torch import RECIPES, GroupedLinear, Linear, grouped_linear, linear  # noqa: E402
from torch_layers import error, kept_of_w, kept_of_x, kept_together, lost_without_promotion, normal, same, step  # noqa: E402

N, K, TOKENS, ENDS = 256, 384, 512, [100, 100, 500]


def layer_of(grouped, recipe, with_main_grad=False, **options):
    torch.manual_seed(0)
    options.update(recipe=recipe, bias=True, device="cuda")
    layer = GroupedLinear(3, K, N, **options) if grouped else Linear(K, N, **options)
    if with_main_grad:
        layer.weight.main_grad = torch.zeros_like(layer.weight)
    return layer


def inputs(seed=0):
    x, dy = normal(TOKENS, K, seed=seed, device="cuda"), normal(TOKENS, N, seed=seed + 1, device="cuda")
    return x.bfloat16(), dy.bfloat16()


def ends_of(grouped, ends=ENDS):
    return [torch.tensor(ends, device="cuda")] * grouped


@pytest.mark.parametrize("with_main_grad", [False, True])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("grouped", [False, True])
def test_a_step_is_captured_and_replayed(grouped, recipe, with_main_grad):
    """Forward, backward and a change of W: replays follow new tokens, new ends and new weights, with the bits of eager calls."""
    layer, ends = layer_of(grouped, recipe, with_main_grad), ends_of(grouped)
    x, dy = inputs()
    x.requires_grad_()

    def captured():
        for tensor in (x, *layer.parameters()):
            tensor.grad = None
        y = layer(x, *ends)
        y.backward(dy)
        return y, x.grad, layer.weight.grad, layer.bias.grad

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        captured()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = captured()
        with torch.no_grad():
            layer.weight.mul_(0.5)  # as an optimizer in the graph: torch counts no replay of it

    for seed in (10, 20):
        new_x, new_dy = inputs(seed)
        with torch.no_grad():
            x.copy_(new_x)
            dy.copy_(new_dy)
        for tensor in ends:
            tensor.copy_(torch.tensor([seed, 300, 512], device="cuda"))
        before = layer.weight.detach().clone()
        if with_main_grad:
            layer.weight.main_grad.zero_()
        graph.replay()
        torch.cuda.synchronize()
        ours = [tensor.clone() for tensor in made]
        main_grad = layer.weight.main_grad.clone() if with_main_grad else None

        fresh = layer_of(grouped, recipe, with_main_grad)
        with torch.no_grad():
            fresh.weight.copy_(before)
            fresh.bias.copy_(layer.bias)
        expected = step(fresh, new_x, new_dy, *ends)
        assert same(ours, expected)
        if with_main_grad:
            assert torch.equal(main_grad, fresh.weight.main_grad) and main_grad.any()
        # outside of the graph: W as the replay has left it, not a copy of before
        assert torch.equal(layer(new_x, *ends), layer_after(fresh, 0.5)(new_x, *ends))


def layer_after(layer, factor):
    with torch.no_grad():
        layer.weight.mul_(factor)
    return layer


def test_make_graphed_callables():
    """Forward and backward, the optimizer outside."""
    layer, reference = layer_of(True, "1x128"), layer_of(True, "1x128")
    x, dy = inputs()
    (ends,) = ends_of(True)
    graphed = torch.cuda.make_graphed_callables(layer, (x.clone().requires_grad_(), ends))
    for _ in range(3):
        ours, theirs = step(layer, x, dy, ends, call=graphed), step(reference, x, dy, ends)
        assert same(ours, theirs)
        with torch.no_grad():
            for one in (layer, reference):
                one.weight.sub_(0.1 * one.weight.grad)


def test_all_memory_is_torchs():
    """Nothing is taken from the driver when a step runs again: what torch has reserved, and what the device has left, stay."""
    layer, (x, dy), ends = layer_of(True, "1x128"), inputs(), ends_of(True)
    for _ in range(3):
        step(layer, x, dy, *ends)
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0], torch.cuda.memory_reserved()
    for _ in range(5):
        with torch.no_grad():
            layer.weight.mul_(1.01)
        step(layer, x, dy, *ends)
    torch.cuda.synchronize()
    assert (torch.cuda.mem_get_info()[0], torch.cuda.memory_reserved()) == before


@pytest.mark.parametrize(("x_wants", "w_wants"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("grouped", [False, True])
def test_bytes_that_a_call_holds(grouped, recipe, x_wants, w_wants):
    """Between forward and backward, as docs/torch.md states them and torch's allocator counts them: in steps of 512 bytes."""
    groups, (x, dy) = 3 if grouped else 1, inputs()
    x.requires_grad_(x_wants)
    w = normal(*[groups] * grouped, N, K, seed=2, device="cuda").requires_grad_(w_wants)
    ends, call = ends_of(grouped), grouped_linear if grouped else linear
    call(x, w, *ends, recipe=recipe).backward(dy)  # what is done once, and the gradients, which stay
    torch.cuda.synchronize()
    gc.collect()
    before = torch.cuda.memory_allocated()
    y = call(x, w, *ends, recipe=recipe)
    torch.cuda.synchronize()
    gc.collect()
    operands = kept_of_x(recipe, groups, TOKENS, K) if w_wants else ()
    operands += kept_of_w(recipe, groups, N, K) if x_wants else ()
    tensors = [y.numel() * y.element_size(), *kept_together(recipe, x_wants, *operands)]
    assert max(tensors) < 1 << 20, "the allocator gives blocks of up to 1 MiB in steps of 512 bytes, larger ones not always"
    assert torch.cuda.memory_allocated() - before == sum(-(-size // 512) * 512 for size in tensors)
    y.backward(dy)
    del y
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before


@pytest.mark.parametrize("recipe", RECIPES)
def test_nothing_is_read_on_the_host(recipe):
    """torch reports each synchronisation that it makes as an error."""
    layer, (x, dy), ends = layer_of(True, recipe, with_main_grad=True), inputs(), ends_of(True)
    step(layer, x, dy, *ends)
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.no_grad():
            layer.weight.mul_(2)
        step(layer, x, dy, *ends)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("recipe", RECIPES)
def test_gradients_in_e5m2(recipe):
    """As the CPU has them: its fast arithmetic sums in another order. Kernels of e5m2 are compiled on first use."""
    layer, (x, dy), ends = layer_of(True, recipe, gradient_format="e5m2"), inputs(), ends_of(True)
    ours = step(layer, x, dy, *ends)
    on_cpu = step(layer.cpu(), x.cpu(), dy.cpu(), *(tensor.cpu() for tensor in ends))
    for mine, other in zip(ours, on_cpu):
        assert error(mine, other.double()) < 5e-3


@pytest.mark.parametrize("recipe", ["row", "tensor"])
@pytest.mark.parametrize("grouped", [False, True])
def test_sums_that_are_not_promoted(grouped, recipe):
    """As the CPU's test of it has them."""
    assert all(1e-3 < lost < 1e-2 for lost in lost_without_promotion(recipe, grouped, "cuda"))


@pytest.mark.skipif(not hasattr(torch.library, "register_autograd"), reason="needs torch 2.4 or newer")
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_compiled(recipe, mode):
    """In one graph, with CUDA graphs of inductor's too; weights change in between."""
    torch._dynamo.reset()
    layer, ends = layer_of(True, recipe), ends_of(True)
    compiled = torch.compile(layer, mode=mode, fullgraph=True)
    for seed in range(4):
        x, dy = inputs(seed)
        ours = [tensor.clone() for tensor in step(layer, x, dy, *ends, call=compiled)]
        assert same(ours, step(layer, x, dy, *ends))
        with torch.no_grad():
            layer.weight.mul_(1.5)


@pytest.mark.parametrize("grouped", [False, True])
def test_tf32_of_torch_changes_no_bit(grouped):
    x, dy = normal(TOKENS, K, device="cuda"), normal(TOKENS, N, seed=1, device="cuda")  # bf16 would be exact in tf32
    made = []
    before = torch.backends.cuda.matmul.allow_tf32  # no attribute that monkeypatch could take away again
    try:
        for allowed in (False, True):
            torch.backends.cuda.matmul.allow_tf32 = allowed
            made.append(step(layer_of(grouped, "1x128"), x, dy, *ends_of(grouped)))
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert same(*made)


@pytest.mark.parametrize("grouped", [False, True])
def test_a_frozen_layer_is_captured(grouped):
    """Replays use the copy, and the one that refresh makes in its place."""
    layer, ends, x = layer_of(grouped, "1x128"), ends_of(grouped), inputs()[0]
    with torch.no_grad():
        layer.freeze()
        expected = layer(x, *ends)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = layer(x, *ends)
        layer.weight.mul_(2)
        graph.replay()
        assert torch.equal(y, expected)
        layer.refresh()
        graph.replay()
        assert torch.equal(y, layer(x, *ends)) and not torch.equal(y, expected)


def codes_of(tensor, columns):
    return tensor.cpu().view(torch.uint8 if tensor.element_size() == 1 else torch.int32)[:, :columns]


@pytest.mark.parametrize("columns", ["1x128", "128x128"])
@pytest.mark.parametrize("recipe", ["1x128", "e5m2.1x128.ue8m0"])
def test_transposed_codes_have_the_cpus_bits(recipe, columns):
    """Ends are read on the GPU; of four blocks of columns the two of groups are written."""
    rows, ends = tw.quantize(normal(228, 272) * 2.0 ** torch.arange(-8, 9).repeat(16), recipe, round_up=True), [100, 100, 228]
    on_gpu = tw.Quantized(rows.values.cuda(), recipe, rows.scales.cuda())
    word = recipe.replace("1x128", columns)
    ours = tw.transpose_codes(on_gpu, torch.tensor(ends, device="cuda"), columns=word)
    theirs = tw.transpose_codes(rows, torch.tensor(ends), columns=word)
    assert ours.recipe == word and ours.values.is_cuda and ours.shape == theirs.shape == (272, 512)
    assert torch.equal(codes_of(ours.values, 256), codes_of(theirs.values, 256))
    assert torch.equal(codes_of(ours.scales, 2), codes_of(theirs.scales, 2))
