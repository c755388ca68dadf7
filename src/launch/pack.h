// The kernels that ship with the library. Every other tile is compiled when it is first asked for.
#pragma once

#include <vector>

#include "hopper/tile.h"

namespace tilewright::launch {

/// At most 200, all different, e4m3 x e4m3; the planner's favourites for each mode of scaling.
std::vector<hopper::Tile> pack();

}  // namespace tilewright::launch
