// The launches ahead of a product that write its workspace. No CUDA.
#pragma once

#include <vector>

#include "launch/kernels.h"
#include "problem/workspace_plan.h"

namespace tilewright::launch {

/// The kernel of every K-major copy, for either fp8 format and any strides: values stay unchanged.
inline constexpr hopper::TransposeSpec copy_spec{.shifted = false};

/// The launches in their order, one after another, ahead of the product of `after_workspace`. They write all rows
/// of a copy, with zeros after the end of k, and the parts of packed weights that kernels read.
std::vector<OtherLaunch> lower_workspace(const WorkspacePlan& plan, void* workspace);

}  // namespace tilewright::launch
