// Candidates, judged: the plan with the smallest cost, and everything that was not chosen.
#pragma once

#include <vector>

#include "plan/tuned.h"
#include "plan/variant.h"
#include "plan/workload.h"

namespace tilewright::planner {

/// `explain` with other tuned rows than the shipped ones.
Explanation explain(const Problem& problem, const DeviceDescription& device, const std::vector<TunedRow>& rows);

/// The tiles of this kind of calls: the tuned tile, or the model's choice. Calls that need a general kernel take this
/// tile too if its general kernel ships, else the best of those with one. For work without findings of `unsupported`.
TileChoice choose_tiles(const Workload& work, const DeviceDescription& device, const std::vector<TunedRow>& rows);

/// The tile that runs, without its variant: that of `choose_tiles` for the work's geometry.
hopper::Kernel choose(const Workload& work, const DeviceDescription& device, const std::vector<TunedRow>& rows);

struct PricedTile {
    hopper::Kernel tile;
    Cost cost;
};

/// Seconds of plans within this factor count as the same. On shapes that the model was not fitted to, anything from
/// 1.005 to 1.02 chooses better than 1 (docs/experiments/014-fewest-bytes.md).
inline constexpr double no_difference = 1.01;

/// Whether the stores of the last tiles count where memory is the bound: D is a large part of the bytes. They do not
/// count:
/// - with C, because small tiles are slower than others then (docs/experiments/014-fewest-bytes.md);
/// - for groups: if a few groups have all rows, compute is the bound, and small tiles are slow.
bool last_stores_count(const Workload& work);

/// The same where memory is the bound and `last_stores_count`: from 1.015 to 1.03 the choices are alike
/// (docs/experiments/014-fewest-bytes.md).
inline constexpr double no_difference_of_stores = 1.02;

/// The cheapest tile, or one that is as good:
/// - If compute is the bound, tiles within `no_difference` count as equal. The one with the fewest L2 bytes is taken,
///   because the model does not know their energy.
/// - If memory is the bound and `last_stores_count`, the smallest tile within `no_difference_of_stores` is taken.
/// - Exact ties: no split, no cluster, fewer stages.
const PricedTile& best_of(const std::vector<PricedTile>& tiles, bool last_stores_count);

/// The plan that runs `tile` in the variant for this call, whether it is legal or not.
Plan plan_of(const hopper::Kernel& tile, const Workload& work, const DeviceDescription& device);

}  // namespace tilewright::planner
