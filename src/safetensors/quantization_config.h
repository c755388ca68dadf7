// The description of quantization in config.json or in Model-Optimizer's hf_quant_config.json. Messages quote it, and
// it decides where the shapes of tensors are ambiguous.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "safetensors/checkpoint.h"
#include "safetensors/scale_blocks.h"

namespace tilewright::safetensors {

struct QuantizationConfig {
    std::string method{};  // quant_method.
    std::string words{};   // "quant_method "fp8", weight_block_size [128, 128]".
    std::optional<ScaleBlocks>
        blocks{};                     // Rows and columns of a weight's blocks; nothing where several sizes are named.
    std::set<std::int64_t> hidden{};  // Sizes between layers.
    std::set<std::int64_t> inner{};   // Sizes inside a layer or an expert.
};

/// Empty where there is none, or none that can be read.
QuantizationConfig quantization_config(const Checkpoint& checkpoint);

}  // namespace tilewright::safetensors
