// Which tiles a GPU can run for a problem, and in which order they are worth trying.
#pragma once

#include <tilewright/plan.h>

#include <vector>

#include "plan/planned_tile.h"
#include "problem/geometry.h"

namespace tilewright::planner {

/// The tile that runs if the caller names none. It does not depend on addresses and alpha: `variant` adds their part.
/// Throws Error if no tile can run.
hopper::Tile chosen_tile(const Problem& problem, const Geometry& geometry, const DeviceDescription& device);

/// The planner's choice first, then every other legal candidate, fastest first by its prediction; only tiles that
/// kernels can be compiled for. Throws Error where there is none.
std::vector<Plan> runnable_plans(const Problem& problem, const DeviceDescription& device);

/// The template parameters of the kernel for `tile`, without its variant. Throws Error with the reason if the tile is
/// illegal for the problem.
hopper::Tile runnable_tile(const PlannedTile& tile, const Problem& problem, const DeviceDescription& device);

}  // namespace tilewright::planner
