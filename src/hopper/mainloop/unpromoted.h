// The mainloop without promotion: the tensor core adds all of k.
#pragma once

#include "hopper/mainloop/feed.h"

namespace tilewright::hopper {

template <Tile tile>
TILEWRIGHT_DEVICE void clear(Accumulators<tile>& accumulators) {
#pragma unroll
    for (int subtile = 0; subtile < subtiles<tile>; ++subtile) {
#pragma unroll
        for (int i = 0; i < subtile_registers<tile>; ++i) accumulators[subtile][i] = 0;
    }
}

/// Issues the wgmmas of a k-block, or of one of its boxes of k, then waits for all earlier wgmmas.
template <Tile tile, int box = 0>
TILEWRIGHT_DEVICE void multiply_unpromoted(Consumer<tile>& c, Accumulators<tile>& accumulators, Feed<tile>& feed,
                                           int k_block) {
    if constexpr (box == 0) c.wait_full();
#pragma unroll
    for (int subtile = 0; subtile < subtiles<tile>; ++subtile) pin(accumulators[subtile]);
    if constexpr (k_boxes(tile) == 1) wgmma_fence();  // other feeds have a fence after their register writes
#pragma unroll
    for (int subtile = 0; subtile < subtiles<tile>; ++subtile) {
        if constexpr (k_boxes(tile) > 1) {
            feed.template issue<box>(c, accumulators[subtile], subtile, k_block > 0 || box > 0);
        } else {
            feed.issue(c, accumulators[subtile], subtile, k_block > 0);
        }
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (box == 0 && k_block > 0) c.release_previous();
    if constexpr (box == k_boxes(tile) - 1) c.ring.advance();
}

template <Tile tile>
TILEWRIGHT_DEVICE void multiply_unpromoted(Consumer<tile>& c, Accumulators<tile>& accumulators) {
    Feed<tile> even(c), odd(c);
    clear<tile>(accumulators);
    if constexpr (k_boxes(tile) == 2) {
        for (int k_block = 0; k_block < c.k_blocks; ++k_block) {
            multiply_unpromoted<tile, 0>(c, accumulators, even, k_block);
            odd.complete();
            multiply_unpromoted<tile, 1>(c, accumulators, odd, k_block);
            even.complete();
        }
    } else if constexpr (feeds_registers(tile)) {
        for (int k_block = 0; k_block < c.k_blocks; ++k_block) {
            multiply_unpromoted<tile>(c, accumulators, even, k_block);
            odd.complete();
            if (++k_block == c.k_blocks) break;
            multiply_unpromoted<tile>(c, accumulators, odd, k_block);
            even.complete();
        }
    } else {
        for (int k_block = 0; k_block < c.k_blocks; ++k_block) {
            multiply_unpromoted<tile>(c, accumulators, even, k_block);
        }
    }
    wgmma_wait<0>();
    even.complete();
    odd.complete();
    if (c.k_blocks > 0) c.release_previous();
#pragma unroll
    for (int subtile = 0; subtile < subtiles<tile>; ++subtile) pin(accumulators[subtile]);
}

}  // namespace tilewright::hopper
