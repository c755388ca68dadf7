// The tiles that are illegal. Each reason is stated once, in words with its numbers.
#pragma once

#include <tilewright/plan.h>

#include <optional>

#include "plan/planned_tile.h"
#include "plan/workload.h"

namespace tilewright::planner {

/// Throws Error with the reasons if no Hopper kernel supports the problem, whatever the tile.
void require_support(const Workload& work);

/// Why this tile cannot be built, or not for this work on this device; nothing if it can.
std::optional<RejectedTile> why_illegal(const hopper::Kernel& kernel, const Workload& work,
                                        const DeviceDescription& device);

/// The same for a tile that a person or a tuned row named, whose fields may contradict each other.
std::optional<RejectedTile> why_illegal(const PlannedTile& tile, const Workload& work, const DeviceDescription& device);

}  // namespace tilewright::planner
