"""Training with tilewright.torch follows the weights in memory, whoever writes them: bit for bit what the oracle of torch_oracle.py does."""

import copy
import inspect

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install torch")

from tilewright.torch import RECIPES, reuse_weights  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch_layers import DEVICES, normal, one_thread  # noqa: E402, F401
from torch_oracle import layers_of  # noqa: E402

STEPS, TOKENS, K, N = 20, 40, 64, 96

# torch.optim has all others too: a new one is tried without being named here.
NOT_FOR_A_DENSE_GRADIENT = {"Optimizer", "SparseAdam"}
OWN_LOOP = {"LBFGS"}  # takes a closure
MATRICES = {"Muon"}  # takes parameters of two dimensions
RATES = {"ASGD": 0.5, "Adadelta": 1.0, "SGD": 0.5, "Adafactor": 0.05}
NAMES = sorted(name for name in dir(torch.optim) if isinstance(getattr(torch.optim, name), type))
FORMS = [
    (name, form)
    for name in NAMES
    if name not in NOT_FOR_A_DENSE_GRADIENT | OWN_LOOP
    for form in ("foreach", "fused", "capturable", None)
    if form is None or form in inspect.signature(getattr(torch.optim, name)).parameters
]


def test_every_optimizer_is_tried():
    assert {"Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD",
            "LBFGS"} <= set(NAMES)  # fmt: skip
    assert {name for name, form in FORMS if form == "fused"} >= {"Adam", "AdamW", "SGD", "Adagrad"}
    assert {name for name, form in FORMS if form == "foreach"} == {name for name, form in FORMS} - MATRICES


def optimizer_of(name, form, parameters):
    options = {"lr": RATES.get(name, 0.02)}
    if name in OWN_LOOP:
        options["max_iter"] = 4
    if form is not None:
        options[form] = True
    elif any(given == (name, "foreach") for given in FORMS):
        options["foreach"] = False
    return getattr(torch.optim, name)(parameters, **options)


def batches(grouped, dtype, device, count=STEPS):
    """x, what Y should be, and ends, which change from step to step."""
    for step in range(count):
        x = normal(TOKENS, K, seed=step, dtype=dtype, device=device)
        ends = [torch.tensor([step, TOKENS], device=device)] * grouped
        yield x, normal(TOKENS, N, seed=100 + step, dtype=dtype, device=device), ends


def loss_of(layer, x, target, ends):
    return (layer(x, *ends) - target).square().mean()


def trained(layer, optimizer, data, after=lambda: None):
    """The losses. x wants a gradient, as that of a layer inside of a model does."""
    losses, gradients = [], []
    for x, target, ends in data:
        x = x.clone().requires_grad_()

        def closure():
            optimizer.zero_grad()
            loss = loss_of(layer, x, target, ends)
            loss.backward()
            return loss

        losses.append(optimizer.step(closure) if type(optimizer).__name__ in OWN_LOOP else closure())
        if type(optimizer).__name__ not in OWN_LOOP:
            optimizer.step()
        gradients.append(x.grad)
        after()
    return [loss.detach() for loss in losses] + gradients


def check_equal(ours, oracle, made, expected, x, ends):
    assert all(torch.equal(mine, other) and mine.isfinite().all() for mine, other in zip(made, expected, strict=True))
    assert all(torch.equal(mine, other) for mine, other in zip(ours.parameters(), oracle.parameters(), strict=True))
    with torch.no_grad():
        assert torch.equal(ours(x, *ends), oracle(x, *ends))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(("name", "form"), [*FORMS, *((name, None) for name in OWN_LOOP)])
def test_twenty_steps(name, form, grouped, device):
    """Dense layers in float32, groups in bfloat16."""
    if name in MATRICES and grouped:
        pytest.skip(f"{name} takes matrices")
    if form == "capturable" and device == "cpu":
        pytest.skip("capturable: on a GPU")
    if (name, form, device) == ("Adagrad", "fused", "cuda"):
        pytest.skip("torch has no fused Adagrad on a GPU (2.11)")
    if device == "cpu" and grouped == (form == "foreach") and form != "fused" and name not in OWN_LOOP | MATRICES:
        pytest.skip("for time: the forms that torch writes in Python differ in nothing that a layer sees; both on a GPU")
    # torch's fused SGD on a CPU does not move weights of bfloat16 (2.11).
    narrow = grouped and name not in OWN_LOOP and (name, form, device) != ("SGD", "fused", "cpu")
    dtype = torch.bfloat16 if narrow else torch.float32
    ours, oracle = layers_of(grouped, dtype=dtype, device=device)
    begin = ours.weight.detach().clone()
    made = []
    for layer in (ours, oracle):
        parameters = [layer.weight] if name in MATRICES else list(layer.parameters())
        data = batches(grouped, dtype, device)
        made.append(trained(layer, optimizer_of(name, form, parameters), data))
    x, _, ends = next(iter(batches(grouped, dtype, device)))
    check_equal(ours, oracle, *made, x, ends)
    assert (ours.weight - begin).abs().max() > 0.01


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("keep", ["copy", "weight"])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("grouped", [False, True])
def test_every_recipe_follows_a_fused_optimizer(grouped, recipe, keep, device):
    ours, oracle = layers_of(grouped, recipe, device=device, keep=keep)
    made = []
    for layer in (ours, oracle):
        data = batches(grouped, torch.float32, device, 6)
        made.append(trained(layer, optimizer_of("AdamW", "fused", layer.parameters()), data))
    x, _, ends = next(iter(batches(grouped, torch.float32, device)))
    check_equal(ours, oracle, *made, x, ends)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("fused", [False, True])
def test_parameters_that_are_views_of_one_flat_buffer(fused, device):
    """As Megatron-LM's distributed optimizer has them: it steps on the buffer, or on another one that it copies over."""
    made, layers = [], layers_of(False, device=device)
    for layer in layers:
        shapes = [parameter.shape for parameter in layer.parameters()]
        sizes = [shape.numel() for shape in shapes]
        flat = torch.cat([parameter.detach().flatten() for parameter in layer.parameters()])
        for parameter, part, shape in zip(layer.parameters(), flat.split(sizes), shapes):
            parameter.data = part.view(shape)
        main = torch.nn.Parameter(flat if fused else flat.clone())
        optimizer = torch.optim.AdamW([main], lr=0.02, fused=fused)
        found = []
        for x, target, ends in batches(False, torch.float32, device):
            loss = loss_of(layer, x, target, ends)
            main.grad = torch.cat([g.flatten() for g in torch.autograd.grad(loss, layer.parameters())])
            optimizer.step()
            flat.data.copy_(main.data)
            found.append(loss.detach())
        made.append(found)
    check_equal(*layers, *made, normal(TOKENS, K, seed=7, device=device), [])
    assert made[0][-1] < made[0][0]


def averaged(layer, how):
    """Exponential means in the place of the weights: to judge by them, and then to go on training."""
    mean = [0.5 * parameter.detach() for parameter in layer.parameters()]
    own = [parameter.detach().clone() for parameter in layer.parameters()]
    addresses = [parameter.data for parameter in layer.parameters()]

    def put(values):
        with torch.no_grad():
            for parameter, value in zip(layer.parameters(), values):
                if how == "data.copy_":
                    parameter.data.copy_(value)
                elif how == "data":
                    parameter.data = value.clone()
                elif how == "copy_":
                    parameter.copy_(value)
                elif how == "foreach":
                    torch._foreach_copy_([parameter.data], [value])
                elif how == "set_":
                    parameter.set_(value.clone())
                else:
                    torch.utils.swap_tensors(parameter, torch.nn.Parameter(value.clone()))

    x = normal(TOKENS, K, seed=9)
    with torch.no_grad():
        results = [layer(x)]
        for values in (mean, own):
            put(values)
            results.append(layer(x))
    assert torch.equal(results[0], results[2]) and not torch.equal(results[0], results[1]) and addresses
    return results


@pytest.mark.parametrize("how", ["data.copy_", "data", "copy_", "foreach", "set_", "swap_tensors"])
def test_means_of_weights_are_swapped_in_and_out(how):
    ours, oracle = layers_of(False)
    assert all(map(torch.equal, averaged(ours, how), averaged(oracle, how)))


@pytest.mark.parametrize("of", ["swa", "ema"])
def test_averaged_models(of):
    """torch's own, which is copied and written in place."""
    found, layers = [], layers_of(False)
    for layer in layers:
        average = torch.optim.swa_utils.get_ema_multi_avg_fn(0.5) if of == "ema" else torch.optim.swa_utils.get_swa_multi_avg_fn()
        model = torch.optim.swa_utils.AveragedModel(layer, multi_avg_fn=average)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.5, foreach=True)
        seen = []

        def judge(model=model, layer=layer, seen=seen):
            model.update_parameters(layer)
            with torch.no_grad():
                seen.append(model(normal(TOKENS, K, seed=9)))

        trained(layer, optimizer, batches(False, torch.float32, "cpu", 4), judge)
        found.append(seen)
    assert all(map(torch.equal, *found)) and not torch.equal(found[0][0], found[0][-1])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("reuses", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_activation_checkpointing_and_gradient_accumulation(grouped, reuses, reentrant, device):
    """Backward computes forward again; three microbatches a step, with copies of weights that serve them all, or not."""
    layers, made = layers_of(grouped, device=device), []
    for layer, call in zip(layers, (lambda *given: checkpoint(layers[0], *given, use_reentrant=reentrant), layers[1])):
        optimizer, found = torch.optim.AdamW(layer.parameters(), lr=0.02, fused=True), []
        data = list(batches(grouped, torch.float32, device, 12))
        for step in range(4):
            with reuse_weights() if reuses else torch.enable_grad():
                for x, target, ends in data[3 * step : 3 * step + 3]:
                    loss = loss_of(call, x.requires_grad_(), target, ends)
                    loss.backward()
                    found.append(loss.detach())
            optimizer.step()
            optimizer.zero_grad()
        made.append(found)
    check_equal(*layers, *made, normal(TOKENS, K, seed=7, device=device), [torch.tensor([4, TOKENS], device=device)] * grouped)


@pytest.mark.parametrize("grouped", [False, True])
def test_microbatches_in_flight_with_a_step_between(grouped):
    """Forward, forward, backward, step, backward: the second backward has the weights of its forward, as the fp8 copy says."""
    layers, made = layers_of(grouped), []
    for layer in layers:
        optimizer, found = torch.optim.SGD(layer.parameters(), lr=0.5, fused=True), []
        for (x, target, ends), (other, goal, _) in zip(batches(grouped, torch.float32, "cpu", 4), batches(False, torch.float32, "cpu", 4)):
            given = [x.requires_grad_(), other.requires_grad_()]
            losses = [loss_of(layer, given[0], target, ends), loss_of(layer, given[1], goal, ends)]
            for loss in losses:
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            found += [x.grad, other.grad, *(loss.detach() for loss in losses)]
        made.append(found)
    check_equal(*layers, *made, normal(TOKENS, K, seed=7), [torch.tensor([4, TOKENS])] * grouped)


def test_tied_weights():
    """Two layers, one parameter: the gradients of both reach it."""
    layers, made = layers_of(False, k=N, n=N), []
    for layer in layers:
        twin = copy.deepcopy(layer)
        twin.weight = layer.weight
        model = torch.nn.Sequential(layer, torch.nn.SiLU(), twin)
        assert len(list(model.parameters())) == 3
        optimizer, found = torch.optim.AdamW(model.parameters(), lr=0.02, fused=True), []
        for step in range(4):
            x = normal(TOKENS, N, seed=step).requires_grad_()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found += [loss.detach(), x.grad]
        made.append(found)
    check_equal(*layers, *made, normal(TOKENS, N, seed=7), [])
