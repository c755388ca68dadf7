// The mainloop of tiles in which a row's scales leave a power of two to the epilogue (docs/numerics.md). Scales of real
// models leave 1. So these tiles have a separate loop, without overlap, and the fast loops do not handle them.
#pragma once

#include "formats/codec.h"
#include "hopper/multiply/feed.h"
#include "hopper/multiply/scales_promote.h"
#include "hopper/multiply/stepwise.h"
#include "hopper/multiply/windows.h"

namespace tilewright::hopper {

/// Whether any row of the tile that `c` begins leaves a power of two; all warps get the same answer. The first k-block
/// has the same information as the epilogue scales. So only slices of k that begin later wait for the epilogue scales.
template <Design design>
TILEWRIGHT_DEVICE bool any_row_defers(Consumer<design>& c) {
    static_assert(design.order.defers && (design.mma_a.scales_of_row > 0) != (design.mma_b.scales_of_row > 0));
    const int count = design.mma_a.scales_of_row > 0 ? design.shape.m : design.shape.n;
    bool any = false;
    if (c.k_blocks > 0 && (design.cluster.k_slices == 1 || block_rank() == 0)) {
        c.await_full();
        const int stage = c.ring.stage;
        const float* const first =
            design.mma_a.scales_of_row > 0 ? c.shared.mma_a_scales[stage] : c.shared.mma_b_scales[stage];
        for (int i = c.lane; i < count; i += warp_threads)
            any = any || formats::deferred_power(load_shared(first[i * design.k_blocks_per_scale_copy])) != 1;
    } else {
        wait_epilogue_scales<design>(c);
        const int slot = c.epilogue_scales.stage;
        const float* const factors =
            design.mma_a.scales_of_row > 0 ? c.shared.row_scales[slot] : c.shared.column_scales[slot];
        for (int i = c.lane; i < count; i += warp_threads) any = any || load_shared(factors[i]) != 1;
    }
    return ballot(any) != 0;
}

/// All k-blocks, at least one, with a partial sum per k-block of 128 k-elements.
template <Design design>
TILEWRIGHT_DEVICE void multiply_deferring_blocks(Consumer<design>& c, Accumulators<design>& accumulators) {
    static_assert(design.block_scales_per_k_block == 0);
    Feed<design> feed(c);
    Partial<design> partial;
    PromotionScales<design> scales;
    clear<design>(accumulators);
#pragma unroll 1
    for (int k_block = 0; k_block < c.k_blocks; ++k_block) {
        const bool begins_copy = k_block % design.k_blocks_per_scale_copy == 0;
        c.wait_full();
        if (!begins_copy) scales.move_rows();
#pragma unroll
        for (int subtile = 0; subtile < design.subtiles; ++subtile) {
            begin_product<design>(c, feed, partial, subtile);
            finish_product<design>(feed, partial);
            scales.read_columns(c, subtile);
            scales.defer_columns(c, subtile);
            if (begins_copy && subtile % design.wgmmas_along_n == 0) {
                scales.read_rows(c, c.ring.stage, subtile);
                scales.defer_rows(c, subtile / design.wgmmas_along_n);
            }
            promote<design>(accumulators[subtile], partial, scales, subtile, {});
        }
        sync_warp();  // all lanes have read their scales
        c.release(c.ring.stage);
        c.ring.advance();
    }
}

/// All k-blocks of such a tile.
template <Design design>
TILEWRIGHT_DEVICE void multiply_deferring(Consumer<design>& c, Accumulators<design>& accumulators) {
    wait_epilogue_scales<design>(c);
    if constexpr (design.order.chain == step_k) {
        multiply_stepwise<design, true>(c, accumulators);
    } else if (c.k_blocks == 0) {
        clear<design>(accumulators);
    } else if constexpr (design.feed == FeedKind::windowed) {
        multiply_windows_in_turn<design, true>(c, accumulators, WideRows<design>(c));
    } else {
        multiply_deferring_blocks<design>(c, accumulators);
    }
    sync_warp();
}

}  // namespace tilewright::hopper
