// Where a plan splits k, for the CPU to follow: cpu::ExactOptions::cuts, check::JudgeOptions::cuts.
#pragma once

#include <tilewright/plan.h>

#include <cstdint>
#include <vector>

#include "hopper/tile/tile.h"

namespace tilewright::planner {

/// Ascending multiples of the tile's k; none if it does not split k.
std::vector<std::int64_t> cuts(const hopper::Tile& tile, std::int64_t k);

/// Of the tile that a GPU runs for this problem where the caller names none; none where no kernel serves it.
std::vector<std::int64_t> planned_cuts(const Problem& problem, const DeviceDescription& device = h200());

}  // namespace tilewright::planner
