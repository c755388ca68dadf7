// The kernels that are not products and that the tests of this folder run: all that ship, and others by kind.
#pragma once

#include "launch/other_kernels.h"

#include <vector>

namespace tilewright::tests {

/// Each has a generated file.
inline constexpr const char* other_programs[] = {launch::quantize_source, launch::pack_source, launch::moe_source};

/// Some more than once.
std::vector<launch::OtherKernel> other_kernels();

}  // namespace tilewright::tests
