// Candidates, judged: the plan with the smallest cost, and everything that was not chosen.
#pragma once

#include <vector>

#include "plan/tuned.h"
#include "plan/work.h"

namespace tilewright::planner {

/// `explain` with other tuned rows than those that ship.
Explanation explain(const Problem& problem, const DeviceDescription& device, const std::vector<TunedRow>& rows);

/// The plan that runs: the tuned one, or the model's choice. For work that is not impossible (`obstacles`).
Plan choose(const Work& work, const DeviceDescription& device, const std::vector<TunedRow>& rows);

/// The plan that runs `tile`, whether it is legal or not.
Plan plan_of(const hopper::Tile& tile, const Work& work, const DeviceDescription& device);

}  // namespace tilewright::planner
