"""Published checkpoints in fp8, in small: names, dtypes, scale layouts and configurations are theirs."""

import numpy as np
from stored_layouts import BF16, FNUZ, Layout, block_fp8, blocks, compressed, fp8, fp8_config, moe, one_fp8, powers, row_fp8, scales


def deepseek_v3():
    layout = Layout("deepseek-ai/DeepSeek-V3, moonshotai/Kimi-K2-Instruct", "deepseek-ai/DeepSeek-V3: inference/fp8_cast_bf16.py",
                    moe(256, 192, quantization_config=fp8_config()))
    for name, shape in (("self_attn.kv_a_proj_with_mqa", (144, 256)), ("self_attn.o_proj", (256, 320)),
                        ("mlp.experts.0.gate_proj", (192, 256)), ("mlp.experts.0.down_proj", (256, 192))):
        block_fp8(layout, f"model.layers.3.{name}.weight", shape)
    layout.bf16("model.layers.3.mlp.gate.weight", 2, 256)
    layout.tensors["model.layers.3.mlp.gate.e_score_correction_bias"] = np.zeros(2, np.float32)
    return layout


def qwen3_fp8():
    layout = Layout("Qwen/Qwen3-235B-A22B-FP8", "huggingface/transformers: src/transformers/integrations/finegrained_fp8.py",
                    moe(256, 192, quantization_config=fp8_config()))
    for name, shape in (("self_attn.q_proj", (384, 256)), ("mlp.experts.0.up_proj", (192, 256)), ("mlp.experts.1.down_proj", (256, 192))):
        block_fp8(layout, f"model.layers.0.{name}.weight", shape, dtype=BF16)
    return layout


def qwen3_next():
    layout = Layout("Qwen/Qwen3-Next-80B-A3B-Instruct-FP8", "vllm-project/vllm: vllm/model_executor/models/qwen3_next.py",
                    moe(256, 128, quantization_config=fp8_config(modules_to_not_convert=["lm_head"])))
    block_fp8(layout, "model.layers.0.linear_attn.in_proj_qkvz.weight", (640, 256), dtype=BF16)
    block_fp8(layout, "model.layers.0.mlp.shared_expert.down_proj.weight", (256, 128), dtype=BF16)
    layout.bf16("model.layers.0.linear_attn.conv1d.weight", 512, 1, 4)
    layout.bf16("model.layers.0.linear_attn.A_log", 32)
    return layout


def fused_fp8(layout, name, shape, transposed):
    """[experts, n, k], or the same stored as [experts, k, n]."""
    block_fp8(layout, name, shape)
    if transposed:
        for tensor in (name, name + "_scale_inv"):
            layout.tensors[tensor] = np.ascontiguousarray(layout.tensors[tensor].swapaxes(1, 2))


def qwen3_vl():
    text = moe(256, 192)
    layout = Layout("Qwen/Qwen3-VL-235B-A22B-Instruct-FP8", "guoqingbao/vllm.rs: src/models/layers/moe.rs",
                    {"text_config": text, "quantization_config": fp8_config()})
    fused_fp8(layout, "model.language_model.layers.0.mlp.experts.gate_up_proj", (2, 384, 256), True)
    fused_fp8(layout, "model.language_model.layers.0.mlp.experts.down_proj", (2, 256, 192), True)
    return layout


def transformers_5():
    layout = Layout("zai-org/GLM-5-FP8 as transformers 5 saves it", "huggingface/transformers: src/transformers/integrations/finegrained_fp8.py",
                    moe(256, 192, quantization_config=fp8_config()))
    fused_fp8(layout, "model.layers.1.mlp.experts.gate_up_proj", (2, 384, 256), False)
    fused_fp8(layout, "model.layers.1.mlp.experts.down_proj", (2, 256, 192), False)
    return layout


def mistral_4():
    layout = Layout("mistralai/Mistral-Small-4-119B-2603", "ggml-org/llama.cpp: convert_hf_to_gguf.py",
                    {"text_config": moe(256, 96), "quantization_config": {"quant_method": "fp8", "activation_scheme": "static"}})
    for name, shape in (("gate_up_proj", (2, 192, 256)), ("down_proj", (2, 256, 96))):
        full = "language_model.model.layers.0.mlp.experts." + name
        codes, s = fp8(*shape), scales(2, 1, 1)
        layout.matrix(full, "tensor", {full: codes, full + "_scale_inv": s}, codes.astype(np.float64) * s)
        layout.tensors[full + "_activation_scale"] = np.ones(2, np.float32)
    name = "language_model.model.layers.0.self_attn.o_proj."
    one_fp8(layout, name + "weight", (256, 192), scale=name + "weight_scale_inv", dtype=BF16)
    layout.tensors[name + "activation_scale"] = np.array(0.5, BF16)
    return layout


def mistral_consolidated():
    layout = Layout("mistralai/Ministral-3-8B-Instruct-2512, consolidated", "vllm-project/vllm: vllm/model_executor/models/llama.py", {})
    for name, shape in (("attention.wq", (192, 128)), ("feed_forward.w2", (128, 320))):
        one_fp8(layout, f"layers.0.{name}.weight", shape, scale=f"layers.0.{name}.qscale_weight", dtype=BF16)
        layout.tensors[f"layers.0.{name}.qscale_act"] = np.array(0.25, BF16)
    return layout


def llama_dynamic():
    layout = Layout("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic, ibm-granite and others", "vllm-project/compressed-tensors: src/compressed_tensors/compressors/naive_quantized/base.py",
                    {"hidden_size": 128, "quantization_config": compressed("float-quantized", strategy="channel")})
    for name, shape in (("self_attn.q_proj", (192, 128)), ("mlp.down_proj", (128, 352))):
        row_fp8(layout, f"model.layers.0.{name}.weight", shape)
    return layout


def llama_static():
    layout = Layout("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8", "vllm-project/compressed-tensors: src/compressed_tensors/compressors/naive_quantized/base.py",
                    {"hidden_size": 128, "quantization_config": compressed("float-quantized", strategy="tensor")})
    for name, shape in (("self_attn.k_proj", (64, 128)), ("mlp.gate_proj", (352, 128))):
        one_fp8(layout, f"model.layers.0.{name}.weight", shape, dtype=BF16, scale_shape=(1,))
        layout.tensors[f"model.layers.0.{name}.input_scale"] = np.array([0.5], BF16)
    return layout


def compressed_blocks():
    layout = Layout("RedHatAI/Qwen3-30B-A3B-FP8-block", "vllm-project/compressed-tensors: src/compressed_tensors/compressors/naive_quantized/fp8_block.py",
                    moe(256, 192, quantization_config=compressed("float-quantized", strategy="block", block_structure=[128, 128])))
    block_fp8(layout, "model.layers.0.mlp.experts.0.up_proj.weight", (192, 256), scale="model.layers.0.mlp.experts.0.up_proj.weight_scale", dtype=BF16)
    return layout


def compressed_mxfp8():
    layout = Layout("llm-compressor's MXFP8", "vllm-project/compressed-tensors: src/compressed_tensors/compressors/mxfp8/base.py",
                    {"hidden_size": 128, "quantization_config": compressed("mxfp8-quantized", strategy="group", group_size=32)})
    name, codes = "model.layers.0.mlp.up_proj.weight", fp8(96, 160)
    exponents, s = powers(96, 5)
    layout.matrix(name, "mxfp8", {name: codes, name + "_scale": exponents}, codes.astype(np.float64) * np.repeat(s, 32, 1))
    return layout


def modelopt_fp8():
    layout = Layout("nvidia/Llama-3.1-8B-Instruct-FP8", "NVIDIA/Model-Optimizer: modelopt/torch/export/quant_utils.py", {"hidden_size": 128},
                    extra={"hf_quant_config.json": {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}})
    for name, shape in (("self_attn.k_proj", (64, 128)), ("mlp.up_proj", (320, 128))):
        one_fp8(layout, f"model.layers.0.{name}.weight", shape)
        layout.tensors[f"model.layers.0.{name}.input_scale"] = np.array(0.5, np.float32)
    layout.tensors["model.layers.0.self_attn.k_proj.k_scale"] = np.array(1, np.float32)
    return layout


def nemotron_h():
    limits = {"time_step_limit": [0.0, float("inf")], "quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8"}}
    layout = Layout("nvidia/NVIDIA-Nemotron-Nano-9B-v2-FP8", "NVIDIA/TensorRT-LLM: tensorrt_llm/_torch/models/checkpoints/hf/nemotron_h_weight_mapper.py", {"hidden_size": 128, **limits})
    one_fp8(layout, "backbone.layers.0.mixer.in_proj.weight", (320, 128))
    layout.tensors["backbone.layers.0.mixer.in_proj.input_scale"] = np.array(0.5, np.float32)
    layout.bf16("backbone.layers.0.mixer.conv1d.weight", 160, 1, 4)
    return layout


def llama_4_fp8():
    text = {"hidden_size": 128, "intermediate_size": 96, "intermediate_size_mlp": 256}
    layout = Layout("nvidia/Llama-4-Scout-17B-16E-Instruct-FP8", "NVIDIA/TensorRT-LLM: tensorrt_llm/_torch/modules/fused_moe/quantization.py",
                    {"text_config": text, "quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8"}})
    for part, shape in (("gate_up_proj", (2, 192, 128)), ("down_proj", (2, 128, 96))):
        name = "language_model.model.layers.0.feed_forward.experts." + part
        one_fp8(layout, name, shape, scale=name + "_weight_scale")
        layout.tensors[name] = np.ascontiguousarray(layout.tensors[name].swapaxes(1, 2))
        layout.tensors[name + "_input_scale"] = np.array(0.5, np.float32)
    return layout


def llama_4_rows():
    layout = Layout("meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8", "vllm-project/vllm: vllm/model_executor/models/llama4.py",
                    {"text_config": {"hidden_size": 128, "intermediate_size": 96}, "quantization_config": compressed("float-quantized", strategy="channel")})
    for part, shape in (("gate_proj", (96, 128)), ("down_proj", (128, 96))):
        row_fp8(layout, f"language_model.model.layers.1.feed_forward.experts.0.{part}.weight", shape)
    return layout


def fbgemm():
    layout = Layout("meta-llama/Llama-3.1-405B-Instruct-FP8", "vllm-project/vllm: vllm/model_executor/layers/quantization/fbgemm_fp8.py",
                    {"hidden_size": 128, "quantization_config": {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}})
    row_fp8(layout, "model.layers.1.mlp.gate_proj.weight", (160, 128), dtype=np.float32)
    layout.tensors["model.layers.1.mlp.gate_proj.input_scale_ub"] = np.array([1200], np.float32)
    return layout


def glm():
    layout = Layout("zai-org/GLM-4.5-FP8", "vllm-project/vllm: vllm/model_executor/models/glm4_moe.py",
                    moe(128, 96, quantization_config=compressed("float-quantized", strategy="channel")))
    row_fp8(layout, "model.layers.1.mlp.experts.0.up_proj.weight", (96, 128), dtype=np.float32)
    row_fp8(layout, "model.layers.1.self_attn.q_proj.weight", (192, 128), dtype=np.float32)
    return layout


def minimax():
    layout = Layout("MiniMaxAI/MiniMax-M2", "vllm-project/vllm: vllm/model_executor/models/minimax_m2.py",
                    {"hidden_size": 256, "intermediate_size": 192, "quantization_config": fp8_config(quant_method="fp8", fmt="float8_e4m3fn")})
    block_fp8(layout, "model.layers.0.block_sparse_moe.experts.0.w1.weight", (192, 256))
    block_fp8(layout, "model.layers.0.block_sparse_moe.experts.0.w2.weight", (256, 192))
    return layout


def mixtral():
    layout = Layout("neuralmagic/Mixtral-8x7B-Instruct-v0.1-FP8", "neuralmagic/AutoFP8: auto_fp8/quantize.py",
                    {"hidden_size": 128, "intermediate_size": 224, "quantization_config": {"quant_method": "fp8", "activation_scheme": "static"}})
    for part, shape in (("w1", (224, 128)), ("w2", (128, 224))):
        name = f"model.layers.0.block_sparse_moe.experts.0.{part}."
        one_fp8(layout, name + "weight", shape)
        layout.tensors[name + "input_scale"] = np.array(0.5, np.float32)
    return layout


def quark_fp8():
    weight = {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}
    layout = Layout("amd/Llama-3.1-70B-Instruct-FP8-KV", "vllm-project/vllm: vllm/model_executor/layers/quantization/quark/schemes/quark_w8a8_fp8.py",
                    {"hidden_size": 128, "quantization_config": {"quant_method": "quark", "global_quant_config": {"weight": weight}}})
    one_fp8(layout, "model.layers.0.mlp.up_proj.weight", (192, 128))
    name = "model.layers.0.self_attn.q_proj."
    one_fp8(layout, name + "weight", (128, 128), scale=name + "weight_quantizer.scale")
    layout.tensors[name + "input_quantizer.scale"] = np.array(0.5, np.float32)
    return layout


def fnuz():
    layout = Layout("FP8 blocks in MI300's format", "vllm-project/vllm: vllm/model_executor/layers/quantization/utils/w8a8_utils.py",
                    {"hidden_size": 256, "quantization_config": fp8_config()})
    block_fp8(layout, "model.layers.0.mlp.up_proj.weight", (192, 256), values=FNUZ)
    codes = layout.tensors["model.layers.0.mlp.up_proj.weight"]
    codes.view(np.uint8)[np.isin(codes.view(np.uint8), [0x7F, 0xFF])] = 0x7E  # +-240 next to the smallest has no place
    scale = layout.tensors["model.layers.0.mlp.up_proj.weight_scale_inv"]
    layout.numbers["model.layers.0.mlp.up_proj.weight"] = codes.astype(np.float64) * blocks(scale, 128, 128, (192, 256))
    return layout


def comfyui():
    layout = Layout("ComfyUI's qwen_2.5_vl_7b_fp8_scaled", "leejet/stable-diffusion.cpp: pull request 1898", {})
    one_fp8(layout, "model.layers.0.mlp.up_proj.weight", (192, 128), scale="model.layers.0.mlp.up_proj.scale_weight")
    layout.tensors["model.layers.0.mlp.up_proj.scale_input"] = np.array(0.5, np.float32)
    return layout


FP8_LAYOUTS = [deepseek_v3(), qwen3_fp8(), qwen3_next(), qwen3_vl(), transformers_5(), mistral_4(), mistral_consolidated(), llama_dynamic(), llama_static(), compressed_blocks(), compressed_mxfp8(), modelopt_fp8(), nemotron_h(), llama_4_fp8(), llama_4_rows(), fbgemm(), glm(), minimax(), mixtral(), quark_fp8(), fnuz(), comfyui()]
