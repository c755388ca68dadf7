// Memory that a call on a GPU needs beyond its operands, and what can be wrong with it.
#pragma once

#include <tilewright/run.h>

#include <cstdint>
#include <vector>

namespace tilewright {

/// Its address and all offsets in it are multiples of this.
inline constexpr std::int64_t workspace_alignment = 128;

/// For a problem in which `validate` finds nothing for the backend hopper.
std::vector<Finding> check_workspace(const Problem& problem, const Workspace& workspace);

}  // namespace tilewright
