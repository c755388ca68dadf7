"""`tilewright.integrations.transformers`: results against eager experts and float32 loops, and how what does not fit is declined.

The last test runs this file again with the other tested version of transformers, without the tests of torch.compile.
"""

import logging
import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="needs torch: tools/setup torch=yes, or pip install torch")
transformers = pytest.importorskip("transformers", reason="needs transformers: tools/setup torch=yes")

import tilewright as tw  # noqa: E402
import tilewright.integrations.transformers as door  # noqa: E402
from tilewright.integrations import _fit, _transformers_plan  # noqa: E402
from torch_layers import error, normal, one_thread, same  # noqa: E402, F401
from transformers import AutoModelForCausalLM, Llama4ForCausalLM, Llama4TextConfig, Mxfp4Config  # noqa: E402
from transformers.activations import ACT2FN  # noqa: E402
from transformers.integrations.moe import use_experts_implementation  # noqa: E402
from transformers_models import (  # noqa: E402
    EXPERTS,
    FAMILIES,
    HIDDEN,
    INNER,
    LIMITS,
    blocks_of,
    by_loop,
    config_of,
    fp8_experts,
    looped,
    model_of,
    mxfp4_checkpoint,
    tokens,
    words,
)

ROOT = pathlib.Path(__file__).resolve().parents[2]
OTHER = ROOT / "build" / "engines-older"


@pytest.fixture(autouse=True)
def a_registered_door(monkeypatch):
    """Each test begins with a door that was told nothing, and a log that has said nothing."""
    monkeypatch.setattr(_fit, "_told", set())
    monkeypatch.delenv("TILEWRIGHT_STRICT", raising=False)
    door.register()
    yield
    monkeypatch.undo()
    door.register()


@pytest.fixture
def lines():
    """The lines that transformers' log got."""
    logger, found = logging.getLogger("transformers.integrations.tilewright"), []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())
    logger.addHandler(handler)
    yield lambda: found
    logger.removeHandler(handler)


def expect_one_line(lines, *parts):
    assert len(lines()) == 1, lines()
    for part in parts:
        assert part in lines()[0]


def here(**more):
    """Tokens for transformers' own functions, which want experts that exist if the model is not expert-parallel."""
    x, ids, weights = tokens(**more)
    return x, ids.clamp(max=EXPERTS - 1), weights


# Models against their eager experts.


@pytest.mark.parametrize("recipe", LIMITS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_prepared_model(family, recipe, lines):
    """Its logits, and its block with a choice that names no expert. The bits are those of calls that quantize.

    A model of two layers would choose other experts in the second.
    """
    model, x = model_of(family, layers=1), tokens()
    with torch.no_grad():
        logits = model(words()).logits
        expected = [by_loop(module, *x) for _, module in blocks_of(model)]
        if "mxfp4" not in recipe:
            door.register(recipe)
            model.set_experts_implementation("tilewright")
            each = [module(*x) for _, module in blocks_of(model)]
        assert door.prepare(model, recipe) == [name for name, _ in blocks_of(model)]
        made = [module(*x) for _, module in blocks_of(model)]
        assert error(model(words()).logits, logits.double()) < LIMITS[recipe]
    for y, exact in zip(made, expected):
        assert 0.001 < error(y, exact.double()) < LIMITS[recipe]
    assert "mxfp4" in recipe or same(made, each)
    assert lines() == []


@pytest.mark.parametrize("family", ["qwen3_moe", "gpt_oss"])
def test_training(family, lines):
    """Gradients of the weights, biases, tokens and the weights of choices, against those of a loop in float32."""
    model = model_of(family)
    door.register("1x128")
    model.set_experts_implementation("tilewright")
    module = blocks_of(model)[0][1]
    gradients = []
    for call in (module, lambda *x: by_loop(module, *x)):
        x, ids, weights = tokens()
        given = [x.requires_grad_(), weights.requires_grad_(), *module.parameters()]
        gradients.append(torch.autograd.grad(call(x, ids, weights).square().sum(), given))
    for ours, exact in zip(*gradients, strict=True):
        assert ours.shape == exact.shape and 0.001 < error(ours, exact.double()) < 0.12
    assert lines() == []


def test_each_call_follows_the_weights():
    model = model_of("qwen3_moe")
    door.register("1x128")
    model.set_experts_implementation("tilewright")
    module, x = blocks_of(model)[0][1], tokens()
    with torch.no_grad():
        before = module(*x)
        module.down_proj.mul_(2)
        assert same([module(*x)], [before * 2])


def test_generate():
    model = model_of("qwen3_moe", torch.bfloat16)
    door.prepare(model, "1x128:mxfp4")
    made = model.generate(words(), max_new_tokens=4, min_new_tokens=4, do_sample=False)
    assert made.shape == (2, 13)


@pytest.mark.parametrize("recipe", ["1x128", "bf16:mxfp4"])
def test_invariant_tokens_do_not_depend_on_the_batch(recipe):
    model = model_of("qwen3_moe", torch.bfloat16)
    door.prepare(model, recipe)
    module, (x, ids, weights) = blocks_of(model)[0][1], tokens(8, torch.bfloat16)
    with torch.no_grad(), tw.options(invariant=True):
        parts = [module(x[i : i + 1], ids[i : i + 1], weights[i : i + 1]) for i in range(8)]
        assert same([module(x, ids, weights)], [torch.cat(parts)])


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("family", ["qwen3_moe", "gpt_oss"])
def test_torch_compile(family, prepared):
    """In one graph, after one call or `prepare`. Without gradients and with them."""
    torch._dynamo.reset()
    model, x = model_of(family), tokens()
    door.register("1x128")
    model.set_experts_implementation("tilewright")
    module = blocks_of(model)[0][1]
    if prepared:
        door.prepare(model, "bf16:mxfp4")
    with torch.no_grad():
        expected = module(*x)
        compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
        assert same([compiled(*x)], [expected])
    if not prepared:
        grads = [torch.autograd.grad(call(*x).sum(), list(module.parameters())) for call in (module, compiled)]
        assert same(*grads)


def test_a_first_call_that_is_compiled():
    torch._dynamo.reset()
    model, x = model_of("qwen3_moe"), tokens()
    door.register("1x128")
    model.set_experts_implementation("tilewright")
    module = blocks_of(model)[0][1]
    with torch.no_grad():
        made = torch.compile(module, backend="eager")(*x)
        assert same([made], [module(*x)])


# Prepared models.


def test_what_was_freed_says_so():
    model, x = model_of("qwen3_moe"), tokens()
    door.prepare(model, "1x128")
    module = blocks_of(model)[0][1]
    assert isinstance(module, type(blocks_of(model_of("qwen3_moe"))[0][1]))
    assert not any(name.endswith("_proj") for name, _ in module.named_parameters())
    whose = "model.layers.0.mlp.experts, prepared for inference by tilewright: got "
    for call, what in (
        (lambda: module(x[0].requires_grad_(), *x[1:]), "a call with gradients; expected one under torch.no_grad"),
        (lambda: door.release(model), "release"),
        (lambda: door.prepare(model, "row"), r"prepare\(recipe='row'\); expected '1x128'"),
        (lambda: model.state_dict(), "a use of its original weights; .* Load the model again"),
        (lambda: model.load_state_dict({}), "a use of its original weights"),
        (lambda: module.gate_up_proj, "a use of its original weights"),
    ):
        with pytest.raises(RuntimeError, match=whose + what):
            call()
    model.set_experts_implementation("eager")
    with torch.no_grad(), pytest.raises(RuntimeError, match=whose + "a use of its original weights"):
        module(*here())
    assert door.prepare(model, "1x128") == door.prepare(model) == [name for name, _ in blocks_of(model)]


def test_copies_are_made_again_and_dropped():
    model, x = model_of("qwen3_moe"), tokens()
    module = blocks_of(model)[0][1]
    with torch.no_grad():
        door.prepare(model, "1x128", free_originals=False)
        before = module(*x)
        module.down_proj.mul_(2)
        assert same([module(*x)], [before])
        door.prepare(model, "1x128", free_originals=False)
        assert same([module(*x)], [before * 2])
        assert door.prepare(model) == [] and not list(module.buffers())  # real weights without a recipe
        assert error(module(*here()), by_loop(module, *here()).double()) < 1e-5
        door.prepare(model, "1x128", free_originals=False)
    with pytest.raises(RuntimeError, match=r"got a call with gradients; .* Call release\(model\) to train"):
        module(*x)
    assert "experts.down_proj" in " ".join(model.state_dict()) and "tilewright" not in " ".join(model.state_dict())
    door.release(model)
    assert not list(module.buffers())
    door.register("1x128")
    module(*x).sum().backward()
    assert module.down_proj.grad.abs().sum() > 0


def test_copies_move_and_keep_their_numbers():
    model, x = model_of("qwen3_moe"), tokens()
    door.prepare(model, "1x128")
    module = blocks_of(model)[0][1]
    with torch.no_grad():
        before = module(*x)
        model.half()
        plan = module.__dict__["_tilewright"]
        plan.device = torch.device("cuda", 0)  # as if earlier tokens had been elsewhere
        assert same([module(*x)], [before]) and plan.device == torch.device("cpu")
        model.to("meta")
        plan.device = torch.device("cuda", 0)
        with pytest.raises(RuntimeError, match="got tokens on cpu; expected meta, where its weights are"):
            module(*x)


# FP8 modules.


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("form", ["128x128", "ue8m0", "fp4"])
@pytest.mark.parametrize("numbers", [{}, {"swiglu_limit": 0.5}, {"swiglu_limit": 0.7, "swiglu_alpha": 1.702}])
def test_fp8_modules(form, numbers, prepared, lines):
    config = config_of("qwen3_moe", **numbers)
    config._experts_implementation = "tilewright"
    module, up, down = fp8_experts(config, form)
    x = tokens()
    if prepared:
        _transformers_plan.prepare_module(module, "experts", None, True)
    with torch.no_grad():
        y = module(*x)
        assert 0.001 < error(y, looped(*x, up, down, module._apply_gate).double()) < 0.08
    assert lines() == []


@pytest.mark.parametrize("prepared", [False, True])
def test_an_fp8_module_in_one_graph(prepared):
    """In several, if it was not prepared."""
    torch._dynamo.reset()
    config = config_of("qwen3_moe")
    config._experts_implementation = "tilewright"
    module, _, _ = fp8_experts(config)
    if prepared:
        _transformers_plan.prepare_module(module, "experts", None, True)
    x = tokens()
    with torch.no_grad():
        assert same([torch.compile(module, backend="aot_eager", fullgraph=prepared)(*x)], [module(*x)])


def test_softcaps_of_fp8_modules(lines):
    config = config_of("qwen3_moe", mlp_gate_softcap=1.5, mlp_up_softcap=2.0)
    config._experts_implementation = "tilewright"
    module, up, down = fp8_experts(config)
    if not hasattr(module, "gate_softcap"):
        pytest.skip("transformers 5.17 has no softcaps")
    with torch.no_grad():
        y = module(*tokens())
        assert 0.001 < error(y, looped(*tokens(), up, down, module._apply_gate).double()) < 0.08
    assert lines() == []


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"activation_scheme": "static"}, "activation_scheme: got 'static'"),
        ({"block_size": (64, 64)}, "block_size: got [64, 64]"),
        ({"block_size": None}, "block_size: got None"),
    ],
)
def test_fp8_modules_that_do_not_fit(more, what, lines, monkeypatch):
    config = config_of("qwen3_moe")
    config._experts_implementation = "tilewright"
    module, _, _ = fp8_experts(config, **more)
    instead = []
    monkeypatch.setattr(type(module), "linear", lambda *given, **more: instead.append("eager") or 1 / 0)
    monkeypatch.setitem(door_of_fp8(), "grouped_mm", lambda *given: instead.append("grouped_mm") or given[1])
    with torch.no_grad():
        try:
            module(*tokens())
        except ZeroDivisionError:
            pass
    assert instead == ["eager" if "activation_scheme" in more else "grouped_mm"]
    expect_one_line(lines, "FP8Experts [6, 64, 96]", what)


def door_of_fp8():
    from transformers.integrations.finegrained_fp8 import ALL_FP8_EXPERTS_FUNCTIONS

    return ALL_FP8_EXPERTS_FUNCTIONS


def test_an_fp8_module_with_gradients_stays_with_transformers(lines, monkeypatch):
    config = config_of("qwen3_moe")
    config._experts_implementation = "tilewright"
    module, _, _ = fp8_experts(config)
    monkeypatch.setitem(door_of_fp8(), "grouped_mm", lambda *given: given[1])
    x, ids, weights = tokens()
    assert module(x.requires_grad_(), ids, weights) is x
    expect_one_line(lines, "gate_up_proj: got torch.float8_e4m3fn in a call with gradients")


# MXFP4 checkpoints.


def test_an_mxfp4_checkpoint(tmp_path, lines):
    """Against the same checkpoint dequantized by transformers; and saved, it is the same again."""
    stored = mxfp4_checkpoint(tmp_path / "a")
    as_real, ours = {"quantization_config": Mxfp4Config(dequantize=True)}, {"experts_implementation": "tilewright"}
    real, model = (AutoModelForCausalLM.from_pretrained(tmp_path / "a", dtype=torch.bfloat16, **how) for how in (as_real, ours))
    assert door.prepare(model) == [name for name, _ in blocks_of(model)]
    x = tokens(dtype=torch.bfloat16)
    with torch.no_grad():
        for (_, module), (_, other) in zip(blocks_of(model), blocks_of(real), strict=True):
            assert module.num_experts == EXPERTS and not hasattr(other, "pack")
            assert error(module(*x), by_loop(other, *x).double()) < 0.01
        assert error(model(words()).logits, real(words()).logits.double()) < 0.02
    with pytest.raises(ValueError, match="requires_grad|requires a gradient"):
        blocks_of(model)[0][1](x[0].requires_grad_(), *x[1:])
    state, _ = model.hf_quantizer.get_state_dict_and_metadata(model)
    for name, tensor in stored.items():
        assert torch.equal(state[name], tensor), name
    model.save_pretrained(tmp_path / "b")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "b", dtype=torch.bfloat16, **ours)
    with torch.no_grad():
        assert same([again(words()).logits], [model(words()).logits])
    assert lines() == []


def test_an_mxfp4_checkpoint_without_the_door(tmp_path):
    """transformers does what it does without Tilewright: here, without its kernels, it asks for accelerate or dequantizes."""
    mxfp4_checkpoint(tmp_path / "a")
    found = []
    for registered in (True, False):
        if not registered:
            from transformers.quantizers import auto
            from transformers.quantizers.quantizer_mxfp4 import Mxfp4HfQuantizer

            auto.AUTO_QUANTIZER_MAPPING["mxfp4"] = Mxfp4HfQuantizer
        try:
            found.append(type(blocks_of(AutoModelForCausalLM.from_pretrained(tmp_path / "a"))[0][1]))
        except ImportError as error_:
            found.append(str(error_))
    assert found[0] == found[1]


def test_an_mxfp4_checkpoint_on_another_card(tmp_path, lines, monkeypatch):
    from tilewright.integrations import _transformers_mxfp4 as mxfp4

    monkeypatch.setattr(_fit, "_card", lambda index: ("A100", (8, 0)))
    quantizer = mxfp4.Mxfp4Quantizer(Mxfp4Config())
    for device_map in ({"": "cpu", "a": "disk"}, None, "cpu", torch.device("cpu")):
        assert quantizer._fits(device_map)
    assert quantizer._fits("auto") != torch.cuda.is_available()
    for device_map in ({"": 0, "lm_head": "cpu"}, "cuda", "cuda:1", 0, torch.device("cuda")):
        assert not quantizer._fits(device_map)
    expect_one_line(lines, "MXFP4 experts", "A100 of compute capability 8.0", "transformers' MXFP4 runs instead")


# Modules that do not fit.


def experts_class(**decorated):
    """A class of experts that a model might have, with and without gates."""

    class Experts(torch.nn.Module):
        def __init__(self, config, act="silu"):
            super().__init__()
            rows = 2 * INNER if decorated.get("has_gate", True) else INNER
            self.num_experts = EXPERTS
            name = "gate_up_proj" if decorated.get("has_gate", True) else "up_proj"
            setattr(self, name, torch.nn.Parameter(normal(EXPERTS, rows, HIDDEN) / 8, requires_grad=False))
            self.down_proj = torch.nn.Parameter(normal(EXPERTS, HIDDEN, INNER, seed=1) / 8, requires_grad=False)
            self.act_fn = ACT2FN[act]
            self.limit = 0.5

        def forward(self, hidden_states, top_k_index, top_k_weights):
            raise AssertionError("transformers has a function for it")

    return use_experts_implementation(Experts, **decorated)


def module_of(kind, **more):
    config = config_of("qwen3_moe")
    config._experts_implementation = "tilewright"
    return kind(config, **more)


def test_squares_without_gates(lines):
    door.register("1x128")
    module = module_of(experts_class(has_gate=False), act="relu2")
    assert 0.001 < error(module(*tokens()), by_loop(module, *tokens()).double()) < 0.08
    assert lines() == []


@pytest.mark.parametrize("act", ["silu", "gelu_pytorch_tanh"])
def test_units_with_gates(act, lines):
    door.register("1x128")
    module = module_of(experts_class(), act=act)
    assert 0.001 < error(module(*tokens()), by_loop(module, *tokens()).double()) < 0.08
    assert lines() == []


def limit_after_silu(self, gate_up):
    gate, up = gate_up.chunk(2, dim=-1)
    return self.act_fn(gate).clamp(max=self.limit) * up.clamp(-self.limit, self.limit)


def by_class(gate=None, act="silu", **decorated):
    kind = experts_class(**decorated)
    if gate is not None:
        kind._apply_gate = gate
    return lambda: module_of(kind, act=act)


def half():
    return module_of(experts_class()).half()


DECLINED = {
    "another function": (by_class(act="gelu"), "_apply_gate: got Experts._apply_gate with act_fn GELUActivation; expected"),
    "another gate": (by_class(limit_after_silu), "_apply_gate: got Experts._apply_gate with act_fn SiLU"),
    "no gates": (by_class(has_gate=False), "act_fn: got SiLUActivation without gates"),
    "float16": (half, "gate_up_proj: got float16"),
}


@pytest.mark.parametrize("which", DECLINED)
def test_modules_that_do_not_fit(which, lines, monkeypatch):
    """transformers computes them, once with a line in its log. Strict: an error."""
    make, what = DECLINED[which]
    door.register("1x128")
    module = make()
    x = here(dtype=module.down_proj.dtype)
    for _ in range(2):
        assert error(module(*x), by_loop(module, *x).double()) < 0.01
    what = what.replace("SiLUActivation", type(module.act_fn).__name__)
    expect_one_line(lines, "Experts [6, 64, 96]: ", what, "grouped_mm runs instead")
    monkeypatch.setenv("TILEWRIGHT_STRICT", "1")
    with pytest.raises(RuntimeError, match="TILEWRIGHT_STRICT=1"):
        module(*x)


def test_norms_after_experts_are_declined(lines, monkeypatch):
    door.register("1x128")
    module = module_of(experts_class())
    module.has_post_expert_norm, module.post_expert_norm = True, torch.nn.Identity()
    module(*here())
    expect_one_line(lines, "experts: got a norm after each expert")


def test_real_weights_without_a_recipe_stay_with_transformers(lines):
    model = model_of("qwen3_moe")
    with torch.no_grad():
        logits = model(words()).logits
        model.set_experts_implementation("tilewright")
        assert error(model(words()).logits, logits.double()) < 1e-5
    expect_one_line(lines, "Qwen3MoeExperts [6, 64, 96]: recipe: got none for weights of float32")
    assert door.prepare(model) == []
    assert len(lines()) == 3 and "model.layers.1.mlp.experts (Qwen3MoeExperts): recipe: got none" in lines()[2]


@pytest.mark.parametrize("recipe", ["2x2", "bf16:mxfp4"])
def test_recipes_that_do_not_exist(recipe):
    with pytest.raises(ValueError, match=f"recipe: got '{recipe}'"):
        door.register(recipe)
    with pytest.raises(ValueError, match="recipe: got '3x3'"):
        door.prepare(model_of("qwen3_moe"), "3x3")


def test_a_shape_that_does_not_fit_is_not_an_error(lines, monkeypatch):
    """A call that the library refuses goes to transformers, with the library's words."""
    door.register("1x128")
    module = module_of(experts_class())

    def refused(*given, **more):
        raise tw.InvalidCall("up: got 1;\n  expected 2.")

    monkeypatch.setattr(_transformers_plan.ExpertLayer, "tokens", refused)
    assert error(module(*here()), by_loop(module, *here()).double()) < 0.01
    expect_one_line(lines, "up: got 1; expected 2. transformers' grouped_mm runs instead.")


def test_other_cards_are_declined(lines, monkeypatch):
    def no_card(device):
        _fit.unfit("device", "A100 of compute capability 8.0", "9.0")

    monkeypatch.setattr(_transformers_plan, "check_device", no_card)
    door.register("1x128")
    module = module_of(experts_class())
    assert error(module(*here()), by_loop(module, *here()).double()) < 0.01
    expect_one_line(lines, "device: got A100 of compute capability 8.0; expected 9.0")


def test_llama4_is_refused_by_name(lines):
    sizes = {"vocab_size": 32, "hidden_size": 64, "intermediate_size": 64, "intermediate_size_mlp": 64, "num_hidden_layers": 1,
             "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32, "num_local_experts": 2}  # fmt: skip
    model = Llama4ForCausalLM(Llama4TextConfig(**sizes)).eval()
    assert door.prepare(model, "1x128") == []
    expect_one_line(lines, "model.layers.0.feed_forward.experts (Llama4TextExperts): forward: got tokens that are sorted by expert")


def test_other_versions_are_refused_by_name(lines, monkeypatch):
    monkeypatch.setattr(_fit.metadata, "version", lambda package: "5.18.0")
    assert door.register("1x128") is False
    assert "transformers: got transformers 5.18.0; expected 5.17.0 or 5.24.0, the tested versions" in lines()[0]
    model = model_of("qwen3_moe")
    with torch.no_grad():
        logits = model(words()).logits
        model.set_experts_implementation("tilewright")
        assert error(model(words()).logits, logits.double()) < 1e-5
    assert len(lines()) == 2 and door.prepare(model, "1x128") == []
    monkeypatch.setenv("TILEWRIGHT_STRICT", "1")
    with pytest.raises(RuntimeError, match="5.18.0"):
        door.register()


def test_the_other_version():
    if transformers.__version__ != door.TESTED[-1]:
        assert transformers.__version__ in door.TESTED
        return
    if not OTHER.is_dir():
        pytest.skip(f"needs {OTHER}: tools/setup torch=yes")
    path = os.pathsep.join([str(OTHER), *filter(None, [os.environ.get("PYTHONPATH")])])
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not compile and not graph", __file__],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-1000:]
