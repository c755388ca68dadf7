"""tilewright.torch under FSDP2, on the CPU with gloo: weights that are freed and gathered again, uncounted, between any two uses."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch 2.6 or newer: pip install torch")
from tilewright.torch import _operators  # noqa: E402

if not _operators.AVAILABLE or not torch.distributed.is_available():
    pytest.skip(f"needs torch 2.6 or newer, with torch.distributed; this is {torch.__version__}", allow_module_level=True)
fsdp = pytest.importorskip("torch.distributed.fsdp")
if not hasattr(fsdp, "fully_shard"):
    pytest.skip(f"needs torch 2.6 or newer; this is {torch.__version__}", allow_module_level=True)

import torch.distributed as dist  # noqa: E402
from tilewright.torch import RECIPES, Experts, GroupedLinear, Linear, _reuse, linear, reuse_weights  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: E402
from torch_layers import end_process, normal, one_thread  # noqa: E402, F401

WIDTH, TOKENS, STEPS = 128, 140, 3


class Block(nn.Module):
    """A dense layer and experts, as a model has them."""

    def __init__(self, recipe):
        super().__init__()
        self.dense = Linear(WIDTH, WIDTH, recipe=recipe)
        self.experts = GroupedLinear(2, WIDTH, WIDTH, bias=True, recipe=recipe)

    def forward(self, x):
        return x + self.experts(nn.functional.silu(self.dense(x)), torch.tensor([20, TOKENS]))


def model_of(recipe):
    torch.manual_seed(0)
    return nn.Sequential(Block(recipe), Block(recipe))


def sharded(recipe, **options):
    model = model_of(recipe)
    for block in model:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def losses(model, rank, kept=None):
    """The results of each step of SGD, each with other tokens."""
    optimizer, found, kept = torch.optim.SGD(model.parameters(), lr=0.5), [], [] if kept is None else kept
    for step in range(STEPS):
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
            loss = model(normal(TOKENS, WIDTH, seed=10 * step + rank)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


@pytest.fixture
def one_process(tmp_path):
    dist.init_process_group("gloo", rank=0, world_size=1, init_method=f"file://{tmp_path}/rendezvous")
    yield dist.device_mesh.init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


@pytest.mark.parametrize("reshard", [True, False])
@pytest.mark.parametrize("recipe", RECIPES)
def test_training_is_what_it_is_without_fsdp(one_process, recipe, reshard):
    whole, model = model_of(recipe), sharded(recipe, mesh=one_process, reshard_after_forward=reshard)
    assert losses(model, 0) == losses(whole, 0)
    for ours, theirs in zip(model.parameters(), whole.parameters()):
        assert torch.equal(ours.full_tensor(), theirs)


class Mixture(nn.Module):
    """A router and its experts."""

    def __init__(self, recipe):
        super().__init__()
        self.router, self.experts = nn.Linear(WIDTH, 3), Experts(3, WIDTH, WIDTH, recipe=recipe)

    def forward(self, x):
        weights, chosen = self.router(x).softmax(dim=-1).topk(2)
        return x + self.experts(x, chosen, weights)


@pytest.mark.parametrize("recipe", ["row", "1x128", "fold"])
def test_experts_train_as_they_do_without_fsdp(one_process, recipe):
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(nn.Sequential(Mixture(recipe), Mixture(recipe)))
    kept, shapes = [], {parameter.shape for parameter in models[0][0].experts.parameters()}
    for block in models[0]:
        fully_shard(block, mesh=one_process)
    assert losses(fully_shard(models[0], mesh=one_process), 0, kept) == losses(models[1], 0)
    assert kept and not shapes.intersection(tensor.shape for tensor in kept if tensor.dtype == torch.float8_e4m3fn)
    for ours, theirs in zip(models[0].parameters(), models[1].parameters()):
        assert torch.equal(ours.full_tensor(), theirs)


def test_a_context_of_reuse_keeps_nothing_of_shards(one_process):
    """Each step in one: weights are freed and gathered inside, and written between two."""
    model, whole = sharded("row", mesh=one_process), model_of("row")
    found = []
    for of in (model, whole):
        optimizer = torch.optim.AdamW(of.parameters(), lr=0.02, fused=True)
        for step in range(STEPS):
            with reuse_weights():
                for seed in range(2):
                    loss = of(normal(TOKENS, WIDTH, seed=10 * step + seed)).square().mean()
                    loss.backward()
                    found.append(loss.item())
                entries = [len(store._entries) for store in _reuse._STORES.get()]
                assert entries == [0 if of is model else 4]
            optimizer.step()
            optimizer.zero_grad()
    assert found[: 2 * STEPS] == found[2 * STEPS :]


def test_nothing_of_a_weight_is_held_between_forward_and_backward(one_process):
    model, kept = sharded("row", mesh=one_process), []
    losses(model, 0, kept)
    layers = [module for module in model.modules() if isinstance(module, Linear | GroupedLinear)]
    shapes = {layer.weight.shape for layer in layers}
    codes = [tensor.shape for tensor in kept if tensor.dtype == torch.float8_e4m3fn]
    assert codes and not shapes.intersection(codes)


def test_bf16_parameters_of_a_policy(one_process):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    found = losses(sharded("1x128", mesh=one_process, mp_policy=policy), 0)
    assert found == pytest.approx(losses(model_of("1x128"), 0), rel=0.03)


def test_blocks_that_are_compiled(one_process):
    model = model_of("1x128")
    for block in model:
        block.compile(backend="aot_eager", fullgraph=True)
        fully_shard(block, mesh=one_process)
    assert losses(fully_shard(model, mesh=one_process), 0) == losses(model_of("1x128"), 0)


def test_a_weight_outside_of_its_module(one_process):
    layer = fully_shard(Linear(WIDTH, WIDTH), mesh=one_process)
    x = normal(TOKENS, WIDTH)
    with pytest.raises(ValueError, match=r"^w: got a sharded DTensor \[128, 128\]; expected a full local tensor\. Call the FSDP-wrapped"):
        linear(x, layer.weight)
    layer.unshard()
    whole = layer.weight
    expected = linear(x, whole)
    layer.reshard()
    with pytest.raises(ValueError, match=r"^w: got a tensor \[128, 128\] whose storage was freed; expected a tensor with memory\. FSDP"):
        linear(x, whole)
    assert torch.equal(linear(x, layer.weight.full_tensor()), expected)


def train_in_a_process(rank, rendezvous, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2, init_method=f"file://{rendezvous}")
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    model = sharded("1x128", mesh=mesh)
    losses(model, rank)
    whole = [parameter.full_tensor() for parameter in model.parameters()]
    if rank == 0:
        torch.save(whole, results)
    end_process()


def test_two_processes(tmp_path):
    """Each with its own tokens: the mean of their gradients."""
    torch.multiprocessing.spawn(train_in_a_process, (str(tmp_path / "rendezvous"), str(tmp_path / "results")), 2)
    whole = model_of("1x128")
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.5)
    for step in range(STEPS):
        for rank in range(2):
            (whole(normal(TOKENS, WIDTH, seed=10 * step + rank)).square().mean() / 2).backward()
        optimizer.step()
        optimizer.zero_grad()
    for ours, theirs in zip(torch.load(tmp_path / "results"), whole.parameters()):
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-3, atol=1e-4)
