// The tiles that tests run on a GPU: those of the pack, and those that the planner will not choose before they have run
// here (plan/legality.h, why_unproven).
#pragma once

#include <vector>

#include "hopper/tile.h"

namespace tilewright::test {

std::vector<hopper::Tile> gpu_tiles();

}  // namespace tilewright::test
