#include "plan/runnable.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <algorithm>
#include <iterator>

#include "plan/choose.h"
#include "plan/legality.h"
#include "plan/workload.h"

namespace tilewright::planner {

TileChoice chosen_tiles(const Problem& problem, const GpuCall& call, const DeviceDescription& device) {
    const Workload work = workload(problem, call);
    require_support(work);
    return choose_tiles(work, device, tuned_rows());
}

hopper::Kernel chosen_tile(const Problem& problem, const GpuCall& call, const DeviceDescription& device) {
    return tile_of(chosen_tiles(problem, call, device), call.product);
}

std::vector<Plan> runnable_plans(const Problem& problem, const DeviceDescription& device) {
    Explanation explanation = explain(problem, device);
    if (!explanation.chosen) throw Error(std::move(explanation.unavailable));
    std::vector<Plan> plans{*explanation.chosen};
    std::ranges::copy_if(explanation.legal, std::back_inserter(plans),
                         [&](const Plan& plan) { return plan.tile != explanation.chosen->tile; });
    return plans;
}

hopper::Kernel runnable_tile(const PlannedTile& tile, const Problem& problem, const DeviceDescription& device) {
    const Workload work = workload(problem);
    require_support(work);
    if (const auto objection = why_illegal(tile, work, device)) {
        throw Error(fmt::format("tile '{}': {}: {}", name(tile), objection->rule, objection->reason));
    }
    return device_tile(tile, shapeless_kernel(work));
}

}  // namespace tilewright::planner
