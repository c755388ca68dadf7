// The words of `explain`: a kernel, and what a call writes into its workspace first.
#pragma once

#include <tilewright/plan.h>

#include <vector>

#include "plan/call_plan.h"

namespace tilewright::planner {

/// How operands, scales and D travel through a kernel.
KernelPath kernel_path(const KernelPlan& kernel);

/// The operands that a call writes into its workspace before the product, with the reasons, in the order of the
/// launches.
std::vector<WorkspaceStep> workspace_steps(const GpuCall& call);

}  // namespace tilewright::planner
