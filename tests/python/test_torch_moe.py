"""`tilewright.torch.moe` and `Experts`: results, gradients against float64, and what modules, compilers and optimizers do with them."""

import copy
import gc
import math
import pickle

import pytest

torch = pytest.importorskip("torch", reason="needs torch: tools/setup torch=yes, or pip install torch")

import tilewright as tw  # noqa: E402
from test_torch_optimizers import FORMS, MATRICES, OWN_LOOP, optimizer_of  # noqa: E402
from tilewright.torch import RECIPES, Experts, _operators, explain_moe, moe, reuse_weights  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch_layers import DEVICES, error, kept_of_w, kept_of_x, normal, one_thread, same  # noqa: E402, F401
from torch_oracle import ExpertsOracle  # noqa: E402

TOKENS, HIDDEN, INNER, EXPERTS, K = 40, 64, 96, 4, 2
UNITS = {
    "swiglu": {"alpha": 1.702, "beta": 1.0, "limit": 2.5},
    "situ": {"gate_bound": 1.5, "up_bound": 2.0},
    "geglu": {},
    "relu_squared": {},
}


def ids_of(tokens=TOKENS, k=K, seed=0, device="cpu"):
    """Distinct experts of each token; a few name none."""
    made = torch.stack([torch.randperm(EXPERTS, generator=torch.Generator().manual_seed(seed * 1000 + i))[:k] for i in range(tokens)])
    made[:: tokens // 3 or 1, 0] = -1
    return made.to(device)


def tensors(dtype=torch.float32, device="cpu", gates=2, biases=False, tokens=TOKENS):
    """x, weights, up, down and the biases, which all want a gradient."""
    made = [
        normal(tokens, HIDDEN, dtype=dtype, device=device),
        normal(tokens, K, seed=1, device=device).sigmoid(),
        normal(EXPERTS, gates * INNER, HIDDEN, seed=2, device=device) / 8,
        normal(EXPERTS, HIDDEN, INNER, seed=3, device=device) / 8,
    ]
    if biases:
        made += [normal(EXPERTS, gates * INNER, seed=4, device=device) / 4, normal(EXPERTS, HIDDEN, seed=5, device=device) / 4]
    return [tensor.requires_grad_() for tensor in made]


def activated(gate_up, kind, alpha=1.0, beta=0.0, limit=float("inf"), gate_bound=4.0, up_bound=25.0):
    if kind == "relu_squared":
        return gate_up.relu() ** 2
    gate, up = gate_up.chunk(2, dim=-1)
    if kind == "swiglu":
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        return gate * torch.sigmoid(alpha * gate) * (up + beta)
    if kind == "geglu":
        return torch.nn.functional.gelu(gate, approximate="tanh") * up
    bounded_up = up if up_bound == float("inf") else up_bound * torch.tanh(up / up_bound)
    return gate_bound * torch.tanh(gate / gate_bound) * torch.sigmoid(gate) * bounded_up


def exact(ids, x, weights, up, down, up_bias=None, down_bias=None, *, kind="swiglu", at="combine", **numbers):
    """The layer in float64, by autograd."""
    choices = torch.nn.functional.one_hot(ids.clamp(min=0), EXPERTS).double() * (ids >= 0).double()[..., None]
    shares = (choices * weights[..., None]).sum(1)  # [tokens, experts]
    chosen = choices.sum(1)
    out = torch.zeros_like(x)
    for expert in range(EXPERTS):
        share, there = shares[:, expert, None], chosen[:, expert, None]
        gate_up = (x * share if at == "input" else x) @ up[expert].T + (0 if up_bias is None else up_bias[expert])
        h = activated(gate_up, kind, **numbers) * (share if at == "activation" else 1)
        y = h @ down[expert].T + (0 if down_bias is None else down_bias[expert])
        out = out + y * (share if at == "combine" else there)
    return out


def gradients_of(call, given, d_out):
    for tensor in given:
        tensor.grad = None
    out = call()
    out.backward(d_out.to(out.dtype))
    return [out.detach(), *(tensor.grad for tensor in given)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("at", ["combine", "activation", "input"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_gradients_are_near_those_of_float64(recipe, at, device):
    """e4m3 rounds by 2.7 % in the mean; each gradient has two to four such operands in a row."""
    given, ids, d_out = tensors(device=device), ids_of(device=device), normal(TOKENS, HIDDEN, seed=9, device=device)
    x, weights, up, down = given
    made = gradients_of(lambda: moe(x, ids, weights, up, down, recipe=recipe, weights_at=at), given, d_out)
    wide = [tensor.detach().cpu().double().requires_grad_() for tensor in given]
    wanted = gradients_of(lambda: exact(ids.cpu(), *wide, at=at), wide, d_out.cpu())
    assert [mine.dtype for mine in made] == [torch.float32] * 5
    assert all(error(mine, right) < 0.1 for mine, right in zip(made, wanted)), [error(*pair) for pair in zip(made, wanted)]
    with torch.no_grad():
        assert torch.equal(moe(x, ids, weights, up, down, recipe=recipe, weights_at=at), made[0])


@pytest.mark.parametrize("at", ["combine", "activation"])
@pytest.mark.parametrize("kind", UNITS)
def test_gradients_of_every_unit_and_of_biases(kind, at):
    given, ids, d_out = tensors(gates=1 if kind == "relu_squared" else 2, biases=True), ids_of(), normal(TOKENS, HIDDEN, seed=9)
    x, weights, up, down, up_bias, down_bias = given
    options = {"activation": kind, "weights_at": at, "up_bias": up_bias, "down_bias": down_bias, **UNITS[kind]}
    made = gradients_of(lambda: moe(x, ids, weights, up, down, **options), given, d_out)
    wide = [tensor.detach().double().requires_grad_() for tensor in given]
    wanted = gradients_of(lambda: exact(ids, *wide, kind=kind, at=at, **UNITS[kind]), wide, d_out)
    assert all(error(mine, right) < 0.11 for mine, right in zip(made, wanted)), [error(*pair) for pair in zip(made, wanted)]
    turned = [tensor.detach().clone().requires_grad_() for tensor in given]
    if kind == "relu_squared":
        return
    order = torch.arange(2 * INNER).view(2, INNER).T.flatten()
    with torch.no_grad():
        turned[2], turned[4] = up[:, order].clone(), up_bias[:, order].clone()
    for tensor in turned:
        tensor.requires_grad_()
    options |= {"up_bias": turned[4], "down_bias": turned[5], "interleaved": True}
    others = gradients_of(lambda: moe(turned[0], ids, turned[1], turned[2], turned[3], **options), turned, d_out)
    # The same numbers, but other rows of up share a scale.
    assert error(others[0], made[0].double()) < 0.1 and error(others[3], made[3][:, order].double()) < 0.1


def test_gradients_in_e5m2_and_of_bfloat16():
    given, ids, d_out = tensors(torch.bfloat16), ids_of(), normal(TOKENS, HIDDEN, seed=9)
    given = [tensor.detach().bfloat16().requires_grad_() for tensor in given]
    x, weights, up, down = given
    made = gradients_of(lambda: moe(x, ids, weights, up, down, gradient_format="e5m2"), given, d_out)
    wide = [tensor.detach().double().requires_grad_() for tensor in given]
    wanted = gradients_of(lambda: exact(ids, *wide), wide, d_out)
    assert all(mine.dtype == torch.bfloat16 for mine in made)
    assert all(error(mine, right) < 0.14 for mine, right in zip(made, wanted)), [error(*pair) for pair in zip(made, wanted)]


def test_the_gradient_of_an_addend_and_no_weights():
    x, _, up, down = tensors()
    addend, ids, d_out = normal(TOKENS, HIDDEN, seed=6).requires_grad_(), ids_of(), normal(TOKENS, HIDDEN, seed=9)
    out = moe(x, ids, None, up, down, addend=addend)
    out.backward(d_out)
    assert torch.equal(addend.grad, d_out) and x.grad.any()
    ones = moe(x, ids, torch.ones(TOKENS, K), up, down)
    assert error(out, (ones + addend).detach().double()) < 1e-6
    alone = moe(x.detach(), ids, None, up.detach(), down.detach(), addend=addend)
    addend.grad = None
    alone.backward(d_out)
    assert torch.equal(alone, out) and torch.equal(addend.grad, d_out)


@pytest.mark.parametrize("wants", ["x", "weights", "up", "down"])
def test_each_gradient_alone_has_the_bits_of_all(wants):
    given, ids, d_out = tensors(), ids_of(), normal(TOKENS, HIDDEN, seed=9)
    for at in ("combine", "input"):
        whole = gradients_of(lambda: moe(given[0], ids, *given[1:], weights_at=at), given, d_out)
        i = ("x", "weights", "up", "down").index(wants)
        one = [tensor.detach().requires_grad_(i == j) for j, tensor in enumerate(given)]
        moe(one[0], ids, *one[1:], weights_at=at).backward(d_out)
        assert torch.equal(one[i].grad, whole[1 + i])


def test_tokens_of_several_dimensions_and_strides():
    x, weights, up, down = tensors()
    ids = ids_of()
    flat = moe(x, ids, weights, up, down)
    shaped = moe(x.view(4, 10, HIDDEN), ids.view(4, 10, K), weights.view(4, 10, K), up, down)
    assert torch.equal(shaped.view(TOKENS, HIDDEN), flat)
    turned = (x.detach().T.contiguous().T, ids.T.contiguous().T, weights.detach().T.contiguous().T)
    w = [up.detach().transpose(1, 2).contiguous().transpose(1, 2), down.detach()]
    assert torch.equal(moe(*turned, *w), flat)
    addend = normal(HIDDEN, TOKENS, seed=7).T
    assert torch.equal(moe(*turned, *w, addend=addend), moe(x, ids, weights, up, down, addend=addend.contiguous()))
    again = [tensor.clone().requires_grad_() for tensor in (turned[0], turned[2], *w)]
    moe(again[0], turned[1], *again[1:]).sum().backward()
    flat.sum().backward()
    assert all(torch.equal(mine.grad, other.grad) for mine, other in zip(again, (x, weights, up, down)))


@pytest.mark.parametrize("tokens", [0, 1])
def test_few_tokens_and_experts_without_any(tokens):
    x, weights, up, down = tensors(tokens=tokens)
    ids = torch.full((tokens, K), -1)
    out = moe(x, ids, weights, up, down)
    out.sum().backward()
    assert out.shape == (tokens, HIDDEN) and not out.any()
    assert not any(tensor.grad.any() for tensor in (x, weights, up, down))
    layer = Experts(EXPERTS, HIDDEN, INNER, recipe="row")
    layer(normal(6, HIDDEN), torch.ones(6, 1, dtype=torch.int32), None).sum().backward()
    assert layer.up.grad[1].any() and not layer.up.grad[[0, 2, 3]].any()


def test_shared_experts_and_a_map():
    x, weights, up, down = tensors()
    ids, places = ids_of(), torch.tensor([2, -1, 0, 1], dtype=torch.int32)
    local = torch.where(ids >= 0, places[ids.clamp(min=0)], -1)
    out = moe(x, ids, weights, up, down, expert_map=places, shared=1)
    last = torch.full((TOKENS, 1), EXPERTS - 1)
    spelled = torch.cat([local, last], 1), torch.cat([weights, torch.ones(TOKENS, 1)], 1)
    expected = moe(x, *spelled, up, down)
    assert torch.equal(out, expected)
    first = torch.autograd.grad(out.sum(), (x, weights, up, down))
    assert same(first, torch.autograd.grad(expected.sum(), (x, weights, up, down)))


# --- quantized weights


@pytest.mark.parametrize("recipe", ["128x128", "row", "mxfp8", "mxfp4", "packed"])
def test_quantized_weights(recipe):
    x, weights, up, down = (tensor.detach() for tensor in tensors(torch.bfloat16))
    ids = ids_of()
    operands = [tw.quantize(w, "mxfp4" if recipe == "packed" else recipe) for w in (up, down)]
    if recipe == "packed":
        operands = [tw.pack_weights(w, "bf16") for w in operands]
    given = moe(x, ids, weights, *operands)
    assert torch.equal(given, tw.moe(x, *operands, experts=ids, weights=weights)) and given.any()
    with pytest.raises(ValueError, match=r"^x: got a tensor that requires a gradient; .*because the weights are quantized"):
        moe(x.requires_grad_(), ids, weights, *operands)


# --- modules


def layer_of(recipe="row", device="cpu", dtype=torch.float32, **options):
    torch.manual_seed(0)
    return Experts(EXPERTS, HIDDEN, INNER, recipe=recipe, device=device, dtype=dtype, **options)


def batch(step=0, device="cpu", dtype=torch.float32):
    """x, experts and weights."""
    return (
        normal(TOKENS, HIDDEN, seed=step, device=device, dtype=dtype),
        ids_of(seed=step, device=device),
        normal(TOKENS, K, seed=50 + step, device=device).sigmoid(),
    )


def training_step(layer, x, ids, weights, target=None, call=None):
    """The result, and the gradients of x, of the weights and of the parameters."""
    x, weights = x.detach().clone().requires_grad_(), weights.detach().clone().requires_grad_()
    for parameter in layer.parameters():
        parameter.grad = None
    y = (layer if call is None else call)(x, ids, weights)
    (y - (0 if target is None else target)).square().mean().backward()
    return [y.detach(), x.grad, weights.grad, *(parameter.grad for parameter in layer.parameters())]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("recipe", ["row", "1x128", "1x128:128x128"])
@pytest.mark.parametrize("keep", ["copy", "weight"])
def test_a_step_has_the_bits_of_public_calls(recipe, keep, device):
    layer = layer_of(recipe, device, keep=keep)
    ours, expected = (training_step(each, *batch(device=device)) for each in (layer, ExpertsOracle(layer)))
    # The oracle adds the dot products of weights in another order.
    torch.testing.assert_close(ours.pop(2), expected.pop(2), rtol=1e-5, atol=1e-7)
    assert same(ours, expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "form"), FORMS)
def test_every_optimizer_trains_it(name, form, device):
    """Parameters after a few steps are those of the oracle, bit for bit."""
    if name in MATRICES | OWN_LOOP or (form == "capturable" and device == "cpu"):
        pytest.skip("takes matrices or a closure, or is for a GPU")
    if (name, form, device) == ("Adagrad", "fused", "cuda"):
        pytest.skip("torch has no fused Adagrad on a GPU (2.11)")
    if device == "cpu" and form == "foreach":
        pytest.skip("for time: differs in nothing that a layer sees; on a GPU")
    ours = layer_of(device=device)
    oracle, begin = ExpertsOracle(ours), ours.up.detach().clone()
    for layer in (ours, oracle):
        optimizer = optimizer_of(name, form, list(layer.parameters()))
        for step in range(3):
            training_step(layer, *batch(step, device), target=normal(TOKENS, HIDDEN, seed=step + 100, device=device))
            optimizer.step()
    assert all(torch.equal(mine, other) for mine, other in zip(ours.parameters(), oracle.parameters(), strict=True))
    assert (ours.up - begin).abs().max() > 1e-4
    with torch.no_grad():
        assert torch.equal(ours(*batch(9, device)), oracle(*batch(9, device)))


def test_reuse_checkpoints_and_gradients_that_are_accumulated():
    layer, oracle, made = layer_of(), None, []
    oracle = ExpertsOracle(layer)
    for of, call in ((layer, lambda *given: checkpoint(layer, *given, use_reentrant=False)), (oracle, oracle)):
        optimizer, found = torch.optim.AdamW(of.parameters(), lr=0.02, fused=True), []
        for step in range(3):
            with reuse_weights():
                for part in range(2):
                    x, ids, weights = batch(2 * step + part)
                    loss = call(x.requires_grad_(), ids, weights).square().mean()
                    loss.backward()
                    found.append(loss.detach())
            optimizer.step()
            optimizer.zero_grad()
        made.append(found)
    assert same(*made)
    with pytest.raises(ValueError, match="^w: got a weight that was written"), reuse_weights():
        layer(*batch())
        with torch.no_grad():
            layer.down.mul_(2)
        layer(*batch())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("recipe", RECIPES)
def test_main_grad(recipe, dtype):
    layer = layer_of(recipe)
    _, _, _, up, down = training_step(layer, *batch())
    for weight, seed in ((layer.up, 11), (layer.down, 12)):
        weight.main_grad = normal(*weight.shape, seed=seed, dtype=dtype)
    before = layer.up.main_grad.double(), layer.down.main_grad.double()
    _, _, _, *zeros = training_step(layer, *batch())
    assert not any(gradient.any() for gradient in zeros)
    for weight, begin, added in zip((layer.up, layer.down), before, (up, down)):
        assert weight.grad_added_to_main_grad is True
        assert error(weight.main_grad, begin + added.double()) < (1e-6 if dtype == torch.float32 else 1.9e-3)
    layer.down.requires_grad_(False)
    kept = layer.down.main_grad.clone()
    layer(*batch()).sum().backward()
    assert torch.equal(layer.down.main_grad, kept)


def test_freezing():
    layer = layer_of("1x128")
    given = batch()
    with torch.no_grad():
        expected = layer(*given)
        layer.freeze()
        assert layer.is_frozen and torch.equal(layer(*given), expected)
        layer.down.mul_(2)
        assert torch.equal(layer(*given), expected), "the copy of before"
        layer.refresh()
        doubled = layer(*given)
        assert torch.equal(doubled, 2 * expected)
        for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert twin.is_frozen and torch.equal(twin(*given), doubled)
        state = {name: tensor / 2 if name == "down" else tensor for name, tensor in layer.state_dict().items()}
        assert set(state) == {"up", "down"}
        layer.load_state_dict(state)
        assert layer.is_frozen and torch.equal(layer(*given), expected)
    with pytest.raises(ValueError, match=r"^up: got a tensor that requires a gradient; .* the layer is frozen"):
        layer(*given)
    layer.freeze(check=True)
    with torch.no_grad():
        layer.up.mul_(2)
        with pytest.raises(ValueError, match="written after freeze"):
            layer(*given)
        layer.up = torch.nn.Parameter(layer.up.detach().clone())
    assert not layer.is_frozen
    layer(*given).sum().backward()


def test_devices_dtypes_and_words():
    layer = Experts(EXPERTS, HIDDEN, INNER, bias=True, activation="geglu", device="meta")
    assert {name: tuple(p.shape) for name, p in layer.named_parameters()} == {
        "up": (EXPERTS, 2 * INNER, HIDDEN),
        "down": (EXPERTS, HIDDEN, INNER),
        "up_bias": (EXPERTS, 2 * INNER),
        "down_bias": (EXPERTS, HIDDEN),
    }
    if _operators.AVAILABLE:
        on_meta = [tensor.to("meta") for tensor in batch()]
        y = layer(*on_meta)
        y.sum().backward()
        assert y.shape == (TOKENS, HIDDEN) and layer.up_bias.grad.shape == layer.up_bias.shape
    assert repr(Experts(2, 8, 4, recipe="fold")) == "Experts([2, 8, 4], recipe=fold, bias=False)"
    assert repr(Experts(2, 8, 4, activation="situ", keep="weight")) == "Experts([2, 8, 4], recipe=1x128, keep=weight, bias=False, activation=situ)"
    assert Experts(2, 8, 4, activation="relu_squared").up.shape == (2, 4, 8)
    layer = layer_of().to(torch.bfloat16)
    x, ids, weights = batch(dtype=torch.bfloat16)
    assert layer(x, ids, weights.bfloat16()).dtype == torch.bfloat16


@pytest.mark.skipif(not _operators.AVAILABLE, reason="needs torch 2.4 or newer")
@pytest.mark.parametrize("recipe", ["row", "tensor", "fold"])
def test_compiled_layers_have_the_bits_of_eager_ones(recipe):
    torch._dynamo.reset()
    layer = layer_of(recipe, gradient_format="e5m2", bias=recipe == "row", weights_at="input" if recipe == "tensor" else "combine")
    with_main_grad = recipe in ("row", "1x128")
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for step in range(2):
        made = []
        for call in (compiled, layer):
            if with_main_grad:
                layer.up.main_grad = torch.ones_like(layer.up)
            made.append([*training_step(layer, *batch(step), call=call), *([layer.up.main_grad] if with_main_grad else [])])
        assert same(*made)
        with torch.no_grad():
            layer.up.mul_(1.5)
    with torch.no_grad():
        assert torch.equal(compiled(*batch()), layer(*batch()))
        layer.freeze()
        frozen = torch.compile(layer, backend="aot_eager", fullgraph=True)
        assert torch.equal(frozen(*batch()), layer(*batch()))


@pytest.mark.skipif(not _operators.AVAILABLE, reason="needs torch 2.4 or newer")
def test_a_router_and_experts_are_one_graph():
    torch._dynamo.reset()
    router, layer = torch.nn.Linear(HIDDEN, EXPERTS), layer_of("1x128")

    def mixture(x):
        weights, ids = router(x).softmax(dim=-1).topk(K)
        return x + layer(x, ids, weights)

    compiled = torch.compile(mixture, backend="aot_eager", fullgraph=True)
    x, weights, up, down = (tensor.detach() for tensor in tensors())
    operands = [tw.quantize(w, "128x128") for w in (up, down)]

    def served(x, weights):
        return moe(x, ids_of(), weights, *operands)

    with torch.no_grad():
        assert torch.equal(torch.compile(served, backend="aot_eager")(x, weights), served(x, weights))
    made = []
    for call in (compiled, mixture):
        router.zero_grad()
        layer.zero_grad()
        y = call(normal(TOKENS, HIDDEN))
        y.square().sum().backward()
        made.append([y.detach(), router.weight.grad, layer.up.grad])
    assert same(*made)


@pytest.mark.skipif(not _operators.AVAILABLE, reason="needs torch 2.4 or newer")
@pytest.mark.parametrize("at", ["combine", "input"])
@pytest.mark.parametrize("recipe", ["row", "1x128", "fold"])
def test_the_operators_are_what_they_claim_to_be(recipe, at):
    x, weights, up, down = tensors()
    seen = []
    run = torch.ops.tilewright.moe

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function.name() in ("tilewright::moe", "tilewright::moe_gradients"):
                seen.append((function, args))
            return function(*args, **(kwargs or {}))

    with Watch():
        moe(x, ids_of(), weights, up, down, recipe=recipe, weights_at=at).sum().backward()
    assert len(seen) == 2 and run is not None
    for function, args in seen:
        args = [a.detach() if isinstance(a, torch.Tensor) else a for a in args]
        torch.library.opcheck(function, tuple(args), test_utils="test_faketensor")


# --- memory

SAVED = {"rows": 4 * TOKENS * K, "sources": 4 * TOKENS * K, "ends": 4 * EXPERTS, "weights of rows": 4 * TOKENS * K}


def kept_bytes(recipe, x_wants, up_wants, down_wants):
    """As docs/torch.md states them."""
    rows = TOKENS * K
    of_up, of_down = sum(kept_of_w(recipe, EXPERTS, 2 * INNER, HIDDEN)), sum(kept_of_w(recipe, EXPERTS, HIDDEN, INNER))
    wants_d_h = x_wants or up_wants
    return (
        sum(SAVED.values())
        + wants_d_h * 2 * rows * 2 * INNER  # gate_up
        + up_wants * sum(kept_of_x(recipe, EXPERTS, rows, HIDDEN))
        + down_wants * sum(kept_of_x(recipe, EXPERTS, rows, INNER))
        + x_wants * of_up
        + wants_d_h * of_down
    )


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("wants", [(True, True, True), (True, False, False), (False, True, True), (False, False, True)])
def test_bytes_that_are_kept(recipe, wants):
    """As docs/torch.md states them: what autograd saves, and all that torch's allocator gave and did not get back."""
    x, weights, up, down = tensors()
    ids, weights = ids_of(), weights.detach()
    for tensor, wanted in zip((x, up, down), wants):
        tensor.requires_grad_(wanted)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        moe(x, ids, weights, up, down, recipe=recipe)
    kept = [tensor for tensor in kept if tensor is not up and tensor is not down]
    expected = kept_bytes(recipe, *wants)
    assert sum(tensor.numel() * tensor.element_size() for tensor in kept) == expected
    if not all(wants):
        return
    gc.collect()
    with torch.autograd.profiler.profile(profile_memory=True, use_kineto=False) as seen:
        y = moe(x, ids, weights, up, down, recipe=recipe)
        gc.collect()
    field = "self_cpu_memory_usage" if hasattr(seen.function_events[0], "self_cpu_memory_usage") else "cpu_memory_usage"
    assert sum(getattr(event, field) for event in seen.function_events) == y.numel() * y.element_size() + expected


# --- misuse


def refusal(*given, **options):
    with pytest.raises(ValueError) as caught:
        moe(*given, **options)
    return str(caught.value)


def test_misuse_names_the_argument():
    x, weights, up, down = tensors()
    ids = ids_of()
    good = (x, ids, weights, up, down)

    def with_one(i, value, **options):
        return refusal(*(value if i == j else tensor for j, tensor in enumerate(good)), **options)

    assert with_one(0, x[:, :9]) == "x: got [40, 9]; expected [..., 64], because up has 64 columns."
    assert with_one(0, x.long()).startswith("x: got torch.int64; expected")
    assert with_one(1, ids.float()) == "experts: got torch.float32; expected a tensor of int32 or int64."
    assert with_one(1, ids[:3]) == "experts: got [3, 2]; expected [40, choices], because x is [40, 64]."
    assert with_one(2, weights[:, :1]) == "weights: got [40, 1]; expected [40, 2], as experts."
    assert with_one(3, up[0]).startswith("up: got [192, 64]; expected [experts, 2 * inner, hidden]")
    assert with_one(3, up[:, 1:]) == "up: got [4, 191, 64]; expected an even number of rows: gates and ups."
    assert with_one(4, down[:, :, 1:]) == "down: got [4, 64, 95]; expected [4, 64, 96], because up is [4, 192, 64]."
    assert with_one(4, down.half()).startswith("down: got torch.float16; expected")
    assert with_one(4, tw.quantize(down.detach(), "row")).startswith("down: got Quantized; expected")
    assert with_one(0, x.to("meta")) == "x: got a tensor on meta; expected one on cpu, the device of up."
    assert refusal(*good, recipe="mxfp8").startswith("recipe: got 'mxfp8'; expected one of row")
    assert refusal(*good, activation="gelu").startswith("activation: got 'gelu'; expected one of swiglu")
    assert refusal(*good, weights_at="up").startswith("weights_at: got 'up'; expected one of combine")
    assert refusal(*good, up_bias=up[0]).startswith("up_bias: got [192, 64] on cpu; expected [4, 192]")
    assert refusal(*good, addend=x[:1]).startswith("addend: got [1, 64] on cpu; expected [40, 64]")
    assert refusal(*good, expert_map=ids[0]).startswith("expert_map: got torch.int64 [2]; expected a tensor of int32")
    assert refusal(*good, shared=5) == "shared: got 5; expected 0 to 4, the experts of up."
    assert refusal(*good, up_main_grad=down).startswith("up_main_grad: got torch.float32 [4, 64, 96] on cpu; expected")
    assert refusal(*good, activations="row").startswith("activations: got 'row'; expected None with master weights.")
    assert refusal(*good, keep="all").startswith("keep: got 'all'")
    assert with_one(0, x.detach().numpy()) == "x: got ndarray; expected a tensor of float32, bfloat16 or float16."
    assert with_one(3, up.detach().numpy()).startswith("up: got ndarray; expected a tensor of float32")
    assert refusal(*good, down_main_grad=[0]) == "down_main_grad: got list; expected a tensor like its weight."
    assert refusal(*good, expert_map=ids.int()).startswith("expert_map: got torch.int32 [40, 2]; expected a tensor of int32 [gl")


@pytest.mark.parametrize(
    "other, text",
    [
        ({"num_experts": 0}, "num_experts: got 0; expected an integer of at least 1."),
        ({"hidden": 8.0}, "hidden: got 8.0; expected an integer of at least 1."),
        ({"inner": None}, "inner: got None; expected an integer of at least 1."),
        ({"dtype": torch.float16}, "dtype: got torch.float16; expected torch.float32 or torch.bfloat16."),
        ({"shared": 3}, "shared: got 3; expected 0 to 2, the experts of up."),
        ({"activation": "gelu"}, "activation: got 'gelu'; expected one of swiglu, situ, geglu, relu_squared."),
        ({"weights_at": "sum"}, "weights_at: got 'sum'; expected one of combine, activation, input."),
        ({"alpha": "1"}, "alpha: got '1'; expected a number."),
        ({"limit": -1}, "limit: got -1.0; expected 0 or more, or infinity for no limit."),
        ({"limit": math.nan}, "limit: got nan; expected 0 or more, or infinity for no limit."),
        ({"activation": "situ", "up_bound": 0}, "up_bound: got 0.0; expected a positive number."),
    ],
)
def test_a_wrong_module_is_not_made(other, text):
    with pytest.raises(ValueError) as caught:
        Experts(**{"num_experts": 2, "hidden": 8, "inner": 4, **other})
    assert str(caught.value) == text


@pytest.mark.parametrize("recipe", RECIPES)
def test_explain_takes_the_arguments_of_the_call(recipe):
    """Master weights are explained as their quantized copies, whatever the dimensions of x."""
    x, weights, up, down = tensors()
    call = {"activation": "geglu", "weights_at": "activation", "shared": 1, "keep": "weight", "up_main_grad": None}
    found = explain_moe(x, ids_of(), weights, up, down, recipe=recipe, **call)
    sides = RECIPES[recipe]
    quantized = [tw.quantize(w.detach(), sides.weights) for w in (up, down)]
    own = {"experts": ids_of(), "weights": weights.detach(), "activations": sides.activations, "activation": "geglu",
           "weights_at": "activation", "shared": 1}  # fmt: skip
    assert str(found) == str(tw.explain_moe(x.detach(), *quantized, **own))
    parts = (x.view(4, -1, HIDDEN), ids_of().view(4, -1, K), weights.view(4, -1, K))
    assert str(explain_moe(*parts, up, down, recipe=recipe, **call)) == str(found)
    assert x.grad is None and found.ranks == 1 and found.engine == found.exchange == found.combine == ""


def test_explain_of_quantized_weights_and_of_another_device():
    x, weights, up, down = tensors(dtype=torch.bfloat16)
    packed = [tw.pack_weights(tw.quantize(w.detach(), "mxfp4"), "fp8") for w in (up, down)]
    found = [explain_moe(x.detach(), ids_of(), weights.detach(), *packed, activations=side) for side in (None, "1x128")]
    assert str(found[0]) == str(found[1]) and found[0].launches == len(found[0].steps) == 5
    with tw.options(planned_device="h20"):
        assert explain_moe(x, ids_of(), weights, up, down).device == "h20"


@pytest.mark.parametrize(
    "other, text",
    [
        ({"experts": torch.zeros(3, K).int()}, "experts: got"),
        ({"recipe": "128"}, "recipe: got"),
        ({"alpha": "1"}, "alpha: got"),
        ({"group": 1}, "group: got int; expected an ExpertGroup or None"),
        ({"weights_at": "up"}, "weights_at: got"),
    ],
)
def test_explain_refuses_what_the_call_refuses(other, text):
    x, weights, up, down = tensors()
    given = {"x": x, "experts": ids_of(), "weights": weights, "up": up, "down": down, **other}
    for function in (moe, explain_moe):
        with pytest.raises(ValueError, match=text):
            function(**given)
    with pytest.raises(TypeError, match="topk"):
        explain_moe(x, ids_of(), weights, up, down, topk=2)


def test_second_derivatives_and_batches_are_refused():
    x, weights, up, down = tensors()
    y = moe(x, ids_of(), weights, up, down)
    with pytest.raises(RuntimeError, match="got a second derivative"):
        torch.autograd.grad(y.sum(), x, create_graph=True)
    if _operators.AVAILABLE:
        with pytest.raises(ValueError, match="^x: got a tensor of torch.func"):
            torch.func.grad(lambda given: moe(given, ids_of(), weights, up, down).sum())(x.detach())
