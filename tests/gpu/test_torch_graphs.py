"""Training with tilewright.torch in CUDA graphs and on several streams: bit for bit what the oracle of torch_oracle.py does."""

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

from tilewright.torch import RECIPES, Linear, reuse_weights  # noqa: E402
from torch_layers import normal, same, step  # noqa: E402
from torch_oracle import layers_of  # noqa: E402

TOKENS, K, N, STEPS = 256, 384, 256, 20


def batch(seed, grouped):
    torch.manual_seed(seed)
    x, target = (torch.randn(TOKENS, width, dtype=torch.bfloat16).cuda() for width in (K, N))
    return [x, target, *[torch.tensor([seed, TOKENS], device="cuda")] * grouped]


def on_a_side_stream(function):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function()
    torch.cuda.current_stream().wait_stream(side)


def step_of(layer, optimizer, given, reuses):
    """Two microbatches; their losses."""
    x, target, *ends = given
    losses = []
    with reuse_weights() if reuses else torch.enable_grad():
        for part in (1, -1):
            loss = (layer(x * part, *ends) - target).square().mean()
            loss.backward()
            losses.append(loss.detach())
    optimizer.step()
    return losses


@pytest.mark.parametrize("reuses", [False, True])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("grouped", [False, True])
def test_a_step_with_its_optimizer_is_captured(grouped, recipe, reuses):
    """Fused AdamW, which counts no version, and replays, which count none either."""
    ours, oracle = layers_of(grouped, recipe, torch.bfloat16, "cuda", K, N)
    optimizers = [torch.optim.AdamW(layer.parameters(), lr=0.01, fused=True, capturable=True) for layer in (ours, oracle)]

    def warm_up():
        for seed in range(3):
            for layer, optimizer in zip((ours, oracle), optimizers):
                step_of(layer, optimizer, batch(seed, grouped), reuses)
                optimizer.zero_grad()

    on_a_side_stream(warm_up)
    given, graph = batch(3, grouped), torch.cuda.CUDAGraph()
    optimizers[0].zero_grad()
    with torch.cuda.graph(graph):
        losses = step_of(ours, optimizers[0], given, reuses)
        optimizers[0].zero_grad()
    begin = ours.weight.detach().clone()
    for seed in range(4, 4 + STEPS):
        for place, new in zip(given, batch(seed, grouped)):
            place.copy_(new)
        graph.replay()
        assert same([loss.clone() for loss in losses], step_of(oracle, optimizers[1], batch(seed, grouped), False))
        optimizers[1].zero_grad()
        assert same([p.detach() for p in ours.parameters()], [p.detach() for p in oracle.parameters()])
    assert (ours.weight - begin).abs().max() > 0.01
    with torch.no_grad():
        assert torch.equal(ours(given[0], *given[2:]), oracle(given[0], *given[2:])), "outside of the graph"


@pytest.mark.parametrize("recipe", ["row", "1x128"])
def test_a_graph_that_is_captured_inside_of_a_context(recipe):
    """It takes no copy from outside, which would be gone when it is replayed, and leaves none, which no replay has written."""
    layer, x = Linear(K, N, bias=False, recipe=recipe, device="cuda"), normal(TOKENS, K, device="cuda")
    with torch.no_grad():
        on_a_side_stream(lambda: layer(x))
        graph, first = torch.cuda.CUDAGraph(), layer(x)
        with reuse_weights():
            assert torch.equal(layer(x), first)
            with torch.cuda.graph(graph):
                y = layer(x)
            assert torch.equal(layer(x), first)
        with reuse_weights():
            taken = [torch.full((N, K), 9, dtype=torch.uint8, device="cuda") for _ in range(8)]  # the memory of the copies, if any
            layer.weight.data.mul_(2)
            graph.replay()
            assert torch.equal(y, 2 * first) and torch.equal(layer(x), 2 * first) and len(taken) == 8


def test_streams_do_not_share_a_copy_that_one_of_them_has_not_made_yet():
    layer, x = Linear(K, N, recipe="row", device="cuda"), normal(TOKENS, K, device="cuda")
    with torch.no_grad():
        expected = layer(x)
        torch.cuda.synchronize()
        for _ in range(5):
            found, streams = [], [torch.cuda.Stream(), torch.cuda.Stream()]
            with reuse_weights():
                for stream in streams:
                    with torch.cuda.stream(stream):
                        if stream is streams[0]:
                            torch.cuda._sleep(20_000_000)
                        found.append(layer(x))
                torch.cuda.synchronize()
            assert same(found, [expected] * 2)


def test_checked_copies_are_not_captured():
    layer, x = Linear(K, N, device="cuda"), normal(TOKENS, K, device="cuda")
    with torch.no_grad():
        layer.freeze(check=True)
        layer(x)
        with pytest.raises(ValueError, match=r"^w: got freeze\(check=True\) during a CUDA graph capture; expected freeze\(\)"):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                layer(x)


@pytest.mark.parametrize("recipe", RECIPES)
def test_masters_of_float32_and_a_context(recipe):
    """With gradients, and with weights that backward quantises again."""
    made = []
    for keep, reuses in (("copy", False), ("copy", True), ("weight", True)):
        torch.manual_seed(0)
        layer, x = Linear(K, N, recipe=recipe, keep=keep, device="cuda"), normal(TOKENS, K, device="cuda")
        with reuse_weights() if reuses else torch.enable_grad():
            made.append([*step(layer, x, normal(TOKENS, N, seed=1, device="cuda")), *step(layer, -x, normal(TOKENS, N, seed=2, device="cuda"))])
    assert same(made[0], made[1]) and same(made[0], made[2])
