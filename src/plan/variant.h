// A tile ships in up to four kernels; this is where it is decided which of them runs a call. The planner, the launch,
// the runtime and Python's drop-in all ask here.
#pragma once

#include <tilewright/plan.h>

#include "hopper/tile/tile.h"
#include "problem/geometry.h"

namespace tilewright::planner {

/// The tile specialised for this call:
/// - the fast variant where the call allows it. The order of A's scales decides which one; the variant for K-major
///   scales also takes all scales that TMA cannot load;
/// - otherwise the general variant, without multicast, because pairs of blocks ship only in fast variants;
/// - packed weights with wide rows: the kernel for exponent windows.
hopper::Tile variant(const Geometry& geometry, const hopper::Tile& tile);

/// Whether a launch may run this very kernel for the call.
bool serves(const Geometry& geometry, const hopper::Tile& tile);

KernelVariant variant_of(const hopper::Tile& tile);

}  // namespace tilewright::planner
