"""torch.compile keeps the layers of tilewright.torch whole, in one graph, with the bits of eager calls."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch 2.4 or newer: pip install torch")
if not hasattr(torch.library, "register_autograd"):
    pytest.skip(f"needs torch 2.4 or newer; this is {torch.__version__}", allow_module_level=True)

from tilewright.torch import RECIPES, GroupedLinear, Linear, _reuse, grouped_linear, linear, reuse_weights  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch_layers import normal, one_thread, same, step  # noqa: E402, F401

N, K, TOKENS, ENDS = 144, 160, 300, [100, 100, 290]
OPERATORS = torch.ops.tilewright


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()


def layer_of(grouped, recipe, with_main_grad=False, **options):
    layer = GroupedLinear(3, K, N, True, recipe=recipe, **options) if grouped else Linear(K, N, recipe=recipe, **options)
    if with_main_grad:
        layer.weight.main_grad = torch.ones_like(layer.weight)
    return layer


def step_of(layer, call, *given):
    """As `step`, with main_grad, which begins at ones."""
    main_grad = getattr(layer.weight, "main_grad", None)
    if main_grad is None:
        return step(layer, *given, call=call)
    main_grad.fill_(1)
    return [*step(layer, *given, call=call), main_grad.clone()]


@pytest.mark.parametrize("with_main_grad", [False, True])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("grouped", [False, True])
def test_no_graph_breaks_and_the_bits_of_eager_calls(grouped, recipe, with_main_grad):
    """For any number of tokens, and after the weight has changed: no copy of it is old."""
    layer = layer_of(grouped, recipe, with_main_grad, gradient_format="e5m2")
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for tokens in (300, 295, 291):
        x, dy = normal(tokens, K, seed=tokens), normal(tokens, N, seed=tokens + 1)
        ends = [torch.tensor(ENDS)] * grouped
        assert same(step_of(layer, compiled, x, dy, *ends), step_of(layer, layer, x, dy, *ends))
        with torch.no_grad():
            layer.weight.mul_(1.5)


@pytest.mark.usefixtures("scalar_inductor")
@pytest.mark.parametrize("grouped", [False, True])
def test_inductor(grouped):
    layer = layer_of(grouped, "1x128", with_main_grad=True, dtype=torch.bfloat16 if grouped else torch.float32)
    if grouped:
        layer.weight.main_grad = torch.ones(3, N, K)
    x, dy, ends = normal(TOKENS, K), normal(TOKENS, N, seed=1), [torch.tensor(ENDS)] * grouped
    compiled = torch.compile(layer, fullgraph=True)
    try:
        ours = step_of(layer, compiled, x, dy, *ends)
    except torch._inductor.exc.InductorError as error:
        pytest.skip(f"this machine lacks what inductor compiles with: {str(error)[:80]}")
    assert same(ours, step_of(layer, layer, x, dy, *ends))


def test_a_model_with_a_router_is_one_graph():
    """Sorting, ends and both products, as examples/moe_train has them."""
    torch.manual_seed(0)
    router, up, down = torch.nn.Linear(K, 3), GroupedLinear(3, K, 2 * N), GroupedLinear(3, N, K, recipe="fold")

    def mixture(x):
        chosen = router(x).argmax(dim=-1)
        order = torch.argsort(chosen, stable=True)
        ends = torch.nn.functional.one_hot(chosen, 3).sum(dim=0).cumsum(dim=0)
        gate, h = up(x[order], ends).chunk(2, dim=-1)
        y = down(torch.nn.functional.silu(gate) * h, ends)
        return torch.zeros_like(x).index_copy(0, order, y)

    model = torch.nn.ModuleList([router, up, down])
    seen = []

    def backend(graph, inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes if "tilewright" in str(node.target))
        return graph.forward

    router.requires_grad_(False)
    x, dy = normal(TOKENS, K), normal(TOKENS, K, seed=1)
    compiled = torch.compile(mixture, backend=backend, fullgraph=True)
    assert same(step(model, x, dy, call=compiled), step(model, x, dy, call=mixture))
    assert [name.split(".")[1] for name in seen].count("linear") == 2


def test_layers_share_what_was_compiled():
    """A block compiled once serves every layer of its shape: nothing of a layer but its tensors is in the graph."""
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    call = torch.compile(lambda layer, x: layer(x), backend=backend, fullgraph=True)
    layers, x = [Linear(K, N) for _ in range(12)], normal(8, K)
    for layer in layers:
        assert torch.equal(call(layer, x), layer(x))
    assert len(graphs) == 1


def test_wrong_ends_are_named_by_compiled_layers():
    layer = torch.compile(GroupedLinear(3, K, N), backend="aot_eager", fullgraph=True)
    layer(normal(TOKENS, K), torch.tensor(ENDS))
    with pytest.raises(ValueError, match=r"^ends: got \[100, 90, 290\]; expected ends that do not decrease"):
        layer(normal(TOKENS, K), torch.tensor([100, 90, 290]))


def test_requantised_weights_stay_in_the_graph():
    """Backward quantises W, which is saved itself."""
    w, x, dy, ends = normal(3, N, K, seed=1), normal(TOKENS, K), normal(TOKENS, N, seed=2), torch.tensor(ENDS)

    def gradients(function):
        given = [x.clone().requires_grad_(), w.clone().requires_grad_()]
        function(*given).backward(dy)
        return [tensor.grad for tensor in given]

    call = lambda x, w: grouped_linear(x, w, ends, recipe="row", keep="weight")
    compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
    assert same(gradients(compiled), gradients(lambda x, w: grouped_linear(x, w, ends, recipe="row")))


def test_whoever_watches_operators_sees_them():
    """Other calls go past the dispatcher, with the same result."""
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    layer, x, dy = layer_of(False, "row", with_main_grad=True), normal(TOKENS, K), normal(TOKENS, N, seed=1)
    expected = step_of(layer, layer, x, dy)
    with Watch():
        assert same(step_of(layer, layer, x, dy), expected)
    ours = [name.split(".")[1] for name in seen if name.startswith("tilewright")]
    assert ours == ["linear_weights", "linear", "linear_gradients"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_schemas_tell_the_truth(recipe):
    """main_grad is written, nothing else, and no result is an argument."""
    w, x, dy, ends = normal(3, N, K), normal(TOKENS, K), normal(TOKENS, N), torch.tensor(ENDS)
    how = (w, recipe, True, True)
    copies = OPERATORS.linear_weights(*how)
    given = (x, w, normal(3, N), ends, *copies[:2], *copies[:2], None, recipe, "e4m3", True, True, False, False, False, "00automatic")
    kept = OPERATORS.linear(*given)[1:]
    dgrad = copies[2:] if recipe == "row" else copies[:2]
    backward = (dy, *kept, *dgrad, ends)
    calls = [(OPERATORS.linear_weights, how), (OPERATORS.linear, given)]
    for main_grad in (None, torch.zeros(3, N, K)):
        how = (recipe, "e4m3", True, [True] * 3, torch.float32, "00automatic")
        calls.append((OPERATORS.linear_gradients, (*backward, main_grad, *how)))
    for operator, arguments in calls:
        torch.library.opcheck(operator.default, arguments, test_utils=("test_autograd_registration", "test_faketensor"))
        raw = lambda tensor: tensor.contiguous().view(torch.uint8)
        tensors = [tensor for tensor in arguments if isinstance(tensor, torch.Tensor)]
        before, results = [tensor.clone() for tensor in tensors], operator(*arguments)
        written = [not torch.equal(raw(new), raw(old)) for new, old in zip(tensors, before)]
        assert sum(written) == any(tensor is main_grad for tensor in tensors)
        addresses = {tensor.untyped_storage().data_ptr() for tensor in tensors}
        assert not any(result.untyped_storage().data_ptr() in addresses for result in results if result.numel())


@pytest.mark.parametrize("breaks", [False, True])
def test_contexts_of_reuse_are_compiled_and_surround_what_is_compiled(breaks):
    """Compiled calls quantise at each call; the bits are those of eager ones."""
    layer, x = Linear(K, K, recipe="row"), normal(8, K)

    def call(x):
        with reuse_weights():
            x = layer(x)
            if breaks:
                torch._dynamo.graph_break()
            return layer(x)

    expected, compiled = call(x), torch.compile(call, backend="aot_eager", fullgraph=not breaks)
    assert torch.equal(compiled(x), expected)
    with reuse_weights():
        assert torch.equal(compiled(x), expected)
        layer.weight.data.mul_(2)
        assert torch.equal(compiled(x), layer(layer(x)))
        with torch.no_grad():
            layer.weight.mul_(2)
        assert torch.equal(compiled(x), call_anew(layer, x)) or breaks
    assert torch.equal(compiled(x), call_anew(layer, x)) and not _reuse._STORES.get()


def call_anew(layer, x):
    w = layer.weight.detach().clone()
    return linear(linear(x, w, bias=layer.bias, recipe="row"), w, bias=layer.bias, recipe="row")
