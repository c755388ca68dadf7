// A tile's finished accumulators in registers, fragment by fragment.
#pragma once

#include "hopper/block/consumer.h"

namespace tilewright::hopper {

/// Columns `column` .. `column` + 7 of the tile, in the warp's 16 rows of `half`.
template <Tile tile>
TILEWRIGHT_DEVICE const float* fragment(const Accumulators<tile>& accumulators, int half, int column) {
    constexpr int columns = subtile_columns<tile>;
    return &accumulators[half * subtiles_along_n<tile> + column / columns][column % columns / 2];
}

template <Tile tile>
TILEWRIGHT_DEVICE float* fragment(Accumulators<tile>& accumulators, int half, int column) {
    constexpr int columns = subtile_columns<tile>;
    return &accumulators[half * subtiles_along_n<tile> + column / columns][column % columns / 2];
}

}  // namespace tilewright::hopper
