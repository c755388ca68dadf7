"""The door to vLLM, against stand-ins of the tested versions: which layers it takes, what they compute, what the log says."""

import logging
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import vllm_stand_in
from engine_layers import EXPERTS, HIDDEN, close, expected, halves, layer, numbers, row, swiglu, tokens
from engine_stand_ins import TOOL, parameters, parameters_of
from tilewright.integrations import vllm as door
from vllm_stand_in import MK, moe_config, quant_config

VERSIONS = TOOL.versions("vllm")
PACKED_OPENAI = {"gemm1_alpha": 1.5, "gemm1_beta": 1.0, "gemm1_clamp_limit": 2.0}
UNITS = {
    "SILU": ({}, halves(swiglu), 2),
    "SILU, a limit": ({"gemm1_clamp_limit": 1.0}, halves(swiglu, limit=1.0), 2),
    "SWIGLUOAI": ({}, halves(swiglu, interleaved=True, alpha=1.702, beta=1.0, limit=7.0), 2),
    "SWIGLUOAI, numbers": (PACKED_OPENAI, halves(swiglu, interleaved=True, alpha=1.5, beta=1.0, limit=2.0), 2),
    "SWIGLUOAI_UNINTERLEAVE": (PACKED_OPENAI, halves(swiglu, alpha=1.5, beta=1.0, limit=2.0), 2),
    "GELU_TANH": ({}, halves(lambda g, u: torch.nn.functional.gelu(g, approximate="tanh") * u), 2),
    "SITU": ({"activation_situ_beta": 2.0}, halves(lambda g, u: 2 * torch.tanh(g / 2) * torch.sigmoid(g) * u), 2),
    "RELU2_NO_MUL": ({}, lambda rows: rows.relu().square(), 1),
}


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def asked(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_ENGINE", "1")
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)
    monkeypatch.delenv("TILEWRIGHT_STRICT", raising=False)


@pytest.fixture
def vllm(version, asked, monkeypatch):
    with vllm_stand_in.stand_in(version).place(monkeypatch) as made:
        door.register()
        yield made


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO)
    return lambda: [record.getMessage() for record in caplog.records if record.name.startswith("vllm")]


def kernels():
    from tilewright.integrations import _vllm_experts

    return _vllm_experts


def tables(made):
    """All that registration may change."""
    functions = [getattr(made.fp8, n) for n in ("backend_to_kernel_cls", "_get_priority_backends")]
    names = ("backend_to_kernel_cls", "_get_priority_backends", "_get_priority_backends_for_gpt_oss", "map_mxfp4_backend")
    functions += [getattr(made.mxfp4, n) for n in names]
    linear = made.linear._POSSIBLE_FP8_BLOCK_KERNELS
    return functions, {key: list(value) for key, value in linear.items()}, dict(made.modules["vllm.envs"].environment_variables)


def made_of(made, recipe, name=None, given=None, **more):
    """A kernel of the door with a layer, as vLLM makes it."""
    weights = layer(recipe, gates=more.pop("gates", 2), bias=more.pop("bias", False))
    cls = getattr(kernels(), name or {"128x128": "TilewrightFp8Experts", "mxfp4": "TilewrightMxfp4Experts"}[recipe])
    experts = cls(moe_config=moe_config(made), quant_config=quant_config(made, weights, **(given or {})), **more)
    return experts, weights


# Registration.


def test_the_entry_point_is_cheap_and_does_nothing_unasked(version, monkeypatch):
    monkeypatch.delenv("TILEWRIGHT_ENGINE", raising=False)
    for plugins in (None, "", "other", "tilewright_other,other"):
        monkeypatch.delenv("VLLM_PLUGINS", raising=False)
        if plugins is not None:
            monkeypatch.setenv("VLLM_PLUGINS", plugins)
        with vllm_stand_in.stand_in(version).place(monkeypatch) as made:
            before = tables(made)
            door.register()
            assert tables(made) == before


def test_importing_the_door_imports_neither_torch_nor_an_engine():
    code = "import sys, tilewright.integrations.vllm, tilewright.integrations.sglang as s, tilewright.integrations.vllm as v\n"
    code += "v.register(); s.register()\nprint(sorted({'torch', 'vllm', 'sglang'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_it_is_asked_by_vllm_s_own_list_of_plugins(version, monkeypatch):
    monkeypatch.delenv("TILEWRIGHT_ENGINE", raising=False)
    monkeypatch.setenv("VLLM_PLUGINS", "other, tilewright")
    with vllm_stand_in.stand_in(version).place(monkeypatch) as made:
        door.register()
        assert made.fp8.backend_to_kernel_cls(made.fp8.Fp8MoeBackend.EMULATION) == [
            kernels().TilewrightFp8Experts,
            kernels().TilewrightFp8BatchedExperts,
        ]


def test_registering_twice_changes_nothing(vllm):
    before = tables(vllm)
    door.register()
    assert tables(vllm) == before


def test_compiled_graphs_are_kept_apart(vllm):
    """vLLM's cache of graphs is keyed by this table, and graphs contain the kernels of linear layers."""
    assert vllm.modules["vllm.envs"].environment_variables["TILEWRIGHT_ENGINE"]() == "1"


@pytest.mark.parametrize("damage", ["version", "name", "table", "platform"])
def test_what_was_not_tested_is_refused_by_name(version, asked, damage, monkeypatch, log):
    made = vllm_stand_in.stand_in(version, is_cuda=damage != "platform")
    if damage == "version":
        made.version = "0.32.0"
    if damage == "name":
        del made.mxfp4._get_priority_backends_for_gpt_oss
    if damage == "table":
        made.linear._POSSIBLE_FP8_BLOCK_KERNELS.clear()
    with made.place(monkeypatch):
        before = made.fp8.backend_to_kernel_cls, made.mxfp4.backend_to_kernel_cls
        door.register()
        assert (made.fp8.backend_to_kernel_cls, made.mxfp4.backend_to_kernel_cls) == before
        (line,) = log()
        assert "vLLM's own code runs instead" in line
        if damage == "version":
            assert "0.32.0" in line and all(tested in line for tested in door.TESTED)
        monkeypatch.setenv("TILEWRIGHT_STRICT", "1")
        with pytest.raises(RuntimeError, match="TILEWRIGHT_STRICT"):
            door.register()


def test_the_tested_versions_are_those_with_contracts():
    assert list(door.TESTED) == VERSIONS


# Which kernel vLLM chooses.


def test_a_layer_that_fits_is_taken(vllm, log):
    for batched, name in ((False, "TilewrightFp8Experts"), (True, "TilewrightFp8BatchedExperts")):
        config = moe_config(vllm, parallel={"use_batched_activation_format": batched})
        backend, kernel = vllm.fp8.select_fp8_moe_backend(config, *vllm.keys["128x128"])
        assert (backend, kernel) == (vllm.fp8.Fp8MoeBackend.EMULATION, getattr(kernels(), name))
    for batched, name in ((False, "TilewrightMxfp4Experts"), (True, "TilewrightMxfp4BatchedExperts")):
        config = moe_config(vllm, parallel={"use_batched_activation_format": batched})
        backend, kernel = vllm.mxfp4.select_deepseek_v4_mxfp4_moe_backend(config)
        assert (backend, kernel) == (vllm.mxfp4.Mxfp4MoeBackend.B12X_MXFP4_BF16, getattr(kernels(), name))
    backend, kernel = vllm.mxfp4.select_mxfp4_moe_backend(moe_config(vllm))
    assert (backend, kernel) == (vllm.mxfp4.Mxfp4MoeBackend.XPU, kernels().TilewrightGptOssExperts)
    assert len(log()) == 5 and all(line.startswith("tilewright runs experts [4 of 4, hidden 256, inner 128, silu]") for line in log())


UNFIT = {
    "hidden": ({"hidden_dim": 192}, "hidden: got 192"),
    "inner": ({"intermediate_size_per_partition": 96}, "inner: got 96"),
    "activation": ({"activation": "GELU"}, "activation"),
    "transport": ({"parallel": {"use_deepep_v2_kernels": True}}, "parallel config"),
    "another kernel": ({"moe_backend": "triton"}, "--moe-backend: got triton"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_layer_that_does_not_fit_stays_with_vllm(vllm, case, log, monkeypatch):
    given, reason = UNFIT[case]
    if "activation" in given:
        given = {"activation": vllm.modules[vllm_stand_in.ACTIVATION].MoEActivation[given["activation"]]}
    _, kernel = vllm.fp8.select_fp8_moe_backend(moe_config(vllm, **given), *vllm.keys["128x128"])
    assert kernel is vllm.engine_kernel
    (line,) = log()
    assert reason in line and line.startswith("tilewright does not run experts [4 of 4") and "runs instead" in line
    vllm.fp8.select_fp8_moe_backend(moe_config(vllm, **given), *vllm.keys["128x128"])
    assert len(log()) == 1
    monkeypatch.setenv("TILEWRIGHT_STRICT", "1")
    with pytest.raises(RuntimeError, match="TILEWRIGHT_STRICT"):
        vllm.fp8.select_fp8_moe_backend(moe_config(vllm, **given), *vllm.keys["128x128"])


def test_mxfp4_layers_that_do_not_fit(vllm, log):
    """Packed weights cannot move, 96 is a multiple of 32, and gpt-oss's layout has no batched form."""
    select = vllm.mxfp4.select_deepseek_v4_mxfp4_moe_backend
    assert select(moe_config(vllm, intermediate_size_per_partition=96))[1] is kernels().TilewrightMxfp4Experts
    assert select(moe_config(vllm, parallel={"enable_eplb": True}))[1] is vllm.engine_kernel
    assert select(moe_config(vllm, moe_backend="marlin"))[1] is vllm.engine_kernel
    batched = moe_config(vllm, parallel={"use_batched_activation_format": True})
    assert vllm.mxfp4.select_mxfp4_moe_backend(batched)[1] is vllm.engine_kernel
    reasons = ["enable_eplb: got True", "--moe-backend: got marlin", "activation format"]
    lines = [line for line in log() if "does not run" in line]
    assert len(lines) == len(reasons) and all(reason in line for reason, line in zip(reasons, lines))


def test_a_wrong_word_for_activations_is_named(vllm, log, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_MXFP4_ACTIVATIONS", "int8")
    assert vllm.mxfp4.select_deepseek_v4_mxfp4_moe_backend(moe_config(vllm))[1] is vllm.engine_kernel
    assert any("TILEWRIGHT_MXFP4_ACTIVATIONS: got int8; expected bf16 or fp8" in line for line in log())


def test_other_recipes_stay_with_vllm(vllm, log):
    assert vllm.fp8.select_fp8_moe_backend(moe_config(vllm), "per tensor", "per tensor")[1] is vllm.engine_kernel
    assert len(log()) == 1 and "quantization scheme" in log()[0]


def test_a_card_without_kernels_stays_with_vllm(version, asked, monkeypatch, log):
    with vllm_stand_in.stand_in(version, capability=(8, 0)).place(monkeypatch) as made:
        door.register()
        assert made.fp8.select_fp8_moe_backend(moe_config(made), *made.keys["128x128"])[1] is made.engine_kernel
        assert len(log()) == 1 and "current device" in log()[0]


def test_deep_gemm_by_its_switches(vllm, log):
    envs = vllm.modules["vllm.envs"]
    vllm.switches["VLLM_USE_DEEP_GEMM"] = envs.VLLM_USE_DEEP_GEMM = envs.VLLM_MOE_USE_DEEP_GEMM = True
    assert vllm.fp8.select_fp8_moe_backend(moe_config(vllm), *vllm.keys["128x128"])[1] is vllm.engine_kernel
    assert len(log()) == 1 and "VLLM_USE_DEEP_GEMM: got 1" in log()[0]


# The classes.

CLASSES = [
    "TilewrightFp8Experts", "TilewrightFp8BatchedExperts", "TilewrightMxfp4Experts", "TilewrightMxfp4BatchedExperts",
    "TilewrightGptOssExperts",
]  # fmt: skip


@pytest.mark.parametrize("name", CLASSES)
def test_every_abstract_method_is_defined_with_vllm_s_parameters(vllm, name):
    cls = getattr(kernels(), name)
    assert not cls.__abstractmethods__
    abstract = [(n, detail) for (module, n), (kind, detail) in vllm.details.items() if module == MK and "abstract" in kind]
    assert len(abstract) == 9
    for member, detail in abstract:
        function = getattr(cls, member.split(".")[1])
        wanted = [p for p in parameters(detail) if p[0] not in ("self", "cls")]
        given = [p for p in parameters_of(function) if p[0] not in ("self", "cls")]
        assert given == wanted[: len(given)] and (given == wanted or member.endswith("workspace_shapes"))


def test_the_linear_kernel_defines_every_abstract_method(vllm):
    from tilewright.integrations._vllm_linear import TilewrightFp8BlockLinearKernel as kernel

    assert not kernel.__abstractmethods__
    assert [name for name, _ in parameters_of(kernel.apply_block_scaled_mm)] == ["self", "A", "B", "As", "Bs"]


# Results.


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("recipe", ["128x128", "mxfp4"])
def test_units(vllm, recipe, unit):
    given, function, gates = UNITS[unit]
    activation = unit.split(",")[0]
    experts, weights = made_of(vllm, recipe, given=given, gates=gates, bias=unit.startswith("SWIGLUOAI"))
    x, w, ids = tokens()
    out = vllm_stand_in.run(vllm, experts, weights, x, w, ids, activation)
    assert close(out, expected(weights, x, w, ids, function, recipe == "128x128"))


@pytest.mark.parametrize("name", ["TilewrightMxfp4Experts", "TilewrightGptOssExperts"])
def test_mxfp4_with_fp8_activations(vllm, monkeypatch, name):
    monkeypatch.setenv("TILEWRIGHT_MXFP4_ACTIVATIONS", "fp8")
    experts, weights = made_of(vllm, "mxfp4", name=name)
    x, w, ids = tokens()
    out = vllm_stand_in.run(vllm, experts, weights, x, w, ids)
    assert close(out, expected(weights, x, w, ids, halves(swiglu), True))
    assert not close(out, expected(weights, x, w, ids, halves(swiglu), False))


@pytest.mark.parametrize("name", CLASSES)
def test_who_sums(vllm, name):
    """Standard: the kernel. Batched: vLLM, because results are rows."""
    reduction = vllm.modules[f"{vllm_stand_in.LAYERS}.topk_weight_and_reduce"]
    batched = {"max_num_tokens": 3, "num_dispatchers": 2} if "Batched" in name else {}
    experts, _ = made_of(vllm, "128x128" if "Fp8" in name else "mxfp4", name=name, **batched)
    kind = reduction.TopKWeightAndReduceDelegate if batched else reduction.TopKWeightAndReduceNoOP
    assert isinstance(experts.finalize_weight_and_reduce_impl(), kind)


@pytest.mark.parametrize("recipe", ["128x128", "mxfp4"])
def test_experts_of_other_gpus(vllm, recipe):
    """Global numbers with a map, and -1 for choices that a transport has dropped."""
    experts, weights = made_of(vllm, recipe)
    x, w, ids = tokens(experts=2 * EXPERTS)
    ids[0, 0] = -1
    expert_map = torch.full((2 * EXPERTS,), -1, dtype=torch.int32)
    expert_map[[1, 2, 5, 7]] = torch.arange(4, dtype=torch.int32)
    local = torch.where(ids < 0, -1, expert_map[ids.clamp(0).long()])
    assert (local < 0).any() and (local >= 0).any()
    for given in (ids, ids.long()):
        out = vllm_stand_in.run(vllm, experts, weights, x, w, given, expert_map=expert_map)
        assert close(out, expected(weights, x, w, local, halves(swiglu), recipe == "128x128"))


@pytest.mark.parametrize("recipe", ["128x128", "mxfp4"])
def test_weights_on_the_input_are_multiplied_once(vllm, recipe):
    experts, weights = made_of(vllm, recipe)
    x, w, ids = tokens()
    w, ids = w[:, :1].contiguous(), ids[:, :1].contiguous()
    out = vllm_stand_in.run(vllm, experts, weights, x, w, ids, on_input=True)
    assert close(out, expected(weights, x, w, ids, halves(swiglu), recipe == "128x128", on_input=torch.bfloat16))


@pytest.mark.parametrize("recipe", ["128x128", "mxfp4"])
def test_no_tokens(vllm, recipe):
    experts, weights = made_of(vllm, recipe)
    x, w, ids = (tensor[:0] for tensor in tokens())
    assert vllm_stand_in.run(vllm, experts, weights, x, w, ids).shape == (0, HIDDEN)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("recipe", ["128x128", "mxfp4"])
def test_rows_of_each_expert(vllm, recipe, columns):
    """The batched form: unweighted rows, of which the first of each expert count."""
    name = {"128x128": "TilewrightFp8BatchedExperts", "mxfp4": "TilewrightMxfp4BatchedExperts"}[recipe]
    experts, weights = made_of(vllm, recipe, name=name, max_num_tokens=3, num_dispatchers=2)
    x, counts = numbers(5, EXPERTS, 6, HIDDEN).bfloat16(), torch.tensor([0, 6, 2, 1], dtype=torch.int32)
    _, w, ids = tokens()
    out = vllm_stand_in.run(vllm, experts, weights, x, w, ids, counts=counts, columns=columns)
    assert out.shape == x.shape
    for e, count in enumerate(counts.tolist()):
        assert close(out[e, :count], row(weights, x[e, :count], e, halves(swiglu), recipe == "128x128"))
        assert out[e, count:].isnan().all()


def test_scales_of_tokens_in_columns(vllm):
    experts, weights = made_of(vllm, "128x128")
    x, w, ids = tokens()
    rows = vllm_stand_in.run(vllm, experts, weights, x, w, ids)
    assert torch.equal(vllm_stand_in.run(vllm, experts, weights, x, w, ids, columns=True), rows)


def test_weights_that_vllm_replaces(vllm):
    """A reload has other tensors; EPLB writes into these."""
    experts, weights = made_of(vllm, "128x128")
    x, w, ids = tokens()
    vllm_stand_in.run(vllm, experts, weights, x, w, ids)
    other = layer("128x128", seed=50)
    experts.quant_config.w1_scale, experts.quant_config.w2_scale = other.s1, other.s2
    out = vllm_stand_in.run(vllm, experts, other, x, w, ids)
    assert close(out, expected(other, x, w, ids, halves(swiglu), True))
    order = [2, 0, 3, 1]
    for tensor in (other.w1, other.w2, other.s1, other.s2, other.up, other.down):
        tensor.copy_(tensor.clone().view(torch.uint8).view(tensor.dtype)[order])
    out = vllm_stand_in.run(vllm, experts, other, x, w, ids)
    assert close(out, expected(other, x, w, ids, halves(swiglu), True))


@pytest.mark.parametrize("name", ["TilewrightMxfp4Experts", "TilewrightGptOssExperts"])
def test_packed_weights_replace_vllm_s(vllm, name):
    experts, weights = made_of(vllm, "mxfp4", name=name)
    assert experts.expects_unquantized_inputs == (name == "TilewrightGptOssExperts")
    x, w, ids = tokens()
    before = vllm_stand_in.run(vllm, experts, weights, x, w, ids)
    tensors = {"w13_weight": weights.w1, "w2_weight": weights.w2, "w13_weight_scale": weights.s1, "w2_weight_scale": weights.s2}
    held = torch.nn.Module()
    for key, tensor in tensors.items():
        held.register_parameter(key, torch.nn.Parameter(tensor, requires_grad=False))
    experts.quant_config.w1_scale, experts.quant_config.w2_scale = held.w13_weight_scale, held.w2_weight_scale
    experts.process_weights_after_loading(held)
    for key, tensor in tensors.items():
        left = getattr(held, key)
        assert left.shape == tensor.shape and left.untyped_storage().nbytes() == 1
    kept = weights._replace(w1=held.w13_weight, w2=held.w2_weight)
    assert torch.equal(vllm_stand_in.run(vllm, experts, kept, x, w, ids), before)


def test_batch_invariance(vllm, monkeypatch):
    """VLLM_BATCH_INVARIANT reaches the library, and a token's result does not depend on the others."""
    monkeypatch.setattr(vllm.modules["vllm.envs"], "VLLM_BATCH_INVARIANT", True)
    experts, weights = made_of(vllm, "128x128")
    x, w, ids = tokens()
    seen = []
    original = kernels().ExpertLayer.tokens
    monkeypatch.setattr(kernels().ExpertLayer, "tokens", lambda *a, **k: (seen.append(k["invariant"]), original(*a, **k))[1])
    full = vllm_stand_in.run(vllm, experts, weights, x, w, ids)
    first = vllm_stand_in.run(vllm, experts, weights, x[:1], w[:1], ids[:1])
    assert seen == [True, True] and torch.equal(full[:1], first)


# Linear layers.


def linear(made):
    from tilewright.integrations._vllm_linear import TilewrightFp8BlockLinearKernel

    return TilewrightFp8BlockLinearKernel


def test_the_linear_kernel_comes_first(vllm):
    (order,) = vllm.linear._POSSIBLE_FP8_BLOCK_KERNELS.values()
    assert order == [linear(vllm), vllm.engine_linear]


@pytest.mark.parametrize("count", [0, 1, 9])
def test_linear_layers(vllm, count):
    import tilewright as tw

    config = vllm_stand_in.linear_config(vllm)
    assert linear(vllm).is_supported(90) == (True, None) and linear(vllm).can_implement(config) == (True, None)
    b = tw.quantize(numbers(1, 384, 256), "128x128")
    a = tw.quantize(numbers(2, max(count, 1), 256), "1x128")
    y = linear(vllm)(config).apply_block_scaled_mm(A=a.values[:count], B=b.values, As=a.scales[:count], Bs=b.scales)
    assert y.shape == (count, 384) and y.dtype == torch.bfloat16
    assert close(y, (a.dequantize() @ b.dequantize().T)[:count])


def test_linear_layers_in_compiled_graphs(vllm):
    """vLLM compiles them, and a graph that breaks here would be split."""
    import tilewright as tw

    product = linear(vllm)(vllm_stand_in.linear_config(vllm)).apply_block_scaled_mm
    b, a = tw.quantize(numbers(1, 384, 256), "128x128"), tw.quantize(numbers(2, 9, 256), "1x128")
    given = a.values, b.values, a.scales, b.scales
    assert torch.equal(torch.compile(product, backend="eager", fullgraph=True)(*given), product(*given))


@pytest.mark.parametrize(
    "given",
    [{"weight_quant_key": (64, 64)}, {"activation_quant_key": (1, 64)}, {"out_dtype": torch.float16}],
    ids=["weights", "tokens", "result"],
)
def test_linear_layers_that_do_not_fit(vllm, given, log):
    fits, reason = linear(vllm).can_implement(vllm_stand_in.linear_config(vllm, **given))
    assert not fits and "expected" in reason
    assert len(log()) == 1 and reason in log()[0] and "linear layers [384, 256]" in log()[0]


def test_linear_layers_on_other_cards(vllm, log):
    assert linear(vllm).is_supported(100)[0] is False and "compute capability 100" in log()[0]


