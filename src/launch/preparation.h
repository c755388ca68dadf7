// What is launched before a product, to write its workspace. No CUDA.
#pragma once

#include <variant>
#include <vector>

#include "launch/pack.h"
#include "launch/quantize.h"
#include "problem/preparation.h"

namespace tilewright::launch {

/// The kernel of every copy along k, of either fp8 format and in any strides: codes stay as they are.
inline constexpr hopper::TransposeSpec copy_spec{.shifted = false};

using PreparationLaunch = std::variant<QuantizeLaunch, PackLaunch>;

/// In the order in which they run, one after another, before the product that `prepared` describes. Writes all of the
/// rows of a copy, with zeros behind k, and of packed weights what kernels read.
std::vector<PreparationLaunch> lower_preparation(const Preparation& preparation, void* workspace);

}  // namespace tilewright::launch
