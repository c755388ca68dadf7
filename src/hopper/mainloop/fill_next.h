// The mainloop with one partial accumulator of tiles whose mma A is made in registers: while the tensor core multiplies
// 64 rows, the fragments of the next 64 are made in other registers, those of a warpgroup's second half or of the next
// k-block. Only then is the product waited for and promoted.
#pragma once

#include "hopper/mainloop/promoted.h"

namespace tilewright::hopper {

/// The order of a k-block's wgmmas. Those of the same columns follow one another, so that scales of columns are read
/// once for a warpgroup's 128 rows, and the half that was multiplied last is the first of the next columns.
template <Tile tile>
struct FillOrder {
    static constexpr int halves = rows_per_warpgroup(tile) / wgmma_m;
    static constexpr int last = subtiles<tile> - 1;

    static constexpr int half(int turn) { return halves == 1 ? 0 : turn % 2 ^ turn / 2 % 2; }
    static constexpr int subtile(int turn) { return half(turn) * subtiles_along_n<tile> + turn / halves; }
    static constexpr bool begins_columns(int turn) { return turn % halves == 0; }

    /// Which feed has the first 64 rows: of the next k-block the one that the last wgmma of this one does not need.
    static constexpr int first_feed(bool odd) { return odd && half(last) == 0 ? 1 : 0; }
};

/// Whether what a warp does while products are under way stays there. Left alone, ptxas puts ldmatrix and permutes
/// between two wgmmas, and what multiplies scales behind the wait for the last one. Kernels are up to 14 % faster so
/// (docs/tried.md), but for mn-major 128 rows of a warpgroup with scales in the loop there are too few registers then.
template <Tile tile>
constexpr bool keeps_order = feed_of(tile) == FeedKind::transposed&& scales_in_mainloop(tile) &&
                             rows_per_warpgroup(tile) > wgmma_m;

/// Loads that follow are issued behind all wgmmas and loads before: this wait leaves one group under way.
template <Tile tile>
TILEWRIGHT_DEVICE void behind_products() {
    if constexpr (keeps_order<tile>) wgmma_wait<1>();
}

/// What a loop does besides for wide rows (windows.h): nothing where the warpgroup has none.
template <Tile tile>
struct NoWindows {
    static constexpr bool reads_columns_first = false;

    TILEWRIGHT_DEVICE void fill(const Consumer<tile>& c, Feed<tile>& feed, int half) {
        feed.fill(c, half * subtiles_along_n<tile>);
    }

    TILEWRIGHT_DEVICE void multiply_first(Consumer<tile>& /*consumer*/, Accumulators<tile>& /*accumulators*/,
                                          Feed<tile>& /*feed*/, Feed<tile>& /*spare*/, Partial<tile>& /*partial*/,
                                          PromotionScales<tile>& /*scales*/, int /*half*/) {}

    TILEWRIGHT_DEVICE void promote_last(const Consumer<tile>& /*consumer*/, Accumulators<tile>& accumulators,
                                        const Partial<tile>& partial, const PromotionScales<tile>& scales,
                                        int subtile) const {
        promote<tile>(accumulators[subtile], partial, scales, subtile, {});
    }
};

/// One k-block, whose first 64 rows are made. Behind it those of the next one are, unless it is the `last`.
template <Tile tile, bool odd, bool last, class Windows>
TILEWRIGHT_DEVICE void multiply_and_fill(Consumer<tile>& c, Accumulators<tile>& accumulators, Feed<tile> (&feeds)[2],
                                         Partial<tile>& partial, PromotionScales<tile>& scales, Windows& windows,
                                         int k_block) {
    using Order = FillOrder<tile>;
    constexpr bool one_subtile = subtiles_along_n<tile> == 1;
    // Those of narrow products arrive behind them.
    constexpr bool columns_first = !keeps_order<tile> || wgmma_n(tile) < 64 || Windows::reads_columns_first;
    const int stage = c.ring.stage;
#pragma unroll
    for (int turn = 0; turn < subtiles<tile>; ++turn) {
        const int half = Order::half(turn), subtile = Order::subtile(turn);
        const bool begins = turn == 0, ends = turn == Order::last, begins_columns = Order::begins_columns(turn);
        const bool fills = ends ? !last : begins && Order::halves == 2;
        Feed<tile>& feed = feeds[(Order::first_feed(odd) + half) % 2];
        Feed<tile>& next = feeds[(Order::first_feed(odd) + half + 1) % 2];
        if (one_subtile && begins_columns && columns_first) scales.read_columns(c, subtile);
        if (turn < Order::halves) windows.multiply_first(c, accumulators, feed, next, partial, scales, half);
        if (!one_subtile && begins_columns && columns_first) scales.read_columns(c, subtile);
        pin(partial);
        feed.issue_held(c, partial, subtile, false);
        wgmma_commit();
        behind_products<tile>();
        if (begins_columns && !columns_first) scales.read_columns(c, subtile);
        if (begins) {
            next_block_scales(c, k_block);
            scales.read_blocks(c, k_block);
        }
        if (turn < Order::halves) scales.read_rows(c, stage, subtile);
        if (ends) c.advance();
        if (ends && !last) c.wait_full();
        if (fills) behind_products<tile>();
        if (fills) windows.fill(c, next, ends ? 0 : Order::half(1));
        scales.multiply(subtile, 0);
        if (begins_columns) scales.multiply_columns();
        if constexpr (keeps_order<tile>) keep_order(ends ? c.ring.stage : k_block);
        wgmma_wait<0>();
        pin(partial);
        if (turn > Order::last - Order::halves) feed.complete();
        if (ends) c.release(stage);
        windows.promote_last(c, accumulators, partial, scales, subtile);
    }
}

/// All k-blocks of a tile.
template <Tile tile, class Windows>
TILEWRIGHT_DEVICE void multiply_filling_next(Consumer<tile>& c, Accumulators<tile>& accumulators, Windows windows) {
    Feed<tile> feeds[2]{Feed<tile>(c), Feed<tile>(c)};
    Partial<tile> partial;
    PromotionScales<tile> scales;
    clear<tile>(accumulators);
    c.wait_full();
    windows.fill(c, feeds[0], 0);
    int left = c.k_blocks;
#pragma unroll 1
    for (; left > 2; left -= 2) {
        multiply_and_fill<tile, false, false>(c, accumulators, feeds, partial, scales, windows, c.k_blocks - left);
        multiply_and_fill<tile, true, false>(c, accumulators, feeds, partial, scales, windows, c.k_blocks - left + 1);
    }
    if (left == 2) {
        multiply_and_fill<tile, false, false>(c, accumulators, feeds, partial, scales, windows, c.k_blocks - 2);
        multiply_and_fill<tile, true, true>(c, accumulators, feeds, partial, scales, windows, c.k_blocks - 1);
    } else {
        multiply_and_fill<tile, false, true>(c, accumulators, feeds, partial, scales, windows, c.k_blocks - 1);
    }
    sync_warp();
    release_block_scales(c);
}

}  // namespace tilewright::hopper
