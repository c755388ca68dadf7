// The mainloop of a tile: it selects one of eight loops, and the work of a warpgroup without rows.
#pragma once

#include "hopper/multiply/deferred.h"
#include "hopper/multiply/fill_next.h"
#include "hopper/multiply/promoted.h"
#include "hopper/multiply/stepwise.h"
#include "hopper/multiply/two_partials.h"
#include "hopper/multiply/unpromoted.h"
#include "hopper/multiply/wide_rows.h"
#include "hopper/multiply/windows.h"

namespace tilewright::hopper {

/// The loops with partial sums of 128 k-elements; at least one k-block.
template <Design design>
TILEWRIGHT_DEVICE void multiply_blocks(Consumer<design>& c, Accumulators<design>& accumulators) {
    if constexpr (design.partials_in_flight == 2) {
        multiply_two_partials<design>(c, accumulators, [](int) {});
    } else if constexpr (design.loop == Loop::filling_next) {
        multiply_filling_next<design>(c, accumulators, NoWindows<design>());
    } else {
        multiply_promoted<design>(c, accumulators);
    }
}

/// The same if rows of weights may be wide. If any row of the warpgroup is wide, it multiplies window by window.
template <Design design>
TILEWRIGHT_DEVICE void multiply_windows(Consumer<design>& c, Accumulators<design>& accumulators) {
    wait_epilogue_scales<design>(c);
    const WideRows<design> wide(c);
    if (!wide.any) {
        multiply_blocks<design>(c, accumulators);
    } else if constexpr (design.fills_next_window) {
        multiply_filling_next<design>(c, accumulators, Windows<design>(wide));
    } else {
        multiply_windows_in_turn<design, false>(c, accumulators, wide);
    }
    sync_warp();
}

/// Computes the accumulators of one tile, without epilogue scales.
template <Design design>
TILEWRIGHT_DEVICE void multiply(Consumer<design>& c, Accumulators<design>& accumulators) {
    if constexpr (design.order.defers) {
        c.defers = any_row_defers<design>(c);
        if (c.defers) return multiply_deferring<design>(c, accumulators);
    }
    if constexpr (design.loop == Loop::steps) {
        multiply_stepwise<design>(c, accumulators);
    } else if constexpr (design.has_wide_steps()) {
        multiply_wide_rows<design>(c, accumulators);
    } else if constexpr (design.order.chain == 0) {
        multiply_unpromoted<design>(c, accumulators);
    } else if (c.k_blocks == 0) {
        clear<design>(accumulators);
    } else if constexpr (design.has_windows()) {
        multiply_windows<design>(c, accumulators);
    } else {
        multiply_blocks<design>(c, accumulators);
    }
}

/// A tile in which this warpgroup has no row: it releases the stages unread.
template <Design design>
TILEWRIGHT_DEVICE void skip_tile(Consumer<design>& c) {
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
