"""Published checkpoints in FP4, in small: names, dtypes, scale layouts and configurations are theirs. Those in integers too,
which are refused."""

import numpy as np
from stored_layouts import BF16, Layout, Raw, blocks, compressed, fp8, fp8_config, moe, mxfp4, nvfp4, one_fp8, powers, scales


def deepseek_v4():
    layout = Layout("deepseek-ai/DeepSeek-V4", "vllm-project/vllm: vllm/model_executor/models/deepseek_v4.py",
                    {"dim": 256, "quantization_config": fp8_config(scale_fmt="ue8m0")})
    for expert in range(2):
        for part, shape in (("w1", (96, 256)), ("w2", (256, 96))):
            name = f"layers.3.ffn.experts.{expert}.{part}"
            mxfp4(layout, name + ".weight", shape, values=name + ".weight", scale=name + ".scale", dtype="I8", scale_dtype="F8_E8M0")
    codes = fp8(200, 256)
    exponents, s = powers(2, 2)
    layout.matrix("layers.3.attn.wq_a.weight", "128x128.ue8m0",
                  {"layers.3.attn.wq_a.weight": codes, "layers.3.attn.wq_a.scale": Raw("F8_E8M0", exponents)},
                  codes.astype(np.float64) * blocks(s, 128, 128, (200, 256)))
    return layout


def gpt_oss():
    layout = Layout("openai/gpt-oss-20b, gpt-oss-120b", "openai/gpt-oss: gpt_oss/torch/weights.py",
                    {"hidden_size": 96, "intermediate_size": 64, "quantization_config": {"quant_method": "mxfp4"}})
    for name, shape in (("gate_up_proj", (2, 128, 96)), ("down_proj", (2, 96, 64))):
        full = "model.layers.0.mlp.experts." + name
        mxfp4(layout, full, shape, values=full + "_blocks", scale=full + "_scales")
        raw = layout.tensors[full + "_blocks"]
        raw.array = raw.array.reshape(*shape[:2], shape[2] // 32, 16)
        layout.bf16(full + "_bias", *shape[:2])
    return layout


def kimi_k3():
    groups = {"quantization_config": compressed("mxfp4-pack-quantized", num_bits=4, group_size=32)}
    layout = Layout("moonshotai/Kimi-K3", "vllm-project/compressed-tensors: src/compressed_tensors/compressors/mxfp4/base.py", {"text_config": moe(128, 96, **groups)})
    for part, shape in (("w1", (96, 128)), ("w2", (128, 96))):
        name = f"language_model.model.layers.1.block_sparse_moe.experts.0.{part}.weight"
        mxfp4(layout, name, shape, values=name + "_packed", scale=name + "_scale")
    return layout


def compressed_nvfp4():
    layout = Layout("RedHatAI/Llama-3.1-8B-Instruct-NVFP4", "vllm-project/compressed-tensors: src/compressed_tensors/compressors/nvfp4/base.py",
                    {"hidden_size": 128, "quantization_config": compressed("nvfp4-pack-quantized", num_bits=4, group_size=16)})
    nvfp4(layout, "model.layers.0.self_attn.v_proj.weight", (64, 128), packed=True)
    nvfp4(layout, "model.layers.0.mlp.down_proj.weight", (128, 176), packed=True)
    return layout


def modelopt_nvfp4():
    layout = Layout("nvidia/DeepSeek-R1-NVFP4", "NVIDIA/Model-Optimizer: modelopt/torch/export/quant_utils.py",
                    moe(128, 96, quantization_config={"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}))
    nvfp4(layout, "model.layers.3.mlp.experts.0.gate_proj.weight", (96, 128), packed=False)
    nvfp4(layout, "model.layers.3.mlp.experts.0.down_proj.weight", (128, 96), packed=False)
    layout.bf16("model.layers.3.self_attn.o_proj.weight", 128, 64)
    return layout


def modelopt_mixed():
    layout = Layout("nvidia/Nemotron-3-Super-120B-NVFP4 (mixed precision)", "NVIDIA/Model-Optimizer: modelopt/torch/export/quant_utils.py",
                    moe(128, 96, quantization_config={"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}))
    nvfp4(layout, "backbone.layers.1.mixer.experts.0.up_proj.weight", (96, 128), packed=False)
    one_fp8(layout, "backbone.layers.2.mixer.in_proj.weight", (320, 128))
    return layout


def llama_4_nvfp4():
    text = {"hidden_size": 128, "intermediate_size": 96}
    layout = Layout("nvidia/Llama-4-Scout-17B-16E-Instruct-NVFP4", "NVIDIA/TensorRT-LLM: tensorrt_llm/_torch/modules/fused_moe/quantization.py",
                    {"text_config": text, "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}})
    for part, shape in (("gate_up_proj", (2, 192, 128)), ("down_proj", (2, 128, 96))):
        name = "language_model.model.layers.0.feed_forward.experts." + part
        nvfp4(layout, name, shape, packed=False, input_scale=False)
        for old, new in ((name, name), (name + "_scale", name + "_weight_scale")):
            tensor = layout.tensors.pop(old)
            array = tensor.array if isinstance(tensor, Raw) else tensor
            array = np.ascontiguousarray(array.swapaxes(1, 2))
            layout.tensors[new] = Raw("U8", array) if isinstance(tensor, Raw) else array
        layout.tensors[name + "_weight_scale_2"] = layout.tensors.pop(name + "_scale_2")
        layout.tensors[name + "_input_scale"] = np.array(0.5, np.float32)
    return layout


def quark_mxfp4():
    weight = {"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"}
    layout = Layout("amd/DeepSeek-R1-MXFP4", "vllm-project/vllm: vllm/model_executor/layers/quantization/quark/schemes/quark_ocp_mx.py",
                    moe(128, 96, quantization_config={"quant_method": "quark", "global_quant_config": {"weight": weight}}))
    for part, shape in (("gate_proj", (96, 128)), ("down_proj", (128, 96))):
        name = f"model.layers.3.mlp.experts.0.{part}.weight"
        mxfp4(layout, name, shape, values=name, scale=name + "_scale")
    return layout


def gptq():
    layout = Layout("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "vllm-project/vllm: vllm/model_executor/layers/quantization/auto_gptq.py",
                    {"hidden_size": 128, "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}})
    name = "model.layers.0.mlp.up_proj."
    layout.tensors.update({name + "qweight": np.zeros((16, 96), np.int32), name + "qzeros": np.zeros((1, 12), np.int32),
                           name + "scales": np.ones((1, 96), np.float16), name + "g_idx": np.zeros(128, np.int32)})
    layout.refused = ["model.layers.0.mlp.up_proj.qweight: got I32 [16, 96] with model.layers.0.mlp.up_proj.g_idx, integers of GPTQ", '"gptq"', "bits 4"]
    return layout


def awq():
    layout = Layout("Qwen/Qwen2.5-7B-Instruct-AWQ", "vllm-project/vllm: vllm/model_executor/layers/quantization/auto_awq.py",
                    {"hidden_size": 128, "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}})
    name = "model.layers.0.mlp.up_proj."
    layout.tensors.update({name + "qweight": np.zeros((128, 12), np.int32), name + "qzeros": np.zeros((1, 12), np.int32),
                           name + "scales": np.ones((1, 96), np.float16)})
    layout.refused = ["model.layers.0.mlp.up_proj.qweight: got I32 [128, 12] with model.layers.0.mlp.up_proj.qzeros", '"awq"']
    return layout


def kimi_thinking():
    layout = Layout("moonshotai/Kimi-K2-Thinking", "vllm-project/compressed-tensors: src/compressed_tensors/compressors/pack_quantized/base.py",
                    moe(128, 96, quantization_config=compressed("pack-quantized", num_bits=4, type="int", group_size=32)))
    name = "model.layers.1.mlp.experts.0.gate_proj."
    layout.tensors.update({name + "weight_packed": np.zeros((96, 16), np.int32), name + "weight_scale": scales(96, 4, dtype=BF16),
                           name + "weight_shape": np.array([96, 128], np.int32)})
    layout.refused = ["gate_proj.weight_packed: got I32 [96, 16] with", "packed integers of compressed-tensors", "num_bits 4"]
    return layout


def int8():
    layout = Layout("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "vllm-project/compressed-tensors: src/compressed_tensors/compressors/naive_quantized/base.py",
                    {"hidden_size": 128, "quantization_config": compressed("int-quantized", type="int", strategy="channel")})
    name = "model.layers.0.mlp.up_proj."
    layout.tensors.update({name + "weight": np.zeros((96, 128), np.int8), name + "weight_scale": scales(96, 1, dtype=BF16)})
    layout.refused = ["up_proj.weight: got I8 [96, 128] with model.layers.0.mlp.up_proj.weight_scale BF16 [96, 1], which are integers"]
    return layout


def bitsandbytes():
    layout = Layout("unsloth/Llama-3.2-1B-bnb-4bit", "vllm-project/vllm: vllm/model_executor/layers/quantization/bitsandbytes.py",
                    {"hidden_size": 128, "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}})
    name = "model.layers.0.mlp.up_proj.weight"
    layout.tensors.update({name: np.zeros((6144, 1), np.uint8), name + ".absmax": np.zeros(192, np.uint8), name + ".quant_map": np.zeros(16, np.float32)})
    layout.refused = ["up_proj.weight: got U8 [6144, 1] with", "4 bits of bitsandbytes"]
    return layout


def mlx():
    layout = Layout("mlx-community/Llama-3.2-3B-Instruct-4bit", "ml-explore/mlx-lm: mlx_lm/utils.py", {"hidden_size": 128, "quantization": {"group_size": 64, "bits": 4}})
    name = "model.layers.0.mlp.up_proj."
    layout.tensors.update({name + "weight": np.zeros((96, 16), np.uint32), name + "scales": np.ones((96, 2), np.float16), name + "biases": np.ones((96, 2), np.float16)})
    layout.refused = ["up_proj.weight: got U32 [96, 16] with", "packed values of MLX"]
    return layout


FP4_LAYOUTS = [deepseek_v4(), gpt_oss(), kimi_k3(), compressed_nvfp4(), modelopt_nvfp4(), modelopt_mixed(), llama_4_nvfp4(), quark_mxfp4(), gptq(), awq(), kimi_thinking(), int8(), bitsandbytes(), mlx()]
