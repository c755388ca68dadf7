"""`tilewright.integrations.torchtitan` with torchtitan's own experts: its converter, its override, results and gradients, on the CPU."""

import dataclasses
import importlib.util
import json
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch", reason="needs torch: tools/setup torch=yes, or pip install torch")

if sys.version_info < (3, 11):
    pytest.skip("torchtitan needs Python 3.11 or newer", allow_module_level=True)

import tilewright.torch  # noqa: E402
import torchtitan.models.common.moe as titan  # noqa: E402
from tilewright.integrations import _fit  # noqa: E402
from tilewright.integrations import torchtitan as door  # noqa: E402
from tilewright.torch import RECIPES  # noqa: E402
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: E402
from torch_layers import DEVICES, error, normal, one_thread  # noqa: E402, F401
from torchtitan.config import OverrideConfig, apply_overrides  # noqa: E402
from torchtitan.config.override import parse_cli_imports  # noqa: E402
from torchtitan.models.common.token_dispatcher import LocalTokenDispatcher  # noqa: E402
from torchtitan.protocols.module import Module  # noqa: E402

DIM, INNER, EXPERTS, TOP = 64, 96, 4, 2
SIZES = (17, 0, 130, 1)
OVERRIDE = "tilewright.integrations.torchtitan.tilewright_experts"


def gpt_oss_experts():
    """The class of gpt-oss's experts. The folder that it is in needs a newer torch than 2.11."""
    path = pathlib.Path(titan.__file__).parents[1] / "gpt_oss/moe.py"
    spec = importlib.util.spec_from_file_location("titan_gpt_oss_moe", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module.GptOssGroupedExperts


KINDS = {"grouped": titan.GroupedExperts, "gpt-oss": gpt_oss_experts()}
SIZE = {"dim": DIM, "hidden_dim": INNER, "num_experts": EXPERTS}


class Model(Module):
    """Layers of experts in a list, as a model has them."""

    @dataclasses.dataclass(kw_only=True, slots=True)
    class Config(Module.Config):
        layers: list


def model_of(kind, count=2):
    dispatcher = LocalTokenDispatcher.Config(num_experts=EXPERTS, top_k=TOP)
    experts = KINDS[kind].Config
    return Model.Config(layers=[
        titan.RoutedExperts.Config(inner_experts=experts(**SIZE), token_dispatcher=dispatcher) for _ in range(count)
    ])  # fmt: skip


def filled(module):
    for seed, parameter in enumerate(module.parameters()):
        parameter.data = normal(*parameter.shape, seed=seed) / 8
    return module


def made_by(experts, counts=SIZES, more=0, device="cpu"):
    """The result and the gradients of the rows and the parameters."""
    experts.to(device)
    x = normal(sum(counts) + more, DIM, seed=9, dtype=torch.bfloat16, device=device).requires_grad_()
    out = experts(x, torch.tensor(counts, device=device))
    out.backward(normal(*out.shape, seed=8, dtype=out.dtype, device=device))
    return {"out": out.detach(), "x": x.grad, **{name: parameter.grad for name, parameter in experts.named_parameters()}}


def both(kind, **options):
    theirs = KINDS[kind].Config(**SIZE)
    return filled(theirs.build()), filled(door.converted(theirs, **options).build())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("kind", KINDS)
def test_results_and_gradients_are_near_those_of_torchtitan(kind, recipe, device):
    """e4m3 rounds by 2.7 % in the mean; each number has two to four such operands in a row."""
    theirs, ours = both(kind, recipe=recipe)
    wanted, made = made_by(theirs), made_by(ours, device=device)
    errors = {name: error(made[name], wanted[name].double()) for name in wanted}
    assert made.keys() == wanted.keys() and errors["out"] > 0 and all(value < 0.11 for value in errors.values()), errors


@pytest.mark.parametrize("kind", KINDS)
def test_every_product_is_the_library_s(kind, monkeypatch):
    """torch._grouped_mm is not called, and the ends are on the device, with a type that no host reads."""
    calls = []
    kept = tilewright.torch.grouped_linear
    monkeypatch.setattr(door, "grouped_linear", lambda *given, **options: calls.append((given, options)) or kept(*given, **options))
    monkeypatch.setattr(torch, "_grouped_mm", None)
    options = {"recipe": "row", "gradient_format": "e5m2", "promoted": False, "keep": "copy"}
    made_by(both(kind, **options)[1])
    assert len(calls) == (3 if kind == "grouped" else 2)
    for (x, w, ends), given in calls:
        assert given == options and ends.dtype == torch.int32 and ends.tolist() == [17, 17, 147, 148]
        assert x.dtype == w.dtype == torch.bfloat16 and w.is_contiguous() and len(x) == 148


@pytest.mark.parametrize("counts", [(0, 0, 0, 0), (0, 0, 0, 5), (9, 0, 0, 0)])
def test_experts_without_rows_and_rows_without_experts(counts):
    """Rows after the last expert's are a dispatcher's spare room."""
    made = made_by(both("grouped")[1], counts, more=7)
    assert not made["out"][sum(counts) :].any() and not made["x"][sum(counts) :].any()
    for name in ("w1_EFD", "w2_EDF", "w3_EFD"):
        assert [bool(of_expert.any()) for of_expert in made[name]] == [count > 0 for count in counts]


@pytest.mark.parametrize("kind", KINDS)
def test_the_converter_replaces_the_experts_of_a_model(kind):
    """In place, also in lists, with the fields that they had. The dispatcher stays: nothing is padded."""
    model = model_of(kind)
    for layer in model.layers:
        layer.inner_experts.param_init = {"w": len}
    dispatchers = [layer.token_dispatcher for layer in model.layers]
    converter = door.TilewrightExpertsConverter.Config(recipe="fold", gradient_format="e5m2", keep="copy")
    assert converter.build().convert(model) is model
    for layer, dispatcher in zip(model.layers, dispatchers):
        experts = layer.inner_experts
        assert isinstance(experts, KINDS[kind].Config) and layer.token_dispatcher is dispatcher
        assert (experts.recipe, experts.gradient_format, experts.promoted, experts.keep) == ("fold", "e5m2", True, "copy")
        assert experts.param_init == {"w": len} and {name: getattr(experts, name) for name in SIZE} == SIZE
        assert isinstance(layer.build().inner_experts, KINDS[kind])
    assert type(model.layers[0].inner_experts) is type(model.layers[1].inner_experts)
    json.dumps(model.layers[0].inner_experts.to_dict(), default=str)


def test_the_converter_replaces_a_model_that_is_experts():
    made = door.TilewrightExpertsConverter.Config().build().convert(titan.GroupedExperts.Config(**SIZE))
    assert type(made)._owner.__name__ == "TilewrightGroupedExperts" and made.keep == "weight"
    listed = Model.Config(layers=[titan.GroupedExperts.Config(**SIZE)])
    assert type(door.TilewrightExpertsConverter.Config().build().convert(listed).layers[0]) is type(made)


def test_the_override_of_the_command_line():
    model = model_of("gpt-oss")
    imports = parse_cli_imports([OVERRIDE + '={"recipe": "row"}'])
    lines = apply_overrides(OverrideConfig(imports=imports), model)
    assert len(lines) == 2 and "TilewrightGptOssGroupedExperts" in lines[0]
    assert [layer.inner_experts.recipe for layer in model.layers] == ["row", "row"]


def test_a_layer_from_tokens_to_their_sum():
    """With torchtitan's dispatcher for one rank."""
    model, theirs = model_of("grouped", 1), model_of("grouped", 1)
    door.TilewrightExpertsConverter.Config().build().convert(model)
    ids = torch.arange(60).view(3, 10, TOP) % 3  # expert 3 has no token
    counts = torch.bincount(ids.flatten(), minlength=EXPERTS)
    x, scores = normal(3, 10, DIM, dtype=torch.bfloat16), normal(3, 10, TOP, seed=2).sigmoid()
    outs = [filled(each.layers[0].build())(x, scores, ids, counts).detach() for each in (model, theirs)]
    assert 0 < error(outs[0], outs[1].double()) < 0.1


def test_states_are_torchtitan_s():
    theirs, ours = both("gpt-oss")
    ours.load_state_dict(theirs.state_dict())
    assert {name: value.shape for name, value in ours.state_dict().items()} == {
        name: value.shape for name, value in theirs.state_dict().items()
    }


@pytest.mark.parametrize("keep", ["weight", "copy"])
def test_under_fsdp(keep):
    """fully_shard frees the weights between forward and backward, and computes in bfloat16."""
    alone = made_by(both("grouped", keep=keep)[1])
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = torch.distributed.init_device_mesh("cpu", (1,))
        ours = both("grouped", keep=keep)[1]
        fully_shard(ours, mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
        made = made_by(ours)
    finally:
        torch.distributed.destroy_process_group()
    assert torch.equal(made["out"], alone["out"]) and torch.equal(made["x"], alone["x"])
    for name in ("w1_EFD", "w2_EDF", "w3_EFD"):
        assert error(made[name].full_tensor(), alone[name].double()) < 3e-3, "the gradient of a weight in bfloat16 is rounded once more"


def test_compiled_in_one_graph():
    ours = both("grouped")[1]
    expected = made_by(ours)
    for parameter in ours.parameters():
        parameter.grad = None
    ours.compile(backend="eager", fullgraph=True)
    made = made_by(ours)
    assert all(torch.equal(made[name], expected[name]) for name in expected)


def test_options_that_there_are_not():
    config = titan.GroupedExperts.Config(**SIZE)
    for options, message in (
        ({"recipe": "mxfp8"}, "^recipe: got 'mxfp8'; expected one of row"),
        ({"promoted": False}, "^promoted: got False; expected True with recipe '1x128'"),
        ({"keep": "both"}, "^keep: got 'both'; expected 'copy' or 'weight'"),
        ({"pad_multiple": 16}, "pad_multiple"),
    ):
        with pytest.raises(ValueError, match=message):
            door.converted(config, **options)


def test_another_version_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(door, "TESTED", ("0.2.0",))
    with pytest.raises(_fit.Unfit, match=r"^torchtitan: got torchtitan 0\.3\.0"):
        both("grouped")
