"""SGLang as a stand-in: what its classes and functions do, as far as the door depends on it."""

import enum
import importlib
import sys
import types

import engine_stand_ins
import torch

SRT = "sglang.srt"
UTILS, RUNNER, BASE = (f"{SRT}.layers.moe.{name}" for name in ("utils", "moe_runner.runner", "moe_runner.base"))
METHODS = {"fp8": f"{SRT}.layers.quantization.fp8", "mxfp4": f"{SRT}.layers.quantization.mxfp4"}


def stand_in(version, asked="auto", **server):
    """asked: the operator's --moe-runner-backend. server: a2a, lora, eplb, dwdp_size, chosen (what SGLang made of `asked`)."""
    made = engine_stand_ins.StandIn("sglang", version)
    made.choices = ["auto", "triton"]
    made.modules[f"{SRT}.arg_groups.choices"].add_moe_runner_backend_choices = made.choices.extend
    _settings(made, asked, server)
    _runners(made)
    _hooks(made)
    _methods(made)
    return made


def start(made):
    """A process of SGLang: hooks, then the MoE settings."""
    made.apply_hooks()
    made.modules[UTILS].initialize_moe_config()


def _settings(made, asked, server):
    utils, flags = made.modules[UTILS], types.SimpleNamespace(moe=types.SimpleNamespace())
    registered = set()
    predicates = utils._MoeRunnerBackendPredicates
    names = {member.name: member.value for member in utils.MoeRunnerBackend}
    utils.MoeRunnerBackend = enum.Enum("MoeRunnerBackend", names, type=predicates)

    class Registered(predicates):
        def __init__(self, value):
            self.value = value

    def resolve_moe_runner_backend(backend):
        if not isinstance(backend, str):
            return backend
        if backend in names.values():
            return utils.MoeRunnerBackend(backend)
        if backend in registered:
            return Registered(backend)
        raise ValueError(backend)

    def initialize_moe_config():
        flags.moe.runner_backend = resolve_moe_runner_backend(server.get("chosen", asked))
        flags.moe.speculative_runner_backend = flags.moe.runner_backend

    made.give(UTILS, "_MoeRunnerBackendPredicates.is_triton", lambda self: self.value == "triton")
    made.give(UTILS, "register_moe_runner_backend_name", lambda name: registered.add(name))
    made.give(UTILS, "resolve_moe_runner_backend", resolve_moe_runner_backend)
    made.give(UTILS, "initialize_moe_config", initialize_moe_config)
    a2a = server.get("a2a", "none")
    made.give(UTILS, "get_moe_a2a_backend", lambda: types.SimpleNamespace(value=a2a, is_none=lambda: a2a == "none"))
    context = f"{SRT}.runtime_context"
    fields = {"moe_runner_backend": asked, "dwdp_size": server.get("dwdp_size", 1), "enable_eplb": server.get("eplb", False)}
    arguments = types.SimpleNamespace(**fields)
    made.give(context, "get_flags", lambda: flags)
    made.give(context, "get_lora", lambda: types.SimpleNamespace(enable_lora=server.get("lora", False)))
    made.give(context, "get_server_args", lambda: arguments)
    made.flags = flags


def _runners(made):
    factories, base = {}, made.modules[BASE]

    def register_moe_runner_core(backend_name, factory):
        made.modules[UTILS].register_moe_runner_backend_name(backend_name)
        assert backend_name not in factories
        factories[backend_name] = factory

    def __init__(self, runner_backend, config, lora_enabled=False):
        self.runner_backend, self.config = runner_backend, config
        self.runner_core = factories[runner_backend.value](config) if runner_backend.value in factories else None

    def run(self, dispatch_output, quant_info, lora_info=None):
        assert isinstance(self.runner_core, base.DispatchMoeRunnerCore) and isinstance(quant_info, base.MoeQuantInfo)
        assert made.keywords(RUNNER, "MoeRunner.run", "self.runner_core.run_from_dispatch") == ["_", "_", "_", "hooks"]
        return self.runner_core.run_from_dispatch(dispatch_output, quant_info, self.config, hooks=None)

    def core(self, config):
        self.config = config

    made.give(RUNNER, "register_moe_runner_core", register_moe_runner_core)
    made.give(RUNNER, "MoeRunner.__init__", __init__)
    made.give(RUNNER, "MoeRunner.run", run)
    made.give(BASE, "DispatchMoeRunnerCore.__init__", core)
    made.modules[f"{SRT}.layers.moe.moe_runner"].MoeRunner = made.modules[RUNNER].MoeRunner


def _hooks(made):
    registry = f"{SRT}.plugins.hook_registry"
    kinds, hooks = made.modules[registry].HookType, []

    def register(cls, target, hook, hook_type=kinds.AFTER, *, source=None):
        hooks.append((target, hook, hook_type))

    def wrap(original, hook, kind):
        def hooked(*given, **named):
            if kind == kinds.AROUND:
                return hook(original, *given, **named)
            result = original(*given, **named)
            replaced = hook(result, *given, **named)
            return result if replaced is None else replaced

        return hooked

    def apply_hooks():
        for target, hook, kind in hooks:
            module, _, name = target.rpartition(".")
            while module not in sys.modules:
                module, _, more = module.rpartition(".")
                name = f"{more}.{name}"
            owner = importlib.import_module(module)
            for part in name.split(".")[:-1]:
                owner = getattr(owner, part)
            last = name.split(".")[-1]
            setattr(owner, last, wrap(getattr(owner, last), hook, kind))

    made.give(registry, "HookRegistry.register", register)
    made.apply_hooks, made.hooks = apply_hooks, hooks


def _methods(made):
    """Quantization methods that note what they are asked."""
    utils, runner = made.modules[UTILS], made.modules[RUNNER]
    made.log = []

    def create_moe_runner(self, layer, moe_runner_config):
        self.moe_runner_config = moe_runner_config
        backend = made.flags.moe.runner_backend
        self.runner = runner.MoeRunner(utils.MoeRunnerBackend.TRITON if backend.value == "auto" else backend, moe_runner_config)

    for module in METHODS.values():
        name = next(n.split(".")[0] for m, n in made.details if m == module)
        made.give(module, f"{name}.create_moe_runner", create_moe_runner)
        made.give(module, f"{name}.process_weights_after_loading", lambda self, layer: made.log.append("processed"))
        made.give(module, f"{name}.apply", lambda self, layer, dispatch_output: "the engine's")


class Layer(torch.nn.Module):
    """SGLang's layer of experts, from weights to results."""

    def __init__(self, made, method, weights, wrapped=False, fuses=False, **config):
        super().__init__()
        self.made = made
        usual = {"hidden_size": weights.up.shape[2], "intermediate_size_per_partition": weights.down.shape[2], "layer_id": 7}
        self.moe_runner_config = made.modules[BASE].MoeRunnerConfig(**usual | config)
        self.quant_method = None if wrapped else method
        is_fp8_method = hasattr(method, "is_fp4_expert")
        tensors = {"w13_weight": weights.w1, "w2_weight": weights.w2}
        suffix = "_scale_inv" if is_fp8_method else "_scale"
        tensors |= {f"w13_weight{suffix}": weights.s1, f"w2_weight{suffix}": weights.s2}
        if weights.b1 is not None:
            tensors |= {"w13_weight_bias": weights.b1, "w2_weight_bias": weights.b2}
        for name, tensor in tensors.items():
            self.register_parameter(name, torch.nn.Parameter(tensor, requires_grad=False))
        method.create_moe_runner(self, self.moe_runner_config)
        self.should_fuse_routed_scaling_factor_in_topk = fuses
        self.runner = method.runner
        self.method = method

    def load(self):
        self.method.process_weights_after_loading(self)
        return self

    def forward(self, x, weights, ids):
        chosen = self.made.modules[f"{SRT}.layers.moe.topk"].StandardTopKOutput(topk_weights=weights, topk_ids=ids)
        given = self.made.modules[f"{SRT}.layers.moe.token_dispatcher.standard"].StandardDispatchOutput(
            hidden_states=x, topk_output=chosen
        )
        names = self.made.keywords(f"{SRT}.layers.moe.fused_moe_triton.layer", "FusedMoE.run_moe_core", "self.quant_method.apply")
        return self.method.apply(**dict(zip(names, (self, given), strict=True)))


def method_of(made, kind):
    """kind: "fp8" (blocks), "fp4" (Fp8MoEMethod with MXFP4 experts) or "mxfp4"."""
    if kind == "mxfp4":
        return made.modules[METHODS["mxfp4"]].Mxfp4MoEMethod()
    method = made.modules[METHODS["fp8"]].Fp8MoEMethod()
    method.is_fp4_expert, method.use_mxfp8, method.weight_block_size = kind == "fp4", False, [128, 128]
    return method
