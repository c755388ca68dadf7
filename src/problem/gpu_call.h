// A call as a Hopper GPU runs it: what the caller gave, what is written into the workspace first, and the product that
// is left. It is made once for each call. The check of the workspace, the planner and the launch read it.
#pragma once

#include "problem/geometry.h"
#include "problem/workspace_plan.h"

namespace tilewright {

struct GpuCall {
    Geometry geometry{};     // as the caller gave it
    WorkspacePlan before{};  // what is written into the workspace before the product
    Geometry product{};      // the call as the kernel reads it
};

/// For a problem in which `validate` finds nothing. Without memory for the workspace, operands in it have no addresses.
GpuCall gpu_call(const Problem& problem, const void* workspace = nullptr);
GpuCall gpu_call(const Geometry& geometry, const void* workspace = nullptr);

/// The same call if its packed weights were not expanded.
GpuCall without_expansion(const GpuCall& call);

}  // namespace tilewright
