// Stacks experts that a checkpoint stores one by one. `P.experts.N.S` [n, k] for N = 0 .. g - 1 become one matrix
// `P.experts.S` [g, n, k], which a grouped product reads.
#pragma once

#include <functional>
#include <vector>

#include "safetensors/stored_matrix.h"

namespace tilewright::safetensors {

/// Stacks the experts of which any is chosen; all other matrices stay. Throws std::runtime_error if some of a layer's
/// experts are missing, not chosen, or of another shape or recipe.
std::vector<StoredMatrix> stacked_experts(const std::vector<StoredMatrix>& matrices,
                                          const std::function<bool(const StoredMatrix&)>& is_chosen);

}  // namespace tilewright::safetensors
