"""vLLM as a stand-in: what its classes and functions do, as far as the door depends on it."""

import types

import engine_stand_ins
import tilewright as tw
import torch

LAYERS = "vllm.model_executor.layers.fused_moe"
MK, ACTIVATION, FP8, MXFP4 = (f"{LAYERS}.{name}" for name in ("modular_kernel", "activation", "oracle.fp8", "oracle.mxfp4"))
KEYS = "vllm.model_executor.layers.quantization.utils.quant_utils"
LINEAR = "vllm.model_executor.kernels.linear"
BLOCKS = f"{LINEAR}.scaled_mm.BlockScaledMMLinearKernel"


def stand_in(version, capability=(9, 0), is_cuda=True):
    made = engine_stand_ins.StandIn("vllm", version)
    m = made.modules
    made.mk, made.fp8, made.mxfp4, made.linear = m[MK], m[FP8], m[MXFP4], m[LINEAR]
    m["vllm.envs"].VLLM_BATCH_INVARIANT = False
    made.switches = {}
    made.give("vllm.envs", "is_set", lambda name: name in made.switches)
    platform = types.SimpleNamespace(is_cuda=lambda: is_cuda, is_device_capability=lambda asked: asked == capability)
    m["vllm.platforms"].current_platform = platform
    _experts(made)
    _oracles(made)
    _linear(made, capability)
    return made


def _experts(made):
    mk = made.mk

    def __init__(self, moe_config, quant_config, max_num_tokens=None, num_dispatchers=None):
        is_batched = self.activation_format() == mk.FusedMoEActivationFormat.BatchedExperts
        assert is_batched == (max_num_tokens is not None) == (num_dispatchers is not None)
        self.moe_config, self.quant_config = moe_config, quant_config
        self.max_num_tokens, self.num_dispatchers = max_num_tokens, num_dispatchers
        self.activation_config = quant_config.activation_config

    def is_supported_config(cls, moe_config, weight_key, activation_key, activation_format):
        checks = {
            "current device": cls._supports_current_device(),
            "activation": cls._supports_activation(moe_config.activation),
            "quantization scheme": cls._supports_quant_scheme(weight_key, activation_key),
            "parallel config": cls._supports_parallel_config(moe_config.moe_parallel_config),
            "activation format": cls.activation_format() == activation_format,
        }
        wrong = [f"kernel does not support {name}" for name, fits in checks.items() if not fits]
        return (False, wrong[0]) if wrong else (True, None)

    made.give(MK, "FusedMoEExperts.__init__", __init__)
    made.give(MK, "FusedMoEExperts.is_supported_config", is_supported_config)
    made.give(MK, "FusedMoEExperts.process_weights_after_loading", lambda self, layer: None)
    made.give(MK, "FusedMoEExperts.expects_unquantized_inputs", lambda self: False)
    for name in ("w1_scale", "w2_scale", "w1_bias", "w2_bias"):
        made.give(MK, f"FusedMoEExperts.{name}", _setting(name))


def _setting(name):
    return lambda self: getattr(self.quant_config, name)


def moe_config(made, **given):
    parallel = made.modules[f"{LAYERS}.config"].FusedMoEParallelConfig
    usual = {
        "num_experts": 4, "num_local_experts": 4, "hidden_dim": 256, "intermediate_size_per_partition": 128,
        "activation": made.modules[ACTIVATION].MoEActivation.SILU, "moe_backend": "auto",
        "moe_parallel_config": parallel(**given.pop("parallel", {})),
    }  # fmt: skip
    return made.modules[f"{LAYERS}.config"].FusedMoEConfig(**usual | given)


def quant_config(made, layer, **numbers):
    """The settings of a layer. `activation_config` has 1 and 0 where `numbers` has nothing."""
    config = types.SimpleNamespace(gemm1_alpha=None, gemm1_beta=None, gemm1_clamp_limit=None)
    config.__dict__.update({name: value for name, value in numbers.items() if hasattr(config, name)})
    of_unit = {name: value for name, value in numbers.items() if name.startswith("activation_")}
    config.activation_config = made.modules[ACTIVATION].ApplyMoEActivationConfig(
        clamp_limit=config.gemm1_clamp_limit,
        alpha=1.0 if config.gemm1_alpha is None else config.gemm1_alpha,
        beta=0.0 if config.gemm1_beta is None else config.gemm1_beta,
        **of_unit,
    )
    config.w1_scale, config.w2_scale, config.w1_bias, config.w2_bias = layer.s1, layer.s2, layer.b1, layer.b2
    return config


def _kernel(made):
    """A kernel of vLLM that takes every layer."""
    names = [n for n in made.mk.FusedMoEExpertsModular.__abstractmethods__]
    yes = {name: staticmethod(lambda *_: True) for name in names}
    kernel = type("EngineKernel", (made.mk.FusedMoEExpertsModular,), yes)
    kernel.is_supported_config = staticmethod(lambda cls, *_: (True, None))
    return kernel


def _oracles(made):
    made.engine_kernel = _kernel(made)
    fp8, mxfp4 = made.fp8, made.mxfp4
    formats = made.mk.FusedMoEActivationFormat

    def format_of(config):
        return formats.BatchedExperts if config.moe_parallel_config.use_batched_activation_format else formats.Standard

    def select(module, order, config, keys):
        for backend in order:
            for kernel in module.backend_to_kernel_cls(backend):
                if kernel.is_supported_config(kernel, config, *keys, format_of(config))[0]:
                    return backend, kernel
        raise NotImplementedError

    def select_fp8(config, weight_key, activation_key, allow_vllm_cutlass=False):
        order = fp8._get_priority_backends(config, weight_key, activation_key)
        if config.moe_backend != "auto" or made.switches:
            return fp8.Fp8MoeBackend.TRITON, made.engine_kernel
        return select(fp8, order, config, (weight_key, activation_key))

    def select_mxfp4(config, activation_key=None):
        named = mxfp4.map_mxfp4_backend(config.moe_backend) if config.moe_backend != "auto" else None
        return select(mxfp4, named or mxfp4._get_priority_backends_for_gpt_oss(), config, (made.keys["mxfp4"][0], None))

    def select_deepseek(config):
        named = mxfp4.map_mxfp4_backend(config.moe_backend) if config.moe_backend != "auto" else None
        return select(mxfp4, named or mxfp4._get_priority_backends(), config, (made.keys["mxfp4"][0], None))

    keys = made.modules[KEYS]
    made.keys = {"128x128": (keys.kFp8Static128BlockSym, keys.kFp8Dynamic128Sym), "mxfp4": (keys.kMxfp4Static, None)}
    made.give(FP8, "_get_priority_backends", lambda moe_config, weight_key, activation_key: [fp8.Fp8MoeBackend.TRITON])
    made.give(FP8, "backend_to_kernel_cls", lambda backend: [made.engine_kernel])
    made.give(FP8, "select_fp8_moe_backend", select_fp8)
    marlin = mxfp4.Mxfp4MoeBackend.MARLIN
    made.give(MXFP4, "_get_priority_backends", lambda: [marlin])
    made.give(MXFP4, "_get_priority_backends_for_gpt_oss", lambda: [marlin])
    made.give(MXFP4, "map_mxfp4_backend", lambda runner_backend: [marlin])
    made.give(MXFP4, "backend_to_kernel_cls", lambda backend: [made.engine_kernel])
    made.give(MXFP4, "select_mxfp4_moe_backend", select_mxfp4)
    made.give(MXFP4, "select_deepseek_v4_mxfp4_moe_backend", select_deepseek)


def _linear(made, capability):
    cuda = made.modules["vllm.platforms.interface"].PlatformEnum.CUDA

    def __init__(self, config):
        self.config = config

    made.give(BLOCKS, "Fp8BlockScaledMMLinearKernel.__init__", __init__)
    made.give(BLOCKS, "Fp8BlockScaledMMLinearKernel.can_implement", lambda cls, config: (True, None))
    made.engine_linear = type("EngineLinear", (), {})
    made.linear._POSSIBLE_FP8_BLOCK_KERNELS[cuda] = [made.engine_linear]


def linear_config(made, **given):
    group = made.modules[KEYS]._GroupShape
    key = lambda row, col: types.SimpleNamespace(scale=types.SimpleNamespace(group_shape=group(row=row, col=col)))  # noqa: E731
    config = made.modules[f"{LINEAR}.scaled_mm.ScaledMMLinearKernel"].FP8ScaledMMLinearLayerConfig
    usual = {"weight_quant_key": key(128, 128), "activation_quant_key": key(1, 128), "weight_shape": (384, 256)}
    blocks = {name: key(*value) for name, value in given.items() if name.endswith("_key")}
    return config(**usual | {"out_dtype": torch.bfloat16} | given | blocks)


def quantized(x, columns=False):
    """Tokens of vLLM: e4m3 and float32 [..., hidden / 128], or column-major as DeepEP delivers them."""
    operand = tw.quantize(x.float(), "1x128")
    scales = operand.scales.transpose(-1, -2).contiguous().transpose(-1, -2) if columns else operand.scales
    return operand.values, scales


def run(made, experts, layer, x, weights, ids, activation="SILU", expert_map=None, on_input=False, counts=None, columns=False):
    """A call of vLLM's modular kernel: prepare, workspaces, apply. Returns the output as `apply` has left it."""
    activation = made.modules[ACTIVATION].MoEActivation[activation]
    if on_input:
        x = (x * weights).bfloat16()
    scales = None
    if layer.w1.dtype != torch.uint8 and not experts.expects_unquantized_inputs:
        x, scales = quantized(x, columns)
    shape = x.shape[-2], layer.w1.shape[1], x.shape[-1], ids.shape[1]
    sizes = experts.workspace_shapes(*shape, 2 * len(layer.w1), len(layer.w1), None, activation)
    workspaces = [torch.full(size, torch.nan, dtype=torch.bfloat16, device=x.device) for size in sizes]
    given = {
        "output": workspaces[2], "hidden_states": x, "w1": layer.w1, "w2": layer.w2, "topk_weights": weights, "topk_ids": ids,
        "activation": activation, "global_num_experts": 2 * len(layer.w1), "expert_map": expert_map, "a1q_scale": scales,
        "a2_scale": None, "workspace13": workspaces[0], "workspace2": workspaces[1], "apply_router_weight_on_input": on_input,
        "expert_tokens_meta": made.mk.ExpertTokensMetadata(expert_num_tokens=counts),
    }  # fmt: skip
    names = made.keywords(MK, "FusedMoEKernelModularImpl._fused_experts", "self.fused_experts.apply")
    assert sorted(names) == sorted(given)
    assert experts.apply(**{name: given[name] for name in names}) is None
    return workspaces[2]


