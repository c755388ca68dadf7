// The mainloop of a tile: it selects the loop, and the work of a warpgroup without rows.
#pragma once

#include "hopper/multiply/deferred.h"
#include "hopper/multiply/feed.h"
#include "hopper/multiply/feed_bf16.h"
#include "hopper/multiply/feed_packed.h"
#include "hopper/multiply/feed_windows.h"
#include "hopper/multiply/fill_next.h"
#include "hopper/multiply/scales_promote.h"
#include "hopper/multiply/stepwise.h"
#include "hopper/multiply/two_partials.h"
#include "hopper/multiply/unpromoted.h"
#include "hopper/multiply/wide_rows.h"
#include "hopper/multiply/windows.h"

namespace tilewright::hopper {

// ---- One partial accumulator

/// Multiplies one k-block, through all subtiles. While this tile's first wgmmas run, `store_subtile(subtile)` stores
/// the last tile's values from the subtile's accumulators.
template <Design design, class StoreSubtile>
TILEWRIGHT_DEVICE void multiply_k_block(Consumer<design>& c, Accumulators<design>& accumulators, Feed<design>& feed,
                                        Partial<design>& partial, PromotionScales<design>& scales, int k_block,
                                        const KBlockPlace& place, const StoreSubtile& store_subtile) {
    constexpr bool by_four = design.k_blocks_per_scale_copy == 4;
    // Narrow wgmmas complete before scales that are read after their issue arrive.
    constexpr bool rows_first = !by_four && (design.mma_b.scales_of_row > 0 || design.wgmma_n < 64);
    const int stage = c.ring.stage, k_block_in_copy = place.in_four % design.k_blocks_per_scale_copy;
    c.wait_full();
#pragma unroll
    for (int subtile = 0; subtile < design.subtiles; ++subtile) {
        scales.read_columns(c, subtile);
        if constexpr (rows_first) scales.read_rows(c, stage, subtile);
        begin_product<design>(c, feed, partial, subtile);
        if (subtile == 0 && (place.first || (by_four && k_block_in_copy == 0))) {
            next_block_scales(c, k_block);
            scales.read_blocks(c, k_block);
        }
        store_subtile(subtile);
        if (subtile == design.subtiles - 1) c.advance();
        if (!rows_first && k_block_in_copy == 0 && subtile % design.wgmmas_along_n == 0)
            scales.read_rows(c, stage, subtile);
        scales.multiply(subtile, k_block_in_copy);
        finish_product<design>(feed, partial);
        // Ahead of the promotion, so that the stage's refill starts earlier.
        if (subtile == design.subtiles - 1) c.release_previous();
        promote<design>(accumulators[subtile], partial, scales, subtile, place);
    }
    if (!by_four && k_block + 1 < c.k_blocks) {
        if (place.in_four == 3) next_block_scales(c, k_block + 1);
        scales.read_blocks(c, k_block + 1);
    }
}

/// All k-blocks of a tile; `store_subtile` as in `multiply_k_block`. The loop is unrolled, so that the work around a
/// k-block overlaps the previous k-block's promotion.
template <Design design, class StoreSubtile>
TILEWRIGHT_DEVICE void multiply_after_first(Consumer<design>& c, Accumulators<design>& accumulators,
                                            const StoreSubtile& store_subtile) {
    constexpr int unrolled = 4;
    Feed<design> feed(c);
    Partial<design> partial;
    PromotionScales<design> scales;
    multiply_k_block<design>(c, accumulators, feed, partial, scales, 0, {.first = true}, store_subtile);
    for (int k_block = 1; k_block < c.k_blocks;) {
#pragma unroll
        for (int i = 1; i <= unrolled; ++i) {
            multiply_k_block<design>(c, accumulators, feed, partial, scales, k_block, {.in_four = i % 4}, [](int) {});
            if (++k_block == c.k_blocks) break;  // a second loop for the rest would cost moves and spills
        }
    }
    sync_warp();  // without it one kernel spills
    release_block_scales(c);
}

/// One k-block of a tile with one subtile. All work that the next k-block's wgmmas wait for precedes this k-block's
/// promotion.
template <Design design>
TILEWRIGHT_DEVICE void multiply_one_subtile(Consumer<design>& c, Accumulators<design>& accumulators, Feed<design>& feed,
                                            Partial<design>& partial, PromotionScales<design>& scales, int k_block,
                                            bool ends_four) {
    static_assert(!design.swap_ab);  // it needs this k-block's 128x128 scale until the end
    const int stage = c.ring.stage;
    c.wait_full();
    scales.read_columns(c, 0);
    scales.read_rows(c, stage, 0);
    begin_product<design>(c, feed, partial, 0);
    scales.multiply(0, 0);
    finish_product<design>(feed, partial);
    c.release(stage);
    c.ring.advance();
    if (ends_four && k_block + 1 < c.k_blocks) next_block_scales(c, k_block + 1);
    scales.read_blocks(c, k_block + 1);  // after the end of k: read but not used
    promote<design>(accumulators[0], partial, scales, 0, {});
}

/// All k-blocks of a tile with one subtile, in fours without an exit. Within a four, ptxas moves the next k-block's
/// wait and address arithmetic into the current promotion. It does not move them across a branch.
template <Design design>
TILEWRIGHT_DEVICE void multiply_in_fours(Consumer<design>& c, Accumulators<design>& accumulators) {
    constexpr int four = 4;
    Feed<design> feed(c);
    Partial<design> partial;
    PromotionScales<design> scales;
    clear<design>(accumulators);
    next_block_scales(c, 0);
    scales.read_blocks(c, 0);
    int k_block = 0;
    for (; k_block + four <= c.k_blocks; k_block += four) {
#pragma unroll
        for (int i = 0; i < four; ++i) {
            multiply_one_subtile<design>(c, accumulators, feed, partial, scales, k_block + i, i == four - 1);
        }
    }
#pragma unroll 1
    for (; k_block < c.k_blocks; ++k_block)
        multiply_one_subtile<design>(c, accumulators, feed, partial, scales, k_block, false);
    sync_warp();
    release_block_scales(c);
}

// ---- The choice

/// The loops with partial sums of 128 k-elements; at least one k-block.
template <Design design>
TILEWRIGHT_DEVICE void multiply_blocks(Consumer<design>& c, Accumulators<design>& accumulators) {
    if constexpr (design.loop == Loop::two_partials) {
        multiply_two_partials<design>(c, accumulators, [](int) {});
    } else if constexpr (design.loop == Loop::filling_next) {
        multiply_filling_next<design>(c, accumulators, NoWindows<design>());
    } else if constexpr (design.loop == Loop::in_fours) {
        multiply_in_fours<design>(c, accumulators);
    } else {
        multiply_after_first<design>(c, accumulators, [](int) {});
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
    if constexpr (design.order.chain == step_k) {
        multiply_stepwise<design>(c, accumulators);
    } else if constexpr (design.order.chain == 0 && design.wide_rows) {
        multiply_wide_rows<design>(c, accumulators);
    } else if constexpr (design.order.chain == 0) {
        multiply_unpromoted<design>(c, accumulators);
    } else if (c.k_blocks == 0) {
        clear<design>(accumulators);
    } else if constexpr (design.feed == FeedKind::windowed) {
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
