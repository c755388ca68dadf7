"""The door to SGLang, against stand-ins of the tested versions: which layers it takes, what they compute, what the log says."""

import logging
import sys

import pytest

torch = pytest.importorskip("torch")

import sglang_stand_in
from engine_layers import HIDDEN, close, expected, halves, layer, swiglu, tokens
from engine_stand_ins import TOOL, parameters, parameters_of
from sglang_stand_in import BASE, Layer, method_of, start
from tilewright.integrations import sglang as door

VERSIONS = TOOL.versions("sglang")
KINDS = {"fp8": "128x128", "fp4": "mxfp4", "mxfp4": "mxfp4"}
GPT_OSS = {"gemm1_alpha": 1.702, "gemm1_clamp_limit": 7.0}
UNITS = {
    "silu": ({}, halves(swiglu)),
    "gpt-oss": (GPT_OSS, halves(swiglu, interleaved=True, alpha=1.702, beta=1.0, limit=7.0)),
    "not interleaved": (
        {"gemm1_alpha": 1.5, "gemm1_beta": 0.5, "gemm1_clamp_limit": 1.0, "gate_up_interleaved": False},
        halves(swiglu, alpha=1.5, beta=0.5, limit=1.0),
    ),
    "DeepSeek-V4's limit": ({"swiglu_limit": 1.0}, halves(swiglu, limit=1.0)),
    "situ": (
        {"activation": "situ", "gemm1_alpha": 2.0, "gemm1_clamp_limit": 3.0},
        halves(lambda g, u: 2 * torch.tanh(g / 2) * torch.sigmoid(g) * 3 * torch.tanh(u / 3)),
    ),
    "gelu_tanh": ({"activation": "gelu_tanh"}, halves(lambda g, u: torch.nn.functional.gelu(g, approximate="tanh") * u)),
    "relu2": ({"activation": "relu2", "is_gated": False}, lambda rows: rows.relu().square()),
}


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO)
    return lambda: [record.getMessage() for record in caplog.records if record.name.startswith("sglang")]


@pytest.fixture
def engine(version, monkeypatch):
    """Starts SGLang with the door. `named`: by SGLang's option, else by the environment."""
    monkeypatch.delenv("TILEWRIGHT_STRICT", raising=False)
    placed = []

    def started(named=False, **server):
        monkeypatch.setattr(door, "_registered", False)
        monkeypatch.setenv("TILEWRIGHT_ENGINE", "0" if named else "1")
        if named:
            monkeypatch.setattr(sys, "argv", ["sglang", "serve", "--moe-runner-backend", "tilewright"])
            server = {"asked": "tilewright"} | server
        place = sglang_stand_in.stand_in(version, **server).place(monkeypatch)
        made = place.__enter__()
        placed.append(place)
        door.register()
        start(made)
        return made

    yield started
    for place in placed:
        place.__exit__(None, None, None)


def made_of(made, kind, gates=2, bias=False, **config):
    weights = layer(KINDS[kind], gates=gates, bias=bias)
    if kind == "fp4":  # Fp8MoEMethod has int8, and scales as float32
        floats = [scales.view(torch.float8_e8m0fnu).float() for scales in (weights.s1, weights.s2)]
        weights = weights._replace(w1=weights.w1.view(torch.int8), w2=weights.w2.view(torch.int8), s1=floats[0], s2=floats[1])
    return Layer(made, method_of(made, kind), weights, **config), weights


def result_of(module, *given):
    return module(*given).hidden_states


# Registration.


def test_nothing_happens_unasked(version, monkeypatch):
    monkeypatch.delenv("TILEWRIGHT_ENGINE", raising=False)
    monkeypatch.setattr(door, "_registered", False)
    for arguments in ([], ["--moe-runner-backend", "triton"], ["tilewright"], ["--model", "tilewright"], ["--moe-runner-backend"]):
        monkeypatch.setattr(sys, "argv", ["sglang", *arguments])
        with sglang_stand_in.stand_in(version).place(monkeypatch) as made:
            door.register()
            assert made.choices == ["auto", "triton"] and not made.hooks


@pytest.mark.parametrize("arguments", [["--moe-runner-backend", "tilewright"], ["--moe-runner-backend=tilewright"]])
def test_it_is_asked_by_sglang_s_option(version, arguments, monkeypatch):
    monkeypatch.delenv("TILEWRIGHT_ENGINE", raising=False)
    monkeypatch.setattr(door, "_registered", False)
    monkeypatch.setattr(sys, "argv", ["sglang", "serve", *arguments])
    with sglang_stand_in.stand_in(version).place(monkeypatch) as made:
        door.register()
        door.register()
        assert made.choices == ["auto", "triton", "tilewright"] and len(made.hooks) == 7


@pytest.mark.parametrize("damage", ["version", "name"])
def test_what_was_not_tested_is_refused_by_name(version, damage, monkeypatch, log):
    monkeypatch.setenv("TILEWRIGHT_ENGINE", "1")
    monkeypatch.delenv("TILEWRIGHT_STRICT", raising=False)
    monkeypatch.setattr(door, "_registered", False)
    made = sglang_stand_in.stand_in(version)
    if damage == "version":
        made.version = "0.5.22"
    with made.place(monkeypatch):
        if damage == "name":
            del made.modules["sglang.srt.layers.moe.moe_runner"].register_moe_runner_core
        door.register()
        assert not made.hooks and made.choices == ["auto", "triton"]
        (line,) = log()
        assert "SGLang's own code runs instead" in line
        assert damage == "name" or ("0.5.22" in line and all(tested in line for tested in door.TESTED))
        monkeypatch.setenv("TILEWRIGHT_STRICT", "1")
        with pytest.raises(RuntimeError, match="TILEWRIGHT_STRICT"):
            door.register()


def test_the_tested_versions_are_those_with_contracts():
    assert list(door.TESTED) == VERSIONS


def test_the_runner_defines_every_abstract_method_with_sglang_s_parameters(engine):
    made = engine()
    from tilewright.integrations._sglang_layers import TilewrightRunnerCore

    assert not TilewrightRunnerCore.__abstractmethods__
    abstract = {n: (kind, d) for (m, n), (kind, d) in made.details.items() if m == BASE and "abstract" in kind}
    assert set(abstract) == {"DispatchMoeRunnerCore.runner_backend", "DispatchMoeRunnerCore.run_from_dispatch"}
    assert isinstance(TilewrightRunnerCore.runner_backend, property)
    detail = abstract["DispatchMoeRunnerCore.run_from_dispatch"][1]
    assert parameters_of(TilewrightRunnerCore.run_from_dispatch) == parameters(detail)


# Which layers run here.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("named", [False, True])
def test_a_layer_that_fits_is_taken(engine, kind, named, log):
    made = engine(named)
    module = made_of(made, kind)[0].load()
    assert module.runner.runner_backend.value == "tilewright"
    assert log() == [f"tilewright runs experts of layer 7: {'FP8 in blocks' if kind == 'fp8' else 'MXFP4'}"]
    assert made.log == (["processed"] if kind == "fp8" else [])


def test_the_name_settles_to_auto(engine):
    """SGLang knows how to run the rest of a model with auto, and nothing about `tilewright`."""
    flags = engine(named=True).flags.moe
    assert flags.runner_backend.value == flags.speculative_runner_backend.value == "auto"


def test_gpt_oss_gets_tokens_in_the_standard_form(engine):
    """SGLang chooses triton_kernel for it, whose tokens come in another form."""
    made = engine(chosen="triton_kernel")
    assert made.flags.moe.runner_backend.value == "auto"
    assert made_of(made, "mxfp4")[0].load().runner.runner_backend.value == "tilewright"


SERVERS = {
    "another runner": ({"asked": "marlin", "chosen": "triton"}, "--moe-runner-backend: got marlin"),
    "a transport": ({"a2a": "deepep"}, "--moe-a2a-backend: got deepep"),
    "LoRA": ({"lora": True}, "--enable-lora"),
    "DWDP": ({"dwdp_size": 2}, "--dwdp-size: got 2"),
}


@pytest.mark.parametrize("case", SERVERS)
def test_a_server_that_does_not_fit(engine, case, log):
    server, reason = SERVERS[case]
    made = engine(**server)
    module = made_of(made, "fp8")[0].load()
    assert module(*tokens()) == "the engine's"
    (line,) = log()
    assert reason in line and "runs instead" in line
    assert engine(**{"chosen": "triton_kernel"} | server).flags.moe.runner_backend.value == server.get("chosen", "triton_kernel")


LAYERS = {
    "hidden": ({"hidden_size": 192}, "hidden_size: got 192; expected a multiple of 128"),
    "inner": ({"intermediate_size_per_partition": 96}, "intermediate_size_per_partition: got 96"),
    "activation": ({"activation": "gelu"}, "activation: got 'gelu'"),
    "a limit after silu": ({"gemm1_clamp_limit": 7.0}, "a limit after silu"),
    "no_combine": ({"no_combine": True}, "no_combine: got True"),
    "wrapped": ({"wrapped": True}, "quant_method"),
}


@pytest.mark.parametrize("case", LAYERS)
def test_a_layer_that_does_not_fit_stays_with_sglang(engine, case, log, monkeypatch):
    given, reason = LAYERS[case]
    made = engine()
    module = made_of(made, "fp8", **given)[0].load()
    assert module(*tokens()) == "the engine's" and made.log == ["processed"]
    (line,) = log()
    assert reason in line and line.startswith("tilewright does not run experts of layer 7") and "runner triton runs instead" in line
    monkeypatch.setenv("TILEWRIGHT_STRICT", "1")
    with pytest.raises(RuntimeError, match="TILEWRIGHT_STRICT"):
        made_of(made, "fp8", **given)


def test_packed_weights_cannot_move(engine, log):
    made = engine(eplb=True)
    kinds = [made_of(made, kind)[0].load().runner.runner_backend.value for kind in KINDS]
    assert kinds == ["tilewright", "triton", "triton"] and "--enable-eplb: got True" in log()[1]


def test_weights_that_a_user_wants_as_fp8(engine, log):
    made = engine()
    method = method_of(made, "fp4")
    method.dequant_fp4_to_fp8 = True
    assert Layer(made, method, layer("mxfp4")).load().runner.runner_backend.value == "triton"
    assert "SGLANG_DSV4_FP4_DEQUANT: got 1" in log()[0]


def test_other_recipes_stay_with_sglang(engine, log):
    made = engine()
    method = method_of(made, "fp8")
    method.weight_block_size = None
    module = Layer(made, method, layer("128x128")).load()
    assert module(*tokens()) == "the engine's" and "fp8 with blocks None" in log()[0]


def test_scales_that_are_no_powers_of_two_stay_with_sglang(engine, log):
    """They are seen after loading. The engine's runner is then put back, and converts the weights."""
    made = engine()
    module, weights = made_of(made, "fp4")
    weights.s1[0, 0, 0] = 3.0
    module.load()
    assert module(*tokens()) == "the engine's" and made.log == ["processed"]
    assert module.runner is module.method.runner and module.runner.runner_backend.value == "triton"
    assert "powers of two" in log()[0] and module.w13_weight.untyped_storage().nbytes() > 1


# Results.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", UNITS)
def test_units(engine, kind, unit):
    given, function = UNITS[unit]
    gates = 2 if given.get("is_gated", True) else 1
    module, weights = made_of(engine(), kind, gates=gates, bias=unit == "gpt-oss", **given)
    given = tokens()
    assert close(result_of(module.load(), *given), expected(weights, *given, function, kind == "fp8"))


@pytest.mark.parametrize("kind", KINDS)
def test_experts_of_other_gpus(engine, kind):
    """The dispatcher has local numbers, and -1 for experts that are elsewhere."""
    module, weights = made_of(engine(), kind)
    x, w, ids = tokens()
    ids[0], ids[1, 0] = -1, -1
    for given in (ids, ids.long()):
        out = result_of(module.load(), x, w, given) if given is ids else result_of(module, x, w, given)
        assert close(out[1:], expected(weights, x, w, ids, halves(swiglu), kind == "fp8")[1:])
        assert not out[0].any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fuses", [False, True])
@pytest.mark.parametrize("factor", [None, 1.0, 2.5])
def test_routed_scaling_factor_is_applied_once(engine, kind, fuses, factor):
    """By the runner, unless routing has done it."""
    module, weights = made_of(engine(), kind, fuses=fuses, routed_scaling_factor=factor)
    x, w, ids = tokens()
    given = w * (factor or 1) if fuses else w
    out = result_of(module.load(), x, given, ids)
    assert close(out, (factor or 1) * expected(weights, x, w, ids, halves(swiglu), kind == "fp8"))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_on_the_input(engine, kind):
    module, weights = made_of(engine(), kind, apply_router_weight_on_input=True)
    x, w, ids = tokens()
    w, ids = w[:, :1].contiguous(), ids[:, :1].contiguous()
    out = result_of(module.load(), x, w, ids)
    assert close(out, expected(weights, x, w, ids, halves(swiglu), kind == "fp8", on_input=torch.float32))


@pytest.mark.parametrize("kind", ["fp4", "mxfp4"])
def test_mxfp4_with_fp8_activations(engine, kind, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_MXFP4_ACTIVATIONS", "fp8")
    module, weights = made_of(engine(), kind)
    given = tokens()
    out = result_of(module.load(), *given)
    assert close(out, expected(weights, *given, halves(swiglu), True))
    assert not close(out, expected(weights, *given, halves(swiglu), False))


def test_a_wrong_word_for_activations_is_named(engine, monkeypatch, log):
    monkeypatch.setenv("TILEWRIGHT_MXFP4_ACTIVATIONS", "int8")
    assert made_of(engine(), "mxfp4")[0].load().runner.runner_backend.value == "triton"
    assert any("TILEWRIGHT_MXFP4_ACTIVATIONS: got int8; expected bf16 or fp8" in line for line in log())


@pytest.mark.parametrize("kind", KINDS)
def test_no_tokens(engine, kind):
    module, _ = made_of(engine(), kind)
    x, w, ids = (tensor[:0] for tensor in tokens())
    assert result_of(module.load(), x, w, ids).shape == (0, HIDDEN)


@pytest.mark.parametrize("kind", ["fp4", "mxfp4"])
def test_packed_weights_replace_sglang_s(engine, kind):
    module, _ = made_of(engine(), kind)
    shapes = {name: tensor.shape for name, tensor in module.named_parameters()}
    module.load()
    assert {name: tensor.shape for name, tensor in module.named_parameters()} == shapes
    assert all(tensor.untyped_storage().nbytes() <= 4 for tensor in module.parameters())


def test_weights_that_sglang_replaces(engine):
    """New tensors, as after a reload, and writes in place."""
    module, _ = made_of(engine(), "fp8")
    module.load()
    given = tokens()
    result_of(module, *given)
    other = layer("128x128", seed=50)
    names = {"w13_weight": other.w1, "w2_weight": other.w2, "w13_weight_scale_inv": other.s1, "w2_weight_scale_inv": other.s2}
    for name, tensor in names.items():
        getattr(module, name).data = tensor
    assert close(result_of(module, *given), expected(other, *given, halves(swiglu), True))
    for tensor in (other.s1, other.down):
        tensor *= 2
    other.up.mul_(2)
    other.down.div_(2)
    assert close(result_of(module, *given), expected(other, *given, halves(swiglu), True))


def test_hooks_of_lora_are_refused(engine):
    made = engine()
    from tilewright.integrations._sglang_layers import TilewrightRunnerCore

    config = made.modules[BASE].MoeRunnerConfig()
    with pytest.raises(ValueError, match="hooks: got LoRA's"):
        TilewrightRunnerCore(config).run_from_dispatch(None, None, config, hooks=object())


