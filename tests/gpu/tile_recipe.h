// The calls that a tile of the pack serves.
#pragma once

#include <tilewright/problem.h>

#include "hopper/tile.h"

namespace tilewright::test {

inline const char* tile_recipe(const hopper::Tile& tile) {
    if (tile.a_scaling == hopper::Scaling::after) return "row:row";
    return tile.b_scaling == hopper::Scaling::row_128 ? "1x128:1x128" : "1x128:128x128";
}

/// `other` where groups have no sizes of their own.
inline Grouping tile_grouping(const hopper::Tile& tile, Grouping grouped = Grouping::m_grouped_offsets,
                              Grouping other = Grouping::dense) {
    return tile.grouped() ? grouped : other;
}

/// Of most tests.
inline int tile_groups(const hopper::Tile& tile) { return tile.grouped() ? 3 : 1; }

}  // namespace tilewright::test
