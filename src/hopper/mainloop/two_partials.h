// The main loop of a tile that is one unit for each warpgroup: two chains, so that the tensor core has the next k-block
// in hand while this one is promoted. (Larger tiles have no registers for a second chain; there the warpgroups and
// units fill each other's pauses, multiply.h.)
#pragma once

#include "hopper/mainloop/promoted.h"

namespace tilewright::hopper {

/// A k-block in the tensor core's hands, and what promotes it.
template <Tile tile>
struct InHand {
    Chain<tile> chain;
    Factors<tile> factors;
};

template <Tile tile>
TILEWRIGHT_DEVICE void issue(Consumer<tile>& c, InHand<tile>& block, bool exists) {
    if (exists) c.wait_full();
    pin(block.chain);
    wgmma_fence();
    c.issue(block.chain, 0, false);
    wgmma_commit();
}

/// The factors of the k-block in the ring. Scales that come four k-blocks at a time stay in `four`.
template <Tile tile>
TILEWRIGHT_DEVICE void read_factors(Consumer<tile>& c, Factors<tile>& factors, Factors<tile>& four, int k_block) {
    const int stage = c.ring.place;
    if constexpr (has_k_major_scales(tile)) {
        if (k_block % k_blocks_per_scale_copy(tile) == 0) {
            next_block_scales(c, k_block);
            four.read_blocks(c, k_block);
            four.read_rows(c, stage, 0);
        }
        factors.take(four, k_block);
    } else {
        next_block_scales(c, k_block);
        factors.read_blocks(c, k_block);
        factors.read_rows(c, stage, 0);
    }
    factors.read_columns(c, 0);
    factors.combine(0, 0);
}

template <Tile tile>
TILEWRIGHT_DEVICE void promote(Sums<tile>& sums, InHand<tile>& block) {
    pin(block.chain);
    promote<tile>(sums[0], block.chain, block.factors, 0, {});
}

/// Issues `k_block`, then promotes the one before it.
template <Tile tile>
TILEWRIGHT_DEVICE void step(Consumer<tile>& c, Sums<tile>& sums, InHand<tile>& block, InHand<tile>& before,
                            Factors<tile>& four, int k_block) {
    const int stage_before = c.ring.place;
    c.advance();
    issue<tile>(c, block, true);
    read_factors<tile>(c, block.factors, four, k_block);
    wgmma_wait<1>();
    c.release(stage_before);
    promote<tile>(sums, before);
}

/// All k-blocks of a tile. `store_last`, `exists`: as for `multiply_block`.
template <Tile tile, class StoreUnit>
TILEWRIGHT_DEVICE void multiply_two_chains(Consumer<tile>& c, Sums<tile>& sums, bool exists,
                                           const StoreUnit& store_last) {
    InHand<tile> even, odd;
    Factors<tile> four{};
    issue<tile>(c, even, exists);
    store_last(0);
    clear<tile>(sums);
    if (!exists) return wgmma_wait<0>();
    read_factors<tile>(c, even.factors, four, 0);
    const auto promote_last = [&](InHand<tile>& block) {
        wgmma_wait<0>();
        c.release(c.ring.place);
        promote<tile>(sums, block);
    };
    int k_block = 1;
#pragma unroll 1
    for (; k_block + 1 < c.k_blocks; k_block += 2) {
        step<tile>(c, sums, odd, even, four, k_block);
        step<tile>(c, sums, even, odd, four, k_block + 1);
    }
    if (k_block < c.k_blocks) {
        step<tile>(c, sums, odd, even, four, k_block);
        promote_last(odd);
    } else {
        promote_last(even);
    }
    c.advance();
    release_block_scales(c);
}

/// The sums of one tile, before final scales.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply(Consumer<tile>& c, Sums<tile>& sums) {
    if constexpr (promotion_interval(tile) == 0) {
        multiply_unpromoted<tile>(c, sums);
    } else if (c.k_blocks == 0) {
        clear<tile>(sums);
    } else if constexpr (partials_in_flight(tile) == 2) {
        multiply_two_chains<tile>(c, sums, true, [](int) {});
    } else {
        Chain<tile> chain;
        Factors<tile> factors;
        multiply_block<tile>(c, sums, chain, factors, 0, {.first = true}, true, [](int) {});
        multiply_promoted<tile>(c, sums, chain, factors);
    }
}

}  // namespace tilewright::hopper
