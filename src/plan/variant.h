// A tile ships in up to four kernels; this is where it is decided which of them runs a call. The planner, the launch,
// the runtime and Python's drop-in all ask here.
#pragma once

#include <tilewright/plan.h>

#include "hopper/tile/tile.h"
#include "problem/geometry.h"

namespace tilewright::planner {

/// The tile specialised for this call: the fast variant where the call allows it, by the order of A's scales (that for
/// K-major scales takes all that TMA cannot load, too); the general one otherwise, without multicast, for pairs of
/// blocks ship in fast variants alone. Packed weights with wide rows take its kernel for windows of scales.
hopper::Tile variant(const Geometry& geometry, const hopper::Tile& tile);

/// Whether a launch may run this very kernel for the call.
bool serves(const Geometry& geometry, const hopper::Tile& tile);

KernelVariant variant_of(const hopper::Tile& tile);

}  // namespace tilewright::planner
