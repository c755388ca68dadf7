// The mainloop with one partial accumulator, used by tiles whose mma A is made in registers. While the tensor core
// multiplies 64 rows, the warps make the fragments of the next 64 rows in other registers. These are the warpgroup's
// second half or the first half of the next k-block. Only then do they wait for the product and promote it.
#pragma once

#include "hopper/multiply/feed.h"
#include "hopper/multiply/scales_promote.h"

namespace tilewright::hopper {

/// The order of a k-block's wgmmas. Those with the same columns follow one another, so that the column scales are read
/// once for a warpgroup's 128 rows. The half that was multiplied last is the first one of the next columns.
template <Design design>
struct FillOrder {
    static constexpr int halves() { return design.rows_per_warpgroup / wgmma_m; }
    static constexpr int last() { return design.subtiles - 1; }

    static constexpr int half(int turn) { return halves() == 1 ? 0 : turn % 2 ^ turn / 2 % 2; }
    static constexpr int subtile(int turn) { return half(turn) * design.wgmmas_along_n + turn / halves(); }
    static constexpr bool begins_columns(int turn) { return turn % halves() == 0; }

    /// The feed that has the first 64 rows. For the next k-block it is the feed that this k-block's last wgmma does not
    /// need.
    static constexpr int first_feed(bool odd) { return odd && half(last()) == 0 ? 1 : 0; }
};

/// Whether work that a warp does during its products is kept there. In its own order, ptxas moves ldmatrix and permutes
/// between two wgmmas, and multiplications of scales after the wait for the last wgmma. Kernels are up to 14 % faster
/// so (docs/experiments/024-mn-major-weights.md). Only for MN-major with 128 rows per warpgroup and scales in the loop
/// it needs too many registers.
template <Design design>
constexpr bool keeps_order() {
    return design.feed == FeedKind::transposed && design.order.has(ScaleUse::chains) &&
           design.rows_per_warpgroup > wgmma_m;
}

/// Makes the following loads start after all earlier wgmmas and loads: the wait leaves one group in flight.
template <Design design>
TILEWRIGHT_DEVICE void behind_products() {
    if constexpr (keeps_order<design>()) wgmma_wait<1>();
}

/// The loop's extra work for wide rows (windows.h): nothing in warpgroups without wide rows.
template <Design design>
struct NoWindows {
    static constexpr bool reads_columns_first() { return false; }

    TILEWRIGHT_DEVICE void fill(const Consumer<design>& c, Feed<design>& feed, int half) {
        feed.fill(c, half * design.wgmmas_along_n);
    }

    TILEWRIGHT_DEVICE void multiply_first(Consumer<design>& /*consumer*/, Accumulators<design>& /*accumulators*/,
                                          Feed<design>& /*feed*/, Feed<design>& /*spare*/, Partial<design>& /*partial*/,
                                          PromotionScales<design>& /*scales*/, int /*half*/) {}

    TILEWRIGHT_DEVICE void promote(const Consumer<design>& /*consumer*/, float (&sums)[design.wgmma_n / 2],
                                   const Partial<design>& partial, const PromotionScales<design>& scales, int subtile,
                                   bool /*is_last*/) const {
        hopper::promote<design>(sums, partial, scales, subtile, {});
    }
};

/// One k-block whose first 64 rows are already made. It also makes those of the next k-block, unless this is the `last`
/// one.
template <Design design, bool odd, bool last, class Windows>
TILEWRIGHT_DEVICE void multiply_and_fill(Consumer<design>& c, Accumulators<design>& accumulators,
                                         Feed<design> (&feeds)[2], Partial<design>& partial,
                                         PromotionScales<design>& scales, Windows& windows, int k_block) {
    using Order = FillOrder<design>;
    constexpr bool one_subtile = design.wgmmas_along_n == 1;
    // The column scales of narrow products would arrive after the products.
    constexpr bool columns_first = !keeps_order<design>() || design.wgmma_n < 64 || Windows::reads_columns_first();
    const int stage = c.ring.stage;
#pragma unroll
    for (int turn = 0; turn < design.subtiles; ++turn) {
        const int half = Order::half(turn), subtile = Order::subtile(turn);
        const bool begins = turn == 0, ends = turn == Order::last(), begins_columns = Order::begins_columns(turn);
        const bool fills = ends ? !last : begins && Order::halves() == 2;
        Feed<design>& feed = feeds[(Order::first_feed(odd) + half) % 2];
        Feed<design>& next = feeds[(Order::first_feed(odd) + half + 1) % 2];
        if (one_subtile && begins_columns && columns_first) scales.read_columns(c, subtile);
        if (turn < Order::halves()) windows.multiply_first(c, accumulators, feed, next, partial, scales, half);
        if (!one_subtile && begins_columns && columns_first) scales.read_columns(c, subtile);
        pin(partial);
        feed.issue_held(c, partial, subtile, false);
        wgmma_commit();
        behind_products<design>();
        if (begins_columns && !columns_first) scales.read_columns(c, subtile);
        if (begins) {
            next_block_scales(c, k_block);
            scales.read_blocks(c, k_block);
        }
        if (turn < Order::halves()) scales.read_rows(c, stage, subtile);
        if (ends) c.advance();
        if (ends && !last) c.wait_full();
        if (fills) behind_products<design>();
        if (fills) windows.fill(c, next, ends ? 0 : Order::half(1));
        scales.multiply(subtile, 0);
        if (begins_columns) scales.multiply_columns();
        if constexpr (keeps_order<design>()) keep_order(ends ? c.ring.stage : k_block);
        wgmma_wait<0>();
        pin(partial);
        if (turn > Order::last() - Order::halves()) feed.complete();
        if (ends) c.release(stage);
        windows.promote(c, accumulators[subtile], partial, scales, subtile, true);
    }
}

/// All k-blocks of a tile.
template <Design design, class Windows>
TILEWRIGHT_DEVICE void multiply_filling_next(Consumer<design>& c, Accumulators<design>& accumulators, Windows windows) {
    Feed<design> feeds[2]{Feed<design>(c), Feed<design>(c)};
    Partial<design> partial;
    PromotionScales<design> scales;
    clear<design>(accumulators);
    c.wait_full();
    windows.fill(c, feeds[0], 0);
    int left = c.k_blocks;
#pragma unroll 1
    for (; left > 2; left -= 2) {
        multiply_and_fill<design, false, false>(c, accumulators, feeds, partial, scales, windows, c.k_blocks - left);
        multiply_and_fill<design, true, false>(c, accumulators, feeds, partial, scales, windows, c.k_blocks - left + 1);
    }
    if (left == 2) {
        multiply_and_fill<design, false, false>(c, accumulators, feeds, partial, scales, windows, c.k_blocks - 2);
        multiply_and_fill<design, true, true>(c, accumulators, feeds, partial, scales, windows, c.k_blocks - 1);
    } else {
        multiply_and_fill<design, false, true>(c, accumulators, feeds, partial, scales, windows, c.k_blocks - 1);
    }
    sync_warp();
    release_block_scales(c);
}

}  // namespace tilewright::hopper
