// The kernels that ship with the library. Every other tile is compiled when it is first asked for.
#pragma once

#include <vector>

#include "hopper/tile.h"

namespace tilewright::launch {

/// At most 200, all different, e4m3 x e4m3; the planner's favourites for each mode of scaling.
std::vector<hopper::Tile> pack();

/// Whether gemm.h can be compiled for this tile, if it is legal.
constexpr bool has_kernel(const hopper::Tile& tile) {
    const bool fp8 = hopper::bits(tile.a) == 8 && hopper::bits(tile.b) == 8;
    return fp8 && !tile.swap_ab && tile.split_k == 1 && tile.family != hopper::Family::k_grouped;
}

}  // namespace tilewright::launch
