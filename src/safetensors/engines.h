// Which inference engines load a checkpoint as it is, and run its experts with Tilewright.
// docs/checkpoints.md lists them.
#pragma once

#include <string>

#include "safetensors/stored_matrix.h"

namespace tilewright::safetensors {

/// One line for `inspect`: the engines, or why there is none and what to do.
std::string engine_words(const Checkpoint& checkpoint, const StoredMatrices& found);

}  // namespace tilewright::safetensors
