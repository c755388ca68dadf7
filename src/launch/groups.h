// Groups as a launch sees them: the place of their sizes, and the largest number of their tiles.
#pragma once

#include "hopper/arguments.h"
#include "hopper/description/kernel.h"
#include "problem/geometry.h"

namespace tilewright::launch {

/// For the kernel, which is the only reader of the sizes; empty for calls without groups.
hopper::GroupSizes group_sizes(const Geometry& geometry);

/// Limits a count to a number that is enough for any GPU. The product of three such counts does not overflow.
std::int64_t clamp_count(std::int64_t count);

/// The largest number of row tiles of all groups together. In a cluster along the rows they are counted in pairs.
std::int64_t row_tiles(const Geometry& geometry, int rows);

}  // namespace tilewright::launch
