// The plan of one call on a Hopper GPU, made once for each call. It has what is written into the workspace, the product
// that is left, and the kernel that multiplies it. `launch::lower` turns it into the parameters of a launch.
#pragma once

#include "hopper/description/design.h"
#include "plan/variant.h"
#include "problem/gpu_call.h"

namespace tilewright::planner {

/// A kernel for one product. The addresses, strides and alpha of the call decide what TMA can do.
struct KernelPlan {
    hopper::Design tile;         // with its variant
    bool stores_by_tma = false;  // TMA stores D, and loads C where there is one.
    bool scales_by_tma = false;  // TMA loads all 1x128 scales; false where there are none.
};

/// The kernel of the chosen tile that runs this product.
KernelPlan kernel_plan(const Geometry& product, const hopper::Kernel& chosen);

/// Exactly this kernel. Throws std::logic_error if it does not run this product.
KernelPlan given_kernel(const Geometry& product, const hopper::Kernel& kernel);

struct CallPlan {
    const GpuCall& call;  // It outlives the plan.
    KernelPlan kernel;
};

/// `chosen`: the tiles for calls of this kind (choose.h).
CallPlan call_plan(const GpuCall& call, const TileChoice& chosen);

}  // namespace tilewright::planner
