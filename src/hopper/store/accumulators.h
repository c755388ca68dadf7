// A tile's finished accumulators in registers, fragment by fragment, and their way to shared memory as f32.
#pragma once

#include "hopper/block/ring.h"

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

/// Stages 16 rows and 32 columns (fewer at the tile's end) as f32, in swizzled rows of 128 bytes.
template <Design design>
TILEWRIGHT_DEVICE void stage_32_bit(const Accumulators<design>& accumulators, u8* to, int half, int column, int lane) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        if (column + j * 8 >= design.shape.n) break;
        const float* value = fragment<design>(accumulators, half, column + 8 * j);
        const int row = fragment_row(design, lane), chunk = j * 2 + lane % 4 / 2;
        const int swizzle = design.feed == FeedKind::transposed ? row % 8 : row;
        u8* place = to + row * row_bytes + (chunk ^ swizzle) * 16 + lane % 2 * 8;
        store_shared(*reinterpret_cast<Pair*>(place), {value[0], value[1]});
        // Rows that are 8 apart have one swizzle. The swizzles of a pair of rows differ in the lowest bit.
        if constexpr (design.feed == FeedKind::transposed)
            place = to + row * row_bytes + (chunk ^ swizzle ^ 1) * 16 + lane % 2 * 8;
        store_shared(*reinterpret_cast<Pair*>(place + fragment_row_step(design) * row_bytes), {value[2], value[3]});
    }
}

}  // namespace tilewright::hopper
