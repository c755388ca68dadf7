#include "launch/choose.h"

#include <fmt/format.h>
#include <tilewright/run.h>

#include "launch/pack.h"
#include "plan/legality.h"
#include "plan/work.h"

namespace tilewright::launch {

std::vector<Plan> runnable_plans(const Problem& problem, const DeviceDescription& device) {
    Explanation explanation = explain(problem, device);
    if (!explanation.chosen) throw Error(std::move(explanation.unavailable));
    const planner::Work work = planner::describe(problem);
    const hopper::Tile family = planner::family_tile(work);
    std::vector<Plan> plans;
    const auto add = [&](const Plan& plan) {
        if (has_kernel(planner::device_tile(plan.tile, family))) plans.push_back(plan);
    };
    add(*explanation.chosen);
    for (const Plan& plan : explanation.legal) {
        if (plan.tile != explanation.chosen->tile) add(plan);
    }
    if (plans.empty()) throw Error("no kernel serves " + work.key + "; run it on the CPU backend");
    return plans;
}

hopper::Tile runnable_tile(const PlannedTile& tile, const Problem& problem, const DeviceDescription& device) {
    const planner::Work work = planner::describe(problem);
    const hopper::Tile wanted = planner::device_tile(tile, planner::family_tile(work));
    if (const auto objection = planner::why_illegal(wanted, work, device)) {
        throw Error(fmt::format("tile '{}': {}: {}", name(tile), objection->rule, objection->reason));
    }
    if (!has_kernel(wanted)) {
        throw Error(fmt::format("tile '{}': legal, but no kernel is written for it (swap, split)", name(tile)));
    }
    return wanted;
}

}  // namespace tilewright::launch
