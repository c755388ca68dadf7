#include "problem/gpu_call.h"

namespace tilewright {

GpuCall gpu_call(const Problem& problem, const void* workspace) { return gpu_call(geometry(problem), workspace); }

GpuCall gpu_call(const Geometry& geometry, const void* workspace) {
    GpuCall call{.geometry = geometry, .before = workspace_plan(geometry)};
    call.product = after_workspace(geometry, call.before, workspace);
    return call;
}

GpuCall without_expansion(const GpuCall& call) {
    GpuCall other{.geometry = call.geometry, .before = without_expansion(call.before)};
    other.product = after_workspace(other.geometry, other.before, nullptr);
    return other;
}

}  // namespace tilewright
