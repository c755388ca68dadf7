// The operands that a call writes into its workspace before the product, with the reasons, in words for `explain`.
#pragma once

#include <tilewright/plan.h>

#include <vector>

#include "problem/gpu_call.h"

namespace tilewright::planner {

/// In the order of the launches.
std::vector<WorkspaceStep> workspace_steps(const GpuCall& call);

}  // namespace tilewright::planner
