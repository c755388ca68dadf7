// Groups as a launch sees them: how many matrices there are, where their sizes lie, how many tiles they can have.
#pragma once

#include "hopper/arguments.h"
#include "hopper/tile/tile.h"
#include "problem/geometry.h"

namespace tilewright::launch {

/// Of A, D and C. The rows of contiguous groups lie in one matrix.
std::int64_t matrices(const Geometry& geometry);

/// For the kernel, which alone reads them; nothing where there are none.
hopper::GroupSizes group_sizes(const Geometry& geometry);

/// Row tiles of all groups together, at most; in a cluster along the rows, in pairs.
std::int64_t row_tiles(const Geometry& geometry, int rows);

}  // namespace tilewright::launch
