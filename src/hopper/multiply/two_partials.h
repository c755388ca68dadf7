// The mainloop of a tile with one subtile per warpgroup. It has two partial accumulators, so that the tensor core works
// on the next k-block while this one is promoted. (Larger tiles have no registers for a second one; their warpgroups
// and subtiles fill each other's pauses, mainloop.h.)
#pragma once

#include "hopper/multiply/feed.h"
#include "hopper/multiply/scales_promote.h"

namespace tilewright::hopper {

/// A k-block whose wgmmas are issued, and the scales that promote it.
template <Design design>
struct InFlight {
    TILEWRIGHT_DEVICE explicit InFlight(const Consumer<design>& c) : feed(c) {}

    Feed<design> feed;
    Partial<design> partial;
    PromotionScales<design> scales;
};

template <Design design>
TILEWRIGHT_DEVICE void issue(Consumer<design>& c, InFlight<design>& block) {
    c.wait_full();
    begin_product<design>(c, block.feed, block.partial, 0);
}

/// Reads the scales of the k-block in `c.ring`.
template <Design design>
TILEWRIGHT_DEVICE void read_scales(Consumer<design>& c, PromotionScales<design>& scales, int k_block) {
    static_assert(design.k_blocks_per_scale_copy != 4);
    next_block_scales(c, k_block);
    scales.read_blocks(c, k_block);
    scales.read_rows(c, c.ring.stage, 0);
    scales.read_columns(c, 0);
    scales.multiply(0, 0);
}

template <Design design>
TILEWRIGHT_DEVICE void promote(Accumulators<design>& accumulators, InFlight<design>& block) {
    pin(block.partial);
    block.feed.complete();
    promote<design>(accumulators[0], block.partial, block.scales, 0, {});
}

/// Issues `k_block`, then promotes the k-block that precedes it.
template <Design design>
TILEWRIGHT_DEVICE void issue_and_promote(Consumer<design>& c, Accumulators<design>& accumulators,
                                         InFlight<design>& block, InFlight<design>& before, int k_block) {
    const int stage_before = c.ring.stage;
    c.advance();
    issue<design>(c, block);
    read_scales<design>(c, block.scales, k_block);
    wgmma_wait<1>();
    c.release(stage_before);
    promote<design>(accumulators, before);
}

/// All k-blocks of a tile; `store_subtile` is as for `multiply_k_block`.
template <Design design, class StoreSubtile>
TILEWRIGHT_DEVICE void multiply_two_partials(Consumer<design>& c, Accumulators<design>& accumulators,
                                             const StoreSubtile& store_subtile) {
    InFlight<design> even(c), odd(c);
    issue<design>(c, even);
    store_subtile(0);
    clear<design>(accumulators);
    read_scales<design>(c, even.scales, 0);
    const auto promote_last = [&](InFlight<design>& block) {
        wgmma_wait<0>();
        c.release(c.ring.stage);
        promote<design>(accumulators, block);
    };
    int k_block = 1;
#pragma unroll 1
    for (; k_block + 1 < c.k_blocks; k_block += 2) {
        issue_and_promote<design>(c, accumulators, odd, even, k_block);
        issue_and_promote<design>(c, accumulators, even, odd, k_block + 1);
    }
    if (k_block < c.k_blocks) {
        issue_and_promote<design>(c, accumulators, odd, even, k_block);
        promote_last(odd);
    } else {
        promote_last(even);
    }
    c.advance();
    release_block_scales(c);
}

}  // namespace tilewright::hopper
