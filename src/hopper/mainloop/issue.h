// The wgmmas of one subtile and k-block, both operands from shared memory.
#pragma once

#include "hopper/block/consumer.h"

namespace tilewright::hopper {

/// d (+)= the subtile's rows of mma A times its rows of mma B, of the stage `c.ring`.
template <Tile tile>
TILEWRIGHT_DEVICE void issue(Consumer<tile>& c, float (&d)[subtile_registers<tile>], int subtile, bool accumulate) {
    constexpr int descriptor_bytes = 16, wgmma_k_bytes = 32;
    const int rows = subtile / wgmmas_along_n(tile) * wgmma_m;
    const int columns = subtile % wgmmas_along_n(tile) * wgmma_n(tile);
    const MatrixDescriptor a =
        c.mma_a_descriptor + (c.ring.stage * tile.shape.m + rows) * (row_bytes / descriptor_bytes);
    const MatrixDescriptor b =
        c.mma_b_descriptor + (c.ring.stage * tile.shape.n + columns) * (row_bytes / descriptor_bytes);
#pragma unroll
    for (int step = 0; step < row_bytes / wgmma_k_bytes; ++step) {
        wgmma<wgmma_n(tile), mma_a(tile).spec.storage, mma_b(tile).spec.storage>(
            d, a + step * (wgmma_k_bytes / descriptor_bytes), b + step * (wgmma_k_bytes / descriptor_bytes),
            accumulate || step > 0);
    }
}

}  // namespace tilewright::hopper
