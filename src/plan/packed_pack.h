// The kernels for packed weights that ship.
#pragma once

#include <vector>

#include "hopper/tile/tile.h"

namespace tilewright::planner {

/// Tiles that ship in all variants.
std::vector<hopper::Tile> shipped_packed_tiles();

/// Kernels for weights that are packed for bf16.
std::vector<hopper::Tile> shipped_bf16_kernels();

/// Kernels for weights with wide rows.
std::vector<hopper::Tile> shipped_windowed_kernels();

}  // namespace tilewright::planner
