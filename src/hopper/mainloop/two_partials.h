// The mainloop of a tile with one subtile per warpgroup. It has two partial accumulators, so that the tensor core works
// on the next k-block while this one is promoted. (Larger tiles have no registers for a second one; their warpgroups
// and subtiles fill each other's pauses, promoted.h.)
#pragma once

#include "hopper/mainloop/promoted.h"
#include "hopper/mainloop/unpromoted.h"

namespace tilewright::hopper {

/// A k-block whose wgmmas are issued, and the scales that promote it.
template <Tile tile>
struct InFlight {
    TILEWRIGHT_DEVICE explicit InFlight(const Consumer<tile>& c) : feed(c) {}

    Feed<tile> feed;
    Partial<tile> partial;
    PromotionScales<tile> scales;
};

template <Tile tile>
TILEWRIGHT_DEVICE void issue(Consumer<tile>& c, InFlight<tile>& block) {
    c.wait_full();
    pin(block.partial);
    wgmma_fence();
    block.feed.issue(c, block.partial, 0, false);
    wgmma_commit();
}

/// Reads the scales of the k-block in `c.ring`.
template <Tile tile>
TILEWRIGHT_DEVICE void read_scales(Consumer<tile>& c, PromotionScales<tile>& scales, int k_block) {
    static_assert(!loads_scales_by_four(tile));
    next_block_scales(c, k_block);
    scales.read_blocks(c, k_block);
    scales.read_rows(c, c.ring.stage, 0);
    scales.read_columns(c, 0);
    scales.multiply(0, 0);
}

template <Tile tile>
TILEWRIGHT_DEVICE void promote(Accumulators<tile>& accumulators, InFlight<tile>& block) {
    pin(block.partial);
    block.feed.complete();
    promote<tile>(accumulators[0], block.partial, block.scales, 0, {});
}

/// Issues `k_block`, then promotes the k-block that precedes it.
template <Tile tile>
TILEWRIGHT_DEVICE void step(Consumer<tile>& c, Accumulators<tile>& accumulators, InFlight<tile>& block,
                            InFlight<tile>& before, int k_block) {
    const int stage_before = c.ring.stage;
    c.advance();
    issue<tile>(c, block);
    read_scales<tile>(c, block.scales, k_block);
    wgmma_wait<1>();
    c.release(stage_before);
    promote<tile>(accumulators, before);
}

/// All k-blocks of a tile; `store_subtile` is as for `multiply_k_block`.
template <Tile tile, class StoreSubtile>
TILEWRIGHT_DEVICE void multiply_two_partials(Consumer<tile>& c, Accumulators<tile>& accumulators,
                                             const StoreSubtile& store_subtile) {
    InFlight<tile> even(c), odd(c);
    issue<tile>(c, even);
    store_subtile(0);
    clear<tile>(accumulators);
    read_scales<tile>(c, even.scales, 0);
    const auto promote_last = [&](InFlight<tile>& block) {
        wgmma_wait<0>();
        c.release(c.ring.stage);
        promote<tile>(accumulators, block);
    };
    int k_block = 1;
#pragma unroll 1
    for (; k_block + 1 < c.k_blocks; k_block += 2) {
        step<tile>(c, accumulators, odd, even, k_block);
        step<tile>(c, accumulators, even, odd, k_block + 1);
    }
    if (k_block < c.k_blocks) {
        step<tile>(c, accumulators, odd, even, k_block);
        promote_last(odd);
    } else {
        promote_last(even);
    }
    c.advance();
    release_block_scales(c);
}

}  // namespace tilewright::hopper
