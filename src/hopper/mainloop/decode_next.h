// The mainloop of packed MXFP4 weights with one partial accumulator: while the tensor core multiplies 64 rows, the
// codes of the next 64 are decoded to other registers, those of a warpgroup's second half or of the next k-block. Only
// then is the product waited for and promoted.
#pragma once

#include "hopper/mainloop/promoted.h"

namespace tilewright::hopper {

/// Where a k-block's first 64 rows are decoded: with 128 rows a warpgroup always in the same registers.
template <Tile tile>
constexpr int first_feed(bool odd) {
    return odd && rows_per_warpgroup(tile) == wgmma_m ? 1 : 0;
}

/// What a loop does besides for wide rows (windows.h): nothing where the warpgroup has none.
template <Tile tile>
struct NoWindows {
    TILEWRIGHT_DEVICE void decode(const Consumer<tile>& c, Feed<tile>& feed, int half) {
        feed.decode(c, half * subtiles_along_n<tile>);
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

/// One k-block, whose first 64 rows are decoded. Behind it those of the next one are, unless it is the `last`.
template <Tile tile, bool odd, bool last, class Windows>
TILEWRIGHT_DEVICE void multiply_and_decode(Consumer<tile>& c, Accumulators<tile>& accumulators, Feed<tile> (&feeds)[2],
                                           Partial<tile>& partial, PromotionScales<tile>& scales, Windows& windows) {
    constexpr int along_n = subtiles_along_n<tile>;
    const int stage = c.ring.stage;
#pragma unroll
    for (int subtile = 0; subtile < subtiles<tile>; ++subtile) {
        const int half = subtile / along_n;
        const bool begins_half = subtile % along_n == 0, ends_half = subtile % along_n == along_n - 1;
        const bool ends_k_block = subtile == subtiles<tile> - 1;
        Feed<tile>& feed = feeds[(first_feed<tile>(odd) + half) % 2];
        Feed<tile>& next = feeds[(first_feed<tile>(odd) + half + 1) % 2];
        if (along_n == 1 && half == 0) scales.read_columns(c, subtile);
        if (begins_half) windows.multiply_first(c, accumulators, feed, next, partial, scales, half);
        if (along_n > 1) scales.read_columns(c, subtile);
        pin(partial);
        feed.issue_decoded(c, partial, subtile);
        wgmma_commit();
        if (ends_k_block) c.advance();
        if (ends_k_block && !last) c.wait_full();
        if (ends_half && !(ends_k_block && last)) windows.decode(c, next, ends_k_block ? 0 : half + 1);
        wgmma_wait<0>();
        pin(partial);
        if (ends_half) feed.complete();
        if (ends_k_block) c.release(stage);
        windows.promote_last(c, accumulators, partial, scales, subtile);
    }
}

/// All k-blocks of a tile.
template <Tile tile, class Windows>
TILEWRIGHT_DEVICE void multiply_decoding_next(Consumer<tile>& c, Accumulators<tile>& accumulators, Windows windows) {
    Feed<tile> feeds[2]{Feed<tile>(c), Feed<tile>(c)};
    Partial<tile> partial;
    PromotionScales<tile> scales;
    clear<tile>(accumulators);
    c.wait_full();
    windows.decode(c, feeds[0], 0);
    int left = c.k_blocks;
#pragma unroll 1
    for (; left > 2; left -= 2) {
        multiply_and_decode<tile, false, false>(c, accumulators, feeds, partial, scales, windows);
        multiply_and_decode<tile, true, false>(c, accumulators, feeds, partial, scales, windows);
    }
    if (left == 2) {
        multiply_and_decode<tile, false, false>(c, accumulators, feeds, partial, scales, windows);
        multiply_and_decode<tile, true, true>(c, accumulators, feeds, partial, scales, windows);
    } else {
        multiply_and_decode<tile, false, true>(c, accumulators, feeds, partial, scales, windows);
    }
    sync_warp();
}

}  // namespace tilewright::hopper
