// The recipe that a tile of the pack serves.
#pragma once

#include "hopper/tile.h"

namespace tilewright::test {

inline const char* tile_recipe(const hopper::Tile& tile) {
    if (tile.a_scaling == hopper::Scaling::after) return "row:row";
    return tile.b_scaling == hopper::Scaling::row_128 ? "1x128:1x128" : "1x128:128x128";
}

}  // namespace tilewright::test
