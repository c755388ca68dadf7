// The quantized tensors of a checkpoint that a conversion does not change, described for people and for config.json.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "safetensors/conversion.h"

namespace tilewright::safetensors {

/// All quantized tensors that are copied, and scales of activations and caches. `reason_of` returns why a matrix that
/// `inspect` lists is not converted. Equal tensors become one entry if their whole pattern is equal; otherwise each is
/// an entry.
std::vector<KeptTensors> kept_quantised(const Conversion& conversion,
                                        const std::set<const Checkpoint::Tensor*>& consumed,
                                        const std::function<std::string(const StoredMatrix&)>& reason_of);

}  // namespace tilewright::safetensors
