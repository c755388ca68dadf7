// config.json of a conversion's output: the input's, byte for byte, with another `quantization_config`.
//
//     "quantization_config": {"quant_method": "tilewright", "version": ..., "recipe": ..., "kept": {
//         "tensors": [{"name": ..., "format": ..., "scales": [...], "reason": ...}],
//         "quantization_config": <the input's, byte for byte>}}
//
// `kept` is there where quantised tensors stay as they are; the input's own words describe them, and only them.
#pragma once

#include <string>

#include "safetensors/conversion.h"

namespace tilewright::safetensors {

/// Also for the quantization_config of a part (text_config), and for compression_config, as older files name it. Throws
/// SafetensorsError where the input's is no JSON object as Python reads it.
std::string converted_config(const Conversion& conversion);

}  // namespace tilewright::safetensors
