// config.json of a conversion's output: the input's, byte for byte, with another `quantization_config`.
//
//     "quantization_config": {"quant_method": "tilewright", "version": ..., "recipe": ..., "kept": {
//         "tensors": [{"name": ..., "format": ..., "scales": [...], "reason": ...}],
//         "quantization_config": <the input's, byte for byte>}}
//
// `kept` is there where quantised tensors stay as they are; the input's own words describe them, and only them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "safetensors/conversion.h"

namespace tilewright::safetensors {

/// Throws SafetensorsError where the input's is no JSON object as Python reads it.
std::string converted_config(const Conversion& conversion);

/// Makes a value: of `before`, the value that is there (empty: none), for an object whose keys are behind this many
/// spaces (nothing: it is in one line).
using Description = std::function<std::string(std::string_view before, std::optional<std::size_t> spaces)>;

/// A configuration with other values for its `quantization_config` or `compression_config`, as older files name it, and
/// those of its parts (text_config); a new one at its end where it has none itself. Throws JsonTextError.
std::string with_description(std::string_view config, const Description& description);

}  // namespace tilewright::safetensors
