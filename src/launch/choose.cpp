#include "launch/choose.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <algorithm>
#include <iterator>

#include "plan/legality.h"
#include "plan/work.h"

namespace tilewright::launch {
namespace {}  // namespace

hopper::Tile chosen_tile(const Problem& problem, const DeviceDescription& device) {
    const Plan chosen = plan(problem, device);
    const planner::Work work = planner::describe(problem);
    return planner::device_tile(chosen.tile, planner::family_tile(work));
}

std::vector<Plan> runnable_plans(const Problem& problem, const DeviceDescription& device) {
    Explanation explanation = explain(problem, device);
    if (!explanation.chosen) throw Error(std::move(explanation.unavailable));
    const planner::Work work = planner::describe(problem);
    std::vector<Plan> plans{*explanation.chosen};
    std::ranges::copy_if(explanation.legal, std::back_inserter(plans),
                         [&](const Plan& plan) { return plan.tile != explanation.chosen->tile; });
    return plans;
}

hopper::Tile runnable_tile(const PlannedTile& tile, const Problem& problem, const DeviceDescription& device) {
    const planner::Work work = planner::describe(problem);
    if (std::vector<Finding> obstacles = planner::obstacles(work); !obstacles.empty())
        throw Error(std::move(obstacles));
    if (const auto objection = planner::why_illegal(tile, work, device)) {
        throw Error(fmt::format("tile '{}': {}: {}", name(tile), objection->rule, objection->reason));
    }
    return planner::device_tile(tile, planner::family_tile(work));
}

}  // namespace tilewright::launch
