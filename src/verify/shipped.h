// Whether a call waits for a compiler on a GPU.
#pragma once

#include <tilewright/plan.h>
#include <tilewright/problem.h>

#include <vector>

#include "launch/kernels.h"

namespace tilewright::verify {

/// Whether the library has every kernel of this call, in the variant for memory that is aligned to 128 bytes. True for
/// all calls if the library was built without kernels. For calls that the Hopper backend accepts.
bool ships(const Problem& problem, const DeviceDescription& device);

/// Whether it has every kernel of these launches.
bool ships(const std::vector<launch::OtherLaunch>& launches);

}  // namespace tilewright::verify
