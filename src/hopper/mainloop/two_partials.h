// The mainloop of a tile with one subtile for each warpgroup: two partial accumulators, so that the tensor core works
// on the next k-block while this one is promoted. (Larger tiles have no registers for a second one; there the
// warpgroups and subtiles fill each other's pauses, promoted.h.)
#pragma once

#include "hopper/mainloop/promoted.h"
#include "hopper/mainloop/unpromoted.h"

namespace tilewright::hopper {

/// A k-block whose wgmmas are issued, and what promotes it.
template <Tile tile>
struct InFlight {
    Partial<tile> partial;
    PromotionScales<tile> scales;
};

template <Tile tile>
TILEWRIGHT_DEVICE void issue(Consumer<tile>& c, InFlight<tile>& block) {
    c.wait_full();
    pin(block.partial);
    wgmma_fence();
    issue(c, block.partial, 0, false);
    wgmma_commit();
}

/// The scales of the k-block in `c.ring`. K-major scales stay in `four`, which has those of four k-blocks.
template <Tile tile>
TILEWRIGHT_DEVICE void read_scales(Consumer<tile>& c, PromotionScales<tile>& scales, PromotionScales<tile>& four,
                                   int k_block) {
    const int stage = c.ring.stage;
    if constexpr (has_k_major_scales(tile)) {
        if (k_block % k_blocks_per_scale_copy(tile) == 0) {
            next_block_scales(c, k_block);
            four.read_blocks(c, k_block);
            four.read_rows(c, stage, 0);
        }
        scales.select(four, k_block);
    } else {
        next_block_scales(c, k_block);
        scales.read_blocks(c, k_block);
        scales.read_rows(c, stage, 0);
    }
    scales.read_columns(c, 0);
    scales.multiply(0, 0);
}

template <Tile tile>
TILEWRIGHT_DEVICE void promote(Accumulators<tile>& accumulators, InFlight<tile>& block) {
    pin(block.partial);
    promote<tile>(accumulators[0], block.partial, block.scales, 0, {});
}

/// Issues `k_block`, then promotes the one before it.
template <Tile tile>
TILEWRIGHT_DEVICE void step(Consumer<tile>& c, Accumulators<tile>& accumulators, InFlight<tile>& block,
                            InFlight<tile>& before, PromotionScales<tile>& four, int k_block) {
    const int stage_before = c.ring.stage;
    c.advance();
    issue<tile>(c, block);
    read_scales<tile>(c, block.scales, four, k_block);
    wgmma_wait<1>();
    c.release(stage_before);
    promote<tile>(accumulators, before);
}

/// All k-blocks of a tile; `store_subtile` is as for `multiply_k_block`.
template <Tile tile, class StoreSubtile>
TILEWRIGHT_DEVICE void multiply_two_partials(Consumer<tile>& c, Accumulators<tile>& accumulators,
                                             const StoreSubtile& store_subtile) {
    InFlight<tile> even, odd;
    PromotionScales<tile> four{};
    issue<tile>(c, even);
    store_subtile(0);
    clear<tile>(accumulators);
    read_scales<tile>(c, even.scales, four, 0);
    const auto promote_last = [&](InFlight<tile>& block) {
        wgmma_wait<0>();
        c.release(c.ring.stage);
        promote<tile>(accumulators, block);
    };
    int k_block = 1;
#pragma unroll 1
    for (; k_block + 1 < c.k_blocks; k_block += 2) {
        step<tile>(c, accumulators, odd, even, four, k_block);
        step<tile>(c, accumulators, even, odd, four, k_block + 1);
    }
    if (k_block < c.k_blocks) {
        step<tile>(c, accumulators, odd, even, four, k_block);
        promote_last(odd);
    } else {
        promote_last(even);
    }
    c.advance();
    release_block_scales(c);
}

}  // namespace tilewright::hopper
