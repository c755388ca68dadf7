// The launches ahead of a product that write its workspace. No CUDA.
#pragma once

#include <variant>
#include <vector>

#include "launch/pack.h"
#include "launch/quantize.h"
#include "problem/preparation.h"

namespace tilewright::launch {

/// The kernel of every K-major copy, for either fp8 format and any strides: values stay unchanged.
inline constexpr hopper::TransposeSpec copy_spec{.shifted = false};

using PreparationLaunch = std::variant<QuantizeLaunch, PackLaunch>;

/// The launches in their order, one after another, ahead of the product that `prepared` describes. They write all rows
/// of a copy, with zeros after the end of k, and the parts of packed weights that kernels read.
std::vector<PreparationLaunch> lower_preparation(const Preparation& preparation, void* workspace);

}  // namespace tilewright::launch
