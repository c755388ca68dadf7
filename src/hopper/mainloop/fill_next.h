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

/// Makes the fragments of `subtile` behind products that are under way. Of ldmatrix and permutes none may come between
/// two of these, where ptxas puts them, for the later one would wait: a wait that leaves the products under way keeps
/// them apart. (Kernels of packed weights were measured with some of their decoding there.)
template <Tile tile>
TILEWRIGHT_DEVICE void fill_behind_products(const Consumer<tile>& c, Feed<tile>& feed, int subtile) {
    if constexpr (feed_of(tile) == FeedKind::transposed) wgmma_wait<1>();
    feed.fill(c, subtile);
}

/// One k-block, whose first 64 rows are made. Behind it those of the next one are, unless it is the `last`.
template <Tile tile, bool odd, bool last>
TILEWRIGHT_DEVICE void multiply_and_fill(Consumer<tile>& c, Accumulators<tile>& accumulators, Feed<tile> (&feeds)[2],
                                         Partial<tile>& partial, PromotionScales<tile>& scales, int k_block) {
    using Order = FillOrder<tile>;
    const int stage = c.ring.stage;
#pragma unroll
    for (int turn = 0; turn < subtiles<tile>; ++turn) {
        const int half = Order::half(turn), subtile = Order::subtile(turn);
        const bool begins = turn == 0, ends = turn == Order::last;
        Feed<tile>& feed = feeds[(Order::first_feed(odd) + half) % 2];
        Feed<tile>& next = feeds[(Order::first_feed(odd) + half + 1) % 2];
        if (Order::begins_columns(turn)) scales.read_columns(c, subtile);
        pin(partial);
        feed.issue_held(c, partial, subtile, false);
        wgmma_commit();
        if (begins) {
            next_block_scales(c, k_block);
            scales.read_blocks(c, k_block);
        }
        if (turn < Order::halves) scales.read_rows(c, stage, subtile);
        if (ends) c.advance();
        if (ends && !last) c.wait_full();
        if (begins && !ends && Order::halves == 2) fill_behind_products<tile>(c, next, Order::subtile(1));
        if (ends && !last) fill_behind_products<tile>(c, next, 0);
        scales.multiply(subtile, 0);
        wgmma_wait<0>();
        pin(partial);
        if (turn > Order::last - Order::halves) feed.complete();
        if (ends) c.release(stage);
        promote<tile>(accumulators[subtile], partial, scales, subtile, {});
    }
}

/// All k-blocks of a tile.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_filling_next(Consumer<tile>& c, Accumulators<tile>& accumulators) {
    Feed<tile> feeds[2]{Feed<tile>(c), Feed<tile>(c)};
    Partial<tile> partial;
    PromotionScales<tile> scales;
    clear<tile>(accumulators);
    c.wait_full();
    feeds[0].fill(c, 0);
    int left = c.k_blocks;
#pragma unroll 1
    for (; left > 2; left -= 2) {
        multiply_and_fill<tile, false, false>(c, accumulators, feeds, partial, scales, c.k_blocks - left);
        multiply_and_fill<tile, true, false>(c, accumulators, feeds, partial, scales, c.k_blocks - left + 1);
    }
    if (left == 2) {
        multiply_and_fill<tile, false, false>(c, accumulators, feeds, partial, scales, c.k_blocks - 2);
        multiply_and_fill<tile, true, true>(c, accumulators, feeds, partial, scales, c.k_blocks - 1);
    } else {
        multiply_and_fill<tile, false, true>(c, accumulators, feeds, partial, scales, c.k_blocks - 1);
    }
    sync_warp();
    release_block_scales(c);
}

}  // namespace tilewright::hopper
