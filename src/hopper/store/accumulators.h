// A tile's finished accumulators in registers, fragment by fragment.
#pragma once

#include "hopper/block/consumer.h"

namespace tilewright::hopper {

/// Columns `column` .. `column` + 7 of the tile, in the warp's 16 rows of `half`.
template <Design design>
TILEWRIGHT_DEVICE const float* fragment(const Accumulators<design>& accumulators, int half, int column) {
    constexpr int columns = design.wgmma_n;
    return &accumulators[half * design.wgmmas_along_n + column / columns][column % columns / 2];
}

template <Design design>
TILEWRIGHT_DEVICE float* fragment(Accumulators<design>& accumulators, int half, int column) {
    constexpr int columns = design.wgmma_n;
    return &accumulators[half * design.wgmmas_along_n + column / columns][column % columns / 2];
}

}  // namespace tilewright::hopper
