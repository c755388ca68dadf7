#include "plan/call_plan.h"

#include <stdexcept>

#include "plan/planned_tile.h"
#include "plan/tma.h"

namespace tilewright::planner {
namespace {

KernelPlan with_tma(const Geometry& product, const hopper::Design& kernel) {
    return {.tile = kernel,
            .stores_by_tma = stores_by_tma(product, kernel),
            .scales_by_tma = loads_scales_by_tma(product, kernel)};
}

}  // namespace

KernelPlan kernel_plan(const Geometry& product, const hopper::Kernel& chosen) {
    return with_tma(product, variant(product, chosen));
}

KernelPlan given_kernel(const Geometry& product, const hopper::Kernel& kernel) {
    const hopper::Design design = hopper::Design(kernel);
    if (!can_run(product, design))
        throw std::logic_error("another variant of " + name(planned_tile(kernel)) + " serves");
    return with_tma(product, design);
}

CallPlan call_plan(const GpuCall& call, const TileChoice& chosen) {
    return {.call = call, .kernel = with_tma(call.product, variant(call.product, chosen))};
}

}  // namespace tilewright::planner
