// Groups as a launch sees them: where their sizes are, and how many tiles they can have.
#pragma once

#include "hopper/arguments.h"
#include "hopper/tile/tile.h"
#include "problem/geometry.h"

namespace tilewright::launch {

/// For the kernel, which alone reads them; nothing where there are none.
hopper::GroupSizes group_sizes(const Geometry& geometry);

/// At most what is enough for any GPU; three such counts multiply without overflow.
std::int64_t clamp_count(std::int64_t count);

/// Row tiles of all groups together, at most; in a cluster along the rows, in pairs.
std::int64_t row_tiles(const Geometry& geometry, int rows);

}  // namespace tilewright::launch
