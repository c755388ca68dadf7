// The candidate tiles of a call: the tiles of plan/pack.h with its scaling, accumulation and family.
#pragma once

#include <vector>

#include "hopper/tile/tile.h"

namespace tilewright::planner {

/// The tiles that ship, each once, for the scaling, accumulation and family of this one. Other value formats than e4m3
/// are served by the same tile shapes, compiled on first use.
std::vector<hopper::Tile> shipped_tiles(const hopper::Tile& family);

bool ships(const hopper::Tile& tile);

/// The candidate tiles for a pair of scales without shipped kernels (`has_fast_scales`). They are the tiles of 1x128 :
/// 128x128 with the shapes that serve groups, as one block. Compiled on first use. None of them was measured.
std::vector<hopper::Tile> unshipped_tiles(const hopper::Tile& family);

/// The tiles for expanded weights. Tiles for 1x32 scales do not ship.
std::vector<hopper::Tile> expanded_tiles(const hopper::Tile& family);

}  // namespace tilewright::planner
