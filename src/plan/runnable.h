// Which tiles a GPU can run for a problem, and in which order they are worth trying.
#pragma once

#include <tilewright/plan.h>

#include <vector>

#include "plan/planned_tile.h"
#include "plan/variant.h"
#include "problem/gpu_call.h"

namespace tilewright::planner {

/// The tiles of all calls that differ from this one only in addresses and alpha, if the caller names none. Throws Error
/// if no tile can run.
TileChoice chosen_tiles(const Problem& problem, const GpuCall& call, const DeviceDescription& device);

/// The one of them that this call takes.
hopper::Kernel chosen_tile(const Problem& problem, const GpuCall& call, const DeviceDescription& device);

/// The planner's choice first, then every other legal candidate, fastest first by its prediction; only tiles that
/// kernels can be compiled for. Throws Error where there is none.
std::vector<Plan> runnable_plans(const Problem& problem, const DeviceDescription& device);

/// The template parameters of the kernel for `tile`, without its variant. Throws Error with the reason if the tile is
/// illegal for the problem.
hopper::Kernel runnable_tile(const PlannedTile& tile, const Problem& problem, const DeviceDescription& device);

}  // namespace tilewright::planner
