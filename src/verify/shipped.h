// Whether a call waits for a compiler on a GPU.
#pragma once

#include <tilewright/plan.h>
#include <tilewright/problem.h>

#include <vector>

#include "launch/quantize.h"

namespace tilewright::verify {

/// Whether the library has every kernel of this call, in the variant for memory that is aligned to 128 bytes; true for
/// all calls of a library that was built without kernels. For calls that the Hopper backend takes.
bool ships(const Problem& problem, const DeviceDescription& device);

/// The same of a quantiser's.
bool ships(const std::vector<launch::QuantizeLaunch>& launches);

}  // namespace tilewright::verify
