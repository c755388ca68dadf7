// The calls that a tile of the pack serves.
#pragma once

#include <tilewright/problem.h>

#include "hopper/tile/tile.h"

namespace tilewright::test {

inline const char* tile_recipe(const hopper::Tile& tile) {
    if (tile.a_scaling == hopper::Scaling::after) return "row:row";
    return tile.b_scaling == hopper::Scaling::row_128 ? "1x128:1x128" : "1x128:128x128";
}

/// Where groups begin anywhere, TMA takes scales by row alone: other plain kernels run with groups of their own.
inline Grouping tile_groups_of(const hopper::Tile& tile) {
    const bool separate = tile.plain && tile.scales_rows() && !tile.scales_by_row;
    return separate ? Grouping::m_grouped_masked : Grouping::m_grouped_offsets;
}

inline Grouping tile_grouping(const hopper::Tile& tile) {
    return tile.grouped() ? tile_groups_of(tile) : Grouping::dense;
}

/// Of most tests.
inline int tile_groups(const hopper::Tile& tile) { return tile.grouped() ? 3 : 1; }

}  // namespace tilewright::test
