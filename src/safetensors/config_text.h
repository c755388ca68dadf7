// config.json of a conversion's output: the input's, byte for byte, with another `quantization_config`.
//
//     "quantization_config": {"quant_method": "tilewright", "version": ..., "recipe": ..., "kept": {
//         "tensors": [{"name": ..., "format": ..., "scales": [...], "reason": ...}],
//         "quantization_config": <the input's, byte for byte>}}
//
// With a published format it is what engines read instead (published_format.h).
//
// `kept` exists if quantized tensors stay as they are. The input's own description then describes only these tensors.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "safetensors/conversion.h"

namespace tilewright::safetensors {

/// Throws SafetensorsError where the input's is no JSON object as Python reads it.
std::string converted_config(const Conversion& conversion);

/// Makes a value from `before`, the present value (empty if there is none). `spaces` is the indentation of the object's
/// keys; nothing if the object is on one line.
using Description = std::function<std::string(std::string_view before, std::optional<std::size_t> spaces)>;

/// A configuration with new values for its `quantization_config` or `compression_config` (the name in older files), in
/// the object itself and in its parts (text_config). If the object has neither, one is added at its end. Throws
/// JsonTextError.
std::string with_description(std::string_view config, const Description& description);

}  // namespace tilewright::safetensors
