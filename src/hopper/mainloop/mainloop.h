// The mainloop of a tile: it selects one of eight loops, and the work of a warpgroup without rows.
#pragma once

#include "hopper/mainloop/deferred.h"
#include "hopper/mainloop/fill_next.h"
#include "hopper/mainloop/promoted.h"
#include "hopper/mainloop/stepwise.h"
#include "hopper/mainloop/two_partials.h"
#include "hopper/mainloop/unpromoted.h"
#include "hopper/mainloop/wide_rows.h"
#include "hopper/mainloop/windows.h"

namespace tilewright::hopper {

/// The loops with partial sums of 128 k-elements; at least one k-block.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_blocks(Consumer<tile>& c, Accumulators<tile>& accumulators) {
    if constexpr (partials_in_flight(tile) == 2) {
        multiply_two_partials<tile>(c, accumulators, [](int) {});
    } else if constexpr (fills_next(tile)) {
        multiply_filling_next<tile>(c, accumulators, NoWindows<tile>());
    } else {
        multiply_promoted<tile>(c, accumulators);
    }
}

/// The same if rows of weights may be wide. If any row of the warpgroup is wide, it multiplies window by window.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_windows(Consumer<tile>& c, Accumulators<tile>& accumulators) {
    wait_epilogue_scales<tile>(c);
    const WideRows<tile> wide(c);
    if (!wide.any) {
        multiply_blocks<tile>(c, accumulators);
    } else if constexpr (fills_next_of_windows(tile)) {
        multiply_filling_next<tile>(c, accumulators, Windows<tile>(wide));
    } else {
        multiply_windows_in_turn<tile, false>(c, accumulators, wide);
    }
    sync_warp();
}

/// Computes the accumulators of one tile, without epilogue scales.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply(Consumer<tile>& c, Accumulators<tile>& accumulators) {
    if constexpr (defers_scales(tile)) {
        c.defers = any_row_defers<tile>(c);
        if (c.defers) return multiply_deferring<tile>(c, accumulators);
    }
    if constexpr (promotes_each_step(tile)) {
        multiply_stepwise<tile>(c, accumulators);
    } else if constexpr (has_wide_rows(tile)) {
        multiply_wide_rows<tile>(c, accumulators);
    } else if constexpr (promotion_interval(tile) == 0) {
        multiply_unpromoted<tile>(c, accumulators);
    } else if (c.k_blocks == 0) {
        clear<tile>(accumulators);
    } else if constexpr (has_windows(tile)) {
        multiply_windows<tile>(c, accumulators);
    } else {
        multiply_blocks<tile>(c, accumulators);
    }
}

/// A tile in which this warpgroup has no row: it releases the stages unread.
template <Tile tile>
TILEWRIGHT_DEVICE void skip_tile(Consumer<tile>& c) {
    for (int k_block = 0; k_block < c.k_blocks; ++k_block) {
        next_block_scales(c, k_block);
        c.wait_full();
        sync_warp();  // no wgmma keeps the lanes together here
        c.release(c.ring.stage);
        c.ring.advance();
    }
    if (c.k_blocks > 0) release_block_scales(c);
}

}  // namespace tilewright::hopper
