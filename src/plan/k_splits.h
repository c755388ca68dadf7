// Where a plan splits k. The CPU's bit-exact arithmetic follows: cpu::ExactOptions::k_splits, check::judge.
#pragma once

#include <tilewright/plan.h>

#include <cstdint>
#include <vector>

#include "hopper/description/kernel.h"

namespace tilewright::planner {

/// Ascending multiples of the tile's k; none if it does not split k.
std::vector<std::int64_t> k_splits(const hopper::Kernel& tile, std::int64_t k);

/// The splits of the tile that this device runs if the caller names none; none where no kernel supports the problem.
std::vector<std::int64_t> planned_k_splits(const Problem& problem, const DeviceDescription& device);

}  // namespace tilewright::planner
