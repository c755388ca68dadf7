#include "launch/choose.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <algorithm>
#include <iterator>

#include "plan/legality.h"
#include "plan/work.h"

namespace tilewright::launch {
namespace {

/// Of this family and these formats.
void require_kernels(const planner::Work& work) {
    if (!planner::has_kernel(planner::family_tile(work))) {
        throw Error("no kernel serves " + work.key + "; run it on the CPU backend");
    }
}

}  // namespace

hopper::Tile chosen_tile(const Problem& problem, const DeviceDescription& device) {
    const Plan chosen = plan(problem, device);
    const planner::Work work = planner::describe(problem);
    require_kernels(work);
    return planner::device_tile(chosen.tile, planner::family_tile(work));
}

std::vector<Plan> runnable_plans(const Problem& problem, const DeviceDescription& device) {
    Explanation explanation = explain(problem, device);
    if (!explanation.chosen) throw Error(std::move(explanation.unavailable));
    const planner::Work work = planner::describe(problem);
    require_kernels(work);
    std::vector<Plan> plans{*explanation.chosen};
    std::ranges::copy_if(explanation.legal, std::back_inserter(plans),
                         [&](const Plan& plan) { return plan.tile != explanation.chosen->tile; });
    return plans;
}

hopper::Tile runnable_tile(const PlannedTile& tile, const Problem& problem, const DeviceDescription& device) {
    const planner::Work work = planner::describe(problem);
    const hopper::Tile wanted = planner::device_tile(tile, planner::family_tile(work));
    if (const auto objection = planner::why_illegal(wanted, work, device)) {
        throw Error(fmt::format("tile '{}': {}: {}", name(tile), objection->rule, objection->reason));
    }
    require_kernels(work);
    return wanted;
}

}  // namespace tilewright::launch
