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

struct PricedTile {
    hopper::Tile tile;
    Cost cost;
};

/// Seconds of plans within this factor count as the same. On shapes that the model was not fitted to, anything from
/// 1.005 to 1.02 chooses better than 1 (docs/tried.md).
inline constexpr double no_difference = 1.01;

/// The one to take of some for the same work: the fastest; where that makes no difference, no split, no cluster, a
/// deeper ring. Of work that memory does not bound: first the one that brings the fewest bytes to the SMs, for the
/// model does not know their energy.
const PricedTile& best_of(const std::vector<PricedTile>& tiles);

/// The plan that runs `tile`, whether it is legal or not.
Plan plan_of(const hopper::Tile& tile, const Work& work, const DeviceDescription& device);

}  // namespace tilewright::planner
