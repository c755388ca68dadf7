// The public view of a tile (PlannedTile) and the kernel's.
#pragma once

#include <tilewright/plan.h>

#include "hopper/tile/tile.h"

namespace tilewright::planner {

/// The kernel's tile for `tile`, with everything else from `family`; and back.
hopper::Tile device_tile(const PlannedTile& tile, const hopper::Tile& family);
PlannedTile planned_tile(const hopper::Tile& tile);

}  // namespace tilewright::planner
