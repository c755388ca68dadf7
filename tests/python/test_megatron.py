"""`tilewright.integrations.megatron` in Megatron-core itself: results, gradients and checkpoints of SequentialMLP, on the CPU with gloo."""

import dataclasses
import multiprocessing.dummy
import sys
import types
import warnings

import pytest

torch = pytest.importorskip("torch", reason="needs torch: tools/setup torch=yes, or pip install torch")

if sys.version_info >= (3, 14):
    pytest.skip("Megatron-core 0.16.1 has no wheel for Python 3.14", allow_module_level=True)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of Transformer Engine and Apex, which are not installed
    import megatron.core.jit

    megatron.core.jit.disable_jit_fuser()  # before the units are imported: to compile one takes longer than all tests
    import megatron.core.models.gpt.gpt_layer_specs  # noqa: F401

from megatron.core import dist_checkpointing, parallel_state  # noqa: E402
from megatron.core.activations import fast_gelu, quick_gelu, squared_relu  # noqa: E402
from megatron.core.dist_checkpointing import ShardedTensor  # noqa: E402
from megatron.core.dist_checkpointing.mapping import ShardedObject, apply_factories, apply_factory_merges  # noqa: E402
from megatron.core.dist_checkpointing.strategies import filesystem_async  # noqa: E402
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.tensor_parallel import (  # noqa: E402
    ColumnParallelLinear,
    RowParallelLinear,
    param_is_not_tensor_parallel_duplicate,
)
from megatron.core.transformer.mlp import MLPSubmodules  # noqa: E402
from megatron.core.transformer.moe import moe_utils  # noqa: E402
from megatron.core.transformer.moe.experts import SequentialMLP  # noqa: E402
from megatron.core.transformer.spec_utils import build_module  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402
from tilewright.integrations import _fit  # noqa: E402
from tilewright.integrations import megatron as door  # noqa: E402
from tilewright.torch import RECIPES  # noqa: E402
from torch.nn.functional import gelu, silu  # noqa: E402
from torch_layers import DEVICES, error, normal, one_thread  # noqa: E402, F401

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecat|mandatory soon).*")  # within Megatron-core

HIDDEN, INNER, EXPERTS = 64, 96, 4
SIZES = (17, 0, 130, 1)
UNITS = {
    "swiglu": {"activation_func": silu},
    "clamped": {"activation_func": silu, "activation_func_clamp_value": 1.5},
    "gpt-oss": {"activation_func": quick_gelu, "glu_linear_offset": 1.0, "activation_func_clamp_value": 1.5, "add_bias_linear": True},
    "geglu": {"activation_func": fast_gelu},
    "squared relu": {"activation_func": squared_relu, "gated_linear_unit": False, "add_bias_linear": True},
    "probs on input": {"activation_func": silu, "moe_apply_probs_on_input": True, "moe_router_topk": 1, "moe_router_pre_softmax": True},
}


@pytest.fixture(scope="module", autouse=True)
def one_process():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    yield
    parallel_state.destroy_model_parallel()
    torch.distributed.destroy_process_group()


@pytest.fixture
def no_gpu(monkeypatch):
    """Megatron-core's router and checkpoints ask for the present GPU, also where all tensors are on the CPU.

    Version 0.16.1 also takes packages for granted: Transformer Engine in the router, and psutil in the process that writes a
    checkpoint. Without psutil that process dies, and the first one waits for it forever. Here a thread writes. Where there is a GPU,
    torch.compile would look for the device that is named here.
    """
    monkeypatch.setattr(torch.cuda, "current_device", lambda: "cpu")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    monkeypatch.setattr(moe_utils, "te_general_gemm", None, raising=False)
    monkeypatch.setattr(filesystem_async, "_process_memory", lambda: 0)
    monkeypatch.setattr(filesystem_async.mp, "get_context", lambda _: multiprocessing.dummy)
    with torch.compiler.set_stance("force_eager"):
        yield


class Group:
    """A group of processes of which only this one exists."""

    def __init__(self, rank=0, size=1):
        self.rank, self.size = (lambda: rank), (lambda: size)


def config_of(**options):
    usual = {"add_bias_linear": False, "gated_linear_unit": True, "activation_func": silu, "use_cpu_initialization": True}
    sizes = {"num_layers": 1, "hidden_size": HIDDEN, "num_attention_heads": 4, "num_moe_experts": EXPERTS, "moe_ffn_hidden_size": INNER}
    config = TransformerConfig(**usual | sizes | {"moe_router_topk": 2} | options)
    if config.add_bias_linear:  # without expert parallelism, SequentialMLP's sum in place with a bias has no gradient in torch 2.11
        config.expert_model_parallel_size = 2
    return config


def groups_of(rank=0, ranks=1):
    return types.SimpleNamespace(ep=Group(rank, ranks), expt_tp=torch.distributed.group.WORLD, expt_dp=Group(), tp=Group())


def pair_of(config, groups=None, **options):
    """SequentialMLP and ours, with the same numbers; biases of all of them."""
    groups = groups or groups_of()
    local = EXPERTS // groups.ep.size()
    torch.manual_seed(groups.ep.rank())
    linear = MLPSubmodules(linear_fc1=ColumnParallelLinear, linear_fc2=RowParallelLinear)
    theirs = SequentialMLP(local, dataclasses.replace(config, gradient_accumulation_fusion=False), linear, pg_collection=groups)
    ours = build_module(door.experts(**options), local, config, pg_collection=groups)
    for seed, parameter in enumerate(theirs.parameters()):
        parameter.data = normal(*parameter.shape, seed=seed, dtype=parameter.dtype) / 8
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def rows_of(sizes=SIZES, dtype=torch.float32, device="cpu"):
    rows, where = sum(sizes), {"dtype": dtype, "device": device}
    given = [normal(rows, HIDDEN, seed=1, **where), normal(rows, seed=2, device=device).sigmoid()]
    return given, torch.tensor(sizes), normal(rows, HIDDEN, seed=3, **where)


def made_by(module, sizes=SIZES, dtype=torch.float32, device="cpu", counts_at="cpu"):
    """The result and the gradients of the rows, their weights, and the parameters of each product, stacked."""
    (x, probs), counts, d_out = rows_of(sizes, dtype, device)
    module.to(device)
    x.requires_grad_(), probs.requires_grad_()
    out, bias = module(x, counts.to(counts_at), probs)
    assert bias is None and out.dtype == dtype
    out.backward(d_out)
    found = {"out": out.detach(), "x": x.grad, "probs": probs.grad}
    for name in ("linear_fc1.weight", "linear_fc1.bias", "linear_fc2.weight", "linear_fc2.bias"):
        of_name = [p.grad for key, p in module.named_parameters() if key.endswith(name)]
        if of_name:
            found[name] = of_name[0] if of_name[0].dim() == name.count("weight") + 2 else torch.stack(of_name)
    return found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("unit", UNITS)
def test_results_and_gradients_are_near_those_of_sequential_mlp(unit, dtype, device):
    """e4m3 rounds by 2.7 % in the mean; each number has two to four such operands in a row. Near a limit a gradient is zero or not."""
    theirs, ours = pair_of(config_of(params_dtype=dtype, **UNITS[unit]))
    wanted, made = made_by(theirs, dtype=dtype), made_by(ours, dtype=dtype, device=device)
    assert made.keys() == wanted.keys()
    errors = {name: error(made[name], wanted[name].double()) for name in made}
    bound = 0.17 if "activation_func_clamp_value" in UNITS[unit] else 0.11
    assert errors["out"] < 0.09 and all(value < bound for value in errors.values()), errors
    assert all(not made[name][1].any() for name in made if name.startswith("linear")), "expert 1 has no rows"


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe(recipe):
    theirs, ours = pair_of(config_of(), recipe=recipe)
    wanted, made = made_by(theirs), made_by(ours)
    assert all(error(made[name], wanted[name].double()) < 0.1 for name in made)


@pytest.mark.parametrize("device", DEVICES)
def test_numbers_of_rows_on_the_host_or_the_device(device):
    """Megatron-LM's dispatchers have them on either."""
    _, ours = pair_of(config_of())
    on_host, on_device = (made_by(ours, device=device, counts_at=where) for where in ("cpu", device))
    assert all(torch.equal(on_host[name], on_device[name]) for name in ("out", "x", "probs"))


@pytest.mark.parametrize("sizes", [(0, 0, 0, 0), (0, 0, 0, 5), (9, 0, 0, 0), (3, 128, 0, 129)])
def test_experts_without_rows(sizes):
    """Their weights have gradients, zeros, because Megatron-LM's hooks wait for those of all parameters."""
    theirs, ours = pair_of(config_of())
    wanted, made = made_by(theirs, sizes), made_by(ours, sizes)
    assert all(made[name].shape == wanted[name].shape and error(made[name], wanted[name].double()) < 0.11 for name in made)


def test_rows_of_no_expert_are_zeros():
    """A dispatcher of a fixed capacity has rows after those of the last expert."""
    _, ours = pair_of(config_of())
    (x, probs), counts, _ = rows_of()
    more = ours(torch.cat([x, normal(9, HIDDEN)]), counts, torch.cat([probs, normal(9)]))[0]
    assert torch.equal(more[: len(x)], ours(x, counts, probs)[0]) and not more[len(x) :].any()


def test_weights_of_rows_in_float64():
    _, ours = pair_of(config_of())
    (x, probs), counts, _ = rows_of()
    assert torch.equal(ours(x, counts, probs.double())[0], ours(x, counts, probs)[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_are_added_to_main_grad(dtype):
    """With gradient_accumulation_fusion only, in which case Megatron-LM's hooks add nothing."""
    _, alone = pair_of(config_of(add_bias_linear=True))
    expected = made_by(alone)
    _, ours = pair_of(config_of(add_bias_linear=True, gradient_accumulation_fusion=True))
    before = {name: normal(*parameter.shape, seed=7, dtype=dtype) for name, parameter in ours.named_parameters()}
    for name, parameter in ours.named_parameters():
        parameter.main_grad, parameter.grad_added_to_main_grad = before[name].clone(), False
    made = made_by(ours)
    for name, parameter in ours.named_parameters():
        weight = name.endswith("weight")
        assert parameter.grad_added_to_main_grad is weight, "the hooks add the gradient of a bias"
        assert weight != bool(made[name].any())
        added = before[name].double() + (expected[name].double() if weight else 0)
        assert error(parameter.main_grad, added) < (1e-6 if dtype == torch.float32 else 2e-3)
    for parameter in alone.parameters():
        parameter.main_grad = torch.zeros_like(parameter)
    made_by(alone)
    assert not any(parameter.main_grad.any() for parameter in alone.parameters())


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_microbatches_under_megatron_s_data_parallelism(fused, sharded, no_gpu):
    """Its buffers and hooks have the sum of both microbatches, whether wgrad or a hook added them."""
    expected = made_by(pair_of(config_of())[1])
    config = config_of(gradient_accumulation_fusion=fused)
    _, ours = pair_of(config)
    options = DistributedDataParallelConfig(grad_reduce_in_fp32=True, use_distributed_optimizer=sharded)
    parallel = DistributedDataParallel(config, options, ours)
    parallel.zero_grad_buffer()
    for _ in range(2):
        (x, probs), counts, d_out = rows_of()
        parallel(x, counts, probs)[0].backward(d_out)
    parallel.finish_grad_sync()
    for name, parameter in ours.named_parameters():
        assert error(parameter.main_grad, 2 * expected[name].double()) < 1e-6
        assert parameter.grad_added_to_main_grad is fused


def of_model(state):
    """The parts of a sharded state as a checkpoint has them: key -> whole tensor, or where an object is."""
    apply_factories(state)
    found, parts = {}, []

    def collect(value):
        if isinstance(value, dict | list):
            for each in value.values() if isinstance(value, dict) else value:
                collect(each)
        else:
            parts.append(value)

    collect(state)
    for part in parts:
        if isinstance(part, ShardedTensor):
            whole = found.setdefault(part.key, torch.full(part.global_shape, torch.nan))
            whole[part.global_slice()] = part.data.view(part.local_shape)
        else:
            assert isinstance(part, ShardedObject)
            found[part.unique_key] = part.replica_id
    return found


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("unit", ["gpt-oss", "squared relu"])
def test_a_sharded_state_is_that_of_sequential_mlp(unit, rank, single):
    """Keys, global shapes and numbers, of one of two ranks, within layers that are an axis too."""
    theirs, ours = pair_of(config_of(**UNITS[unit]), groups_of(rank, 2))
    metadata = {"singleton_local_shards": single, "dp_cp_group": Group()}
    wanted, made = (of_model(each.sharded_state_dict("mlp.experts.", ((0, 2, 3),), metadata)) for each in (theirs, ours))
    assert made.keys() == wanted.keys() and len(made) > 4
    for key, value in wanted.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(made[key], value, rtol=0, atol=0, equal_nan=True)
        else:
            assert made[key] == value


@pytest.mark.parametrize("single", [False, True])
def test_a_sharded_state_is_joined_again(single):
    """As a load does it: the parts that a factory made, filled, become the parameter."""
    _, ours = pair_of(config_of(**UNITS["gpt-oss"]))
    state = ours.sharded_state_dict("experts.", (), {"singleton_local_shards": single})
    factories = dict(state)
    apply_factories(state)
    kept = {key: value for key, value in state.items() if not isinstance(value, ShardedObject)}
    loaded = {key: _data(value) for key, value in kept.items()}
    merged = apply_factory_merges(loaded, {key: factories[key] for key in kept})
    for name, parameter in ours.named_parameters():
        assert torch.equal(merged[f"experts.{name}"], parameter)


def _data(part):
    return [_data(each) for each in part] if isinstance(part, list) else part.data


@pytest.mark.parametrize("ours_saves", [False, True])
def test_a_distributed_checkpoint_of_either_loads_into_the_other(ours_saves, tmp_path, no_gpu):
    config = config_of(**UNITS["gpt-oss"])
    theirs, ours = pair_of(config)
    saved, loads = (ours, theirs) if ours_saves else (theirs, ours)
    before = made_by(loads)["out"]
    dist_checkpointing.save(saved.sharded_state_dict("experts."), str(tmp_path))
    for parameter in loads.parameters():
        parameter.data.zero_()
    state = dist_checkpointing.load(loads.sharded_state_dict("experts."), str(tmp_path))
    loads.load_state_dict({key.removeprefix("experts."): value for key, value in state.items()})
    assert torch.equal(made_by(loads)["out"], before) and before.any()


def test_states_of_other_modules_load():
    theirs, ours = pair_of(config_of(add_bias_linear=True))
    state = {}
    for name, parameter in ours.state_dict().items():  # as TEGroupedMLP names them
        state |= {f"{name}{i}": expert.clone() for i, expert in enumerate(parameter)} | {f"{name.split('.')[0]}._extra_state": None}
    for parameter in ours.parameters():
        parameter.data.zero_()
    ours.load_state_dict(state)
    assert torch.equal(ours.linear_fc1.weight[2], theirs.local_experts[2].linear_fc1.weight)
    assert torch.equal(ours.linear_fc2.bias[3], theirs.local_experts[3].linear_fc2.bias)
    del state["linear_fc2.weight1"]
    with pytest.raises(RuntimeError, match=r"linear_fc2\.weight"):
        ours.load_state_dict(state)


def test_ranks_draw_the_experts_of_one_model():
    drawn = []
    for ranks in (1, 2):
        made = []
        for rank in range(ranks):
            torch.manual_seed(5)
            made.append(build_module(door.experts(), EXPERTS // ranks, config_of(), pg_collection=groups_of(rank, ranks)))
            assert not made[-1].linear_fc1.bias
        drawn.append(torch.cat([each.linear_fc1.weight for each in made]))
    assert torch.equal(*drawn) and 0.015 < drawn[0].std() < 0.025 and not torch.equal(drawn[0][0], drawn[0][1])


def test_parallelism_of_parameters():
    """Megatron-LM reduces the gradient of a parameter over all ranks where `allreduce` is True. It counts a gradient in the norm of
    all unless it is a copy of one on another rank."""
    _, ours = pair_of(config_of(add_bias_linear=True))
    assert all(param_is_not_tensor_parallel_duplicate(parameter, Group(1, 2)) for parameter in ours.parameters())
    assert all(parameter.allreduce for parameter in pair_of(config_of())[1].parameters())
    config = config_of()
    config.expert_model_parallel_size = 2
    assert not any(parameter.allreduce for parameter in pair_of(config, groups_of(1, 2))[1].parameters())


def test_a_layer_of_a_model(no_gpu):
    """The whole layer from router to sum, by a spec of Megatron-core's in which the experts were replaced."""
    config = config_of(moe_token_dispatcher_type="allgather", moe_router_load_balancing_type="none")
    outs, parts = [], []
    for replace in (False, True):
        spec = get_gpt_layer_local_spec(num_experts=EXPERTS, moe_grouped_gemm=False)
        assert not replace or door.use_experts([spec], recipe="row") == 1
        torch.manual_seed(0)
        parts.append(build_module(spec.submodules.mlp, config=config))
        parts[-1].load_state_dict(parts[0].state_dict(), strict=not replace)
        x = normal(12, 3, HIDDEN).requires_grad_()
        out = parts[-1](x)[0]
        out.sum().backward()
        outs.append([out.detach(), x.grad, parts[-1].router.weight.grad])
    assert isinstance(parts[1].experts, door.TilewrightExperts) and parts[1].experts.options["recipe"] == "row"
    assert all(error(mine, right.double()) < 0.1 for mine, right in zip(outs[1], outs[0]))


def test_a_spec_without_experts_is_left_alone():
    spec = get_gpt_layer_local_spec()
    assert door.use_experts(spec) == 0 and dataclasses.asdict(spec) == dataclasses.asdict(get_gpt_layer_local_spec())


REFUSED = {
    "fp4": ("e2m1", "because products of experts are fp8"),
    "use_te_activation_func": (True, "expected False"),
    "delay_wgrad_compute": (True, "expected False"),
    "activation_func_fp8_input_store": (True, "expected False"),
    "fine_grained_activation_offloading": (True, "expected False"),
    "init_model_with_meta_device": (True, "expected False"),
    "params_dtype": (torch.float16, "torch.float16; expected torch.float32 or torch.bfloat16"),
    "activation_func": (gelu, "gelu; expected one of silu, quick_gelu, fast_gelu with gated_linear_unit=True"),
}


@pytest.mark.parametrize("option", REFUSED)
def test_an_option_that_does_not_fit_is_refused_by_name(option):
    config = config_of()
    setattr(config, option, REFUSED[option][0])
    with pytest.raises(_fit.Unfit, match=f"^{option}: got ") as refused:
        build_module(door.experts(), EXPERTS, config, pg_collection=groups_of())
    assert REFUSED[option][1] in str(refused.value)


def test_other_refusals():
    def build(config, groups=None, **options):
        return build_module(door.experts(**options), EXPERTS, config, pg_collection=groups or groups_of())

    two = groups_of()
    two.expt_tp = Group(0, 2)
    with pytest.raises(_fit.Unfit, match="^expert_tensor_parallel_size: got 2; expected 1"):
        build(config_of(), two)
    config = config_of()
    config.recompute_granularity, config.recompute_modules = "selective", ["moe_act"]
    with pytest.raises(_fit.Unfit, match="^recompute_modules: got moe_act; expected none"):
        build(config)
    with pytest.raises(_fit.Unfit, match="^moe_router_topk: got 2; expected 1 with moe_apply_probs_on_input"):
        build(config_of(moe_apply_probs_on_input=True))
    with pytest.raises(_fit.Unfit, match="with a limit of 2.0"):
        build(config_of(activation_func=fast_gelu, activation_func_clamp_value=2.0))
    with pytest.raises(_fit.Unfit, match="^glu_linear_offset: got 1.0; expected 0 with fast_gelu"):
        build(config_of(activation_func=fast_gelu, glu_linear_offset=1.0))
    with pytest.raises(ValueError, match="^recipe: got '2x2'; expected one of row"):
        build(config_of(), recipe="2x2")


def test_another_version_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(door, "TESTED", ("0.15.0",))
    with pytest.raises(_fit.Unfit, match=r"^Megatron-core: got megatron-core 0\.16\.1; expected 0\.15\.0"):
        pair_of(config_of())
