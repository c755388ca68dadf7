// Scales in the mainloop whose row leaves a power of two to the end (docs/numerics.md). That is 1 for scales of real
// models, so that a warp looks once for each tile whether any of its rows has another, and multiplies only then.
#pragma once

#include "hopper/block/consumer.h"

namespace tilewright::hopper {

/// Before the first scale of a tile is read: waits for what its rows leave to the end.
template <Tile tile>
TILEWRIGHT_DEVICE void begin_deferring(Consumer<tile>& c) {
    if constexpr (defers_scales(tile)) {
        wait_epilogue_scales<tile>(c);
        const int slot = c.epilogue_scales.stage, count = scales_mma_rows(tile) ? tile.shape.m : tile.shape.n;
        const float* const factors = scales_mma_rows(tile) ? c.shared.row_scales[slot] : c.shared.column_scales[slot];
        bool any = false;
        for (int i = c.lane; i < count; i += warp_threads) any = any || load_shared(factors[i]) != 1;
        c.defers = ballot(any) != 0;
    }
}

}  // namespace tilewright::hopper
