// The tiles that the planner considers: a fixed list, legal or not, so that `explain` can say why one is not.
#pragma once

#include <vector>

#include "hopper/tile/tile.h"

namespace tilewright::planner {

/// All of them, with formats, scaling and family from `family`.
std::vector<hopper::Tile> candidates(const hopper::Tile& family);

}  // namespace tilewright::planner
