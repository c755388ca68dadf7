// The mainloop of tiles in which a row's scales leave a power of two to the epilogue (docs/numerics.md). Scales of real
// models leave 1. So these tiles have a separate loop, without overlap, and the fast loops do not handle them.
#pragma once

#include "hopper/mainloop/promoted.h"
#include "hopper/mainloop/stepwise.h"
#include "hopper/mainloop/windows.h"

namespace tilewright::hopper {

/// Whether any row of the tile that `c` begins leaves a power of two; all warps get the same answer. The first k-block
/// has the same information as the epilogue scales. So only slices of k that begin later wait for the epilogue scales.
template <Tile tile>
TILEWRIGHT_DEVICE bool any_row_defers(Consumer<tile>& c) {
    static_assert(defers_scales(tile) && scales_mma_rows(tile) != scales_mma_columns(tile));
    const int count = scales_mma_rows(tile) ? tile.shape.m : tile.shape.n;
    bool any = false;
    if (c.k_blocks > 0 && (!splits_k(tile) || block_rank() == 0)) {
        c.await_full();
        const int stage = c.ring.stage;
        const float* const first = scales_mma_rows(tile) ? c.shared.mma_a_scales[stage] : c.shared.mma_b_scales[stage];
        for (int i = c.lane; i < count; i += warp_threads)
            any = any || formats::deferred_power(load_shared(first[i * k_blocks_per_scale_copy(tile)])) != 1;
    } else {
        wait_epilogue_scales<tile>(c);
        const int slot = c.epilogue_scales.stage;
        const float* const factors = scales_mma_rows(tile) ? c.shared.row_scales[slot] : c.shared.column_scales[slot];
        for (int i = c.lane; i < count; i += warp_threads) any = any || load_shared(factors[i]) != 1;
    }
    return ballot(any) != 0;
}

/// All k-blocks, at least one, with a partial sum per k-block of 128 k-elements.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_deferring_blocks(Consumer<tile>& c, Accumulators<tile>& accumulators) {
    static_assert(!has_block_scales(tile));
    Feed<tile> feed(c);
    Partial<tile> partial;
    PromotionScales<tile> scales;
    clear<tile>(accumulators);
#pragma unroll 1
    for (int k_block = 0; k_block < c.k_blocks; ++k_block) {
        const bool begins_copy = k_block % k_blocks_per_scale_copy(tile) == 0;
        c.wait_full();
        if (!begins_copy) scales.move_rows();
#pragma unroll
        for (int subtile = 0; subtile < subtiles<tile>; ++subtile) {
            pin(partial);
            wgmma_fence();
            feed.issue(c, partial, subtile, false);
            wgmma_commit();
            wgmma_wait<0>();
            pin(partial);
            feed.complete();
            scales.read_columns(c, subtile);
            scales.defer_columns(c, subtile);
            if (begins_copy && subtile % subtiles_along_n<tile> == 0) {
                scales.read_rows(c, c.ring.stage, subtile);
                scales.defer_rows(c, subtile / subtiles_along_n<tile>);
            }
            promote<tile>(accumulators[subtile], partial, scales, subtile, {});
        }
        sync_warp();  // all lanes have read their scales
        c.release(c.ring.stage);
        c.ring.advance();
    }
}

/// All k-blocks of such a tile.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_deferring(Consumer<tile>& c, Accumulators<tile>& accumulators) {
    wait_epilogue_scales<tile>(c);
    if constexpr (promotes_each_step(tile)) {
        multiply_stepwise<tile, true>(c, accumulators);
    } else if (c.k_blocks == 0) {
        clear<tile>(accumulators);
    } else if constexpr (has_windows(tile)) {
        multiply_windows_in_turn<tile, true>(c, accumulators, WideRows<tile>(c));
    } else {
        multiply_deferring_blocks<tile>(c, accumulators);
    }
    sync_warp();
}

}  // namespace tilewright::hopper
