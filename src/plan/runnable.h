// Which tiles a GPU can run for a problem, and in which order they are worth trying.
#pragma once

#include <tilewright/plan.h>

#include <vector>

#include "hopper/tile/tile.h"
#include "problem/geometry.h"

namespace tilewright::planner {

/// What runs where the caller names no tile. Addresses and alpha do not matter: `variant` adds what depends on them.
/// Throws Error where there is none.
hopper::Tile chosen_tile(const Problem& problem, const Geometry& geometry, const DeviceDescription& device);

/// The planner's choice first, then every other legal candidate, fastest first by its prediction; only tiles that
/// kernels can be compiled for. Throws Error where there is none.
std::vector<Plan> runnable_plans(const Problem& problem, const DeviceDescription& device);

/// What the kernel for `tile` is built from, but for its variant. Throws Error with the reason where it is illegal for
/// the problem.
hopper::Tile runnable_tile(const PlannedTile& tile, const Problem& problem, const DeviceDescription& device);

}  // namespace tilewright::planner
