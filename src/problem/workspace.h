// Memory that a call on a GPU needs in addition to its operands, and the checks of it.
#pragma once

#include <tilewright/run.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilewright {

struct WorkspacePlan;

/// Its address and all offsets in it are multiples of this.
inline constexpr std::int64_t workspace_alignment = 128;

/// Where `at` is in the workspace. Without memory: without an address.
inline const void* in_workspace(const void* workspace, std::int64_t at) {
    return workspace == nullptr ? nullptr : static_cast<const std::byte*>(workspace) + at;
}

/// Whether the memory is enough for the plan of this problem, in which `validate` finds nothing for the backend hopper.
std::vector<Finding> check_workspace(const Problem& problem, const WorkspacePlan& plan, const Workspace& workspace);

}  // namespace tilewright
