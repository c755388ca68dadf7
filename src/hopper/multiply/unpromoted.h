// The mainloop without promotion: the tensor core adds all of k.
#pragma once

#include "hopper/multiply/feed.h"
#include "hopper/multiply/scales_promote.h"

namespace tilewright::hopper {

/// Issues the wgmmas of a k-block, or of one of its boxes of k, then waits for all earlier wgmmas.
template <Design design, int box = 0>
TILEWRIGHT_DEVICE void multiply_unpromoted(Consumer<design>& c, Accumulators<design>& accumulators, Feed<design>& feed,
                                           int k_block) {
    if constexpr (box == 0) c.wait_full();
#pragma unroll
    for (int subtile = 0; subtile < design.subtiles; ++subtile) pin(accumulators[subtile]);
    if constexpr (design.k_boxes == 1) wgmma_fence();  // other feeds have a fence after their register writes
#pragma unroll
    for (int subtile = 0; subtile < design.subtiles; ++subtile) {
        if constexpr (design.k_boxes > 1) {
            feed.template issue<box>(c, accumulators[subtile], subtile, k_block > 0 || box > 0);
        } else {
            feed.issue(c, accumulators[subtile], subtile, k_block > 0);
        }
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (box == 0 && k_block > 0) c.release_previous();
    if constexpr (box == design.k_boxes - 1) c.ring.advance();
}

template <Design design>
TILEWRIGHT_DEVICE void multiply_unpromoted(Consumer<design>& c, Accumulators<design>& accumulators) {
    Feed<design> even(c), odd(c);
    clear<design>(accumulators);
    if constexpr (design.k_boxes == 2) {
        for (int k_block = 0; k_block < c.k_blocks; ++k_block) {
            multiply_unpromoted<design, 0>(c, accumulators, even, k_block);
            odd.complete();
            multiply_unpromoted<design, 1>(c, accumulators, odd, k_block);
            even.complete();
        }
    } else if constexpr (design.feed != FeedKind::shared) {
        for (int k_block = 0; k_block < c.k_blocks; ++k_block) {
            multiply_unpromoted<design>(c, accumulators, even, k_block);
            odd.complete();
            if (++k_block == c.k_blocks) break;
            multiply_unpromoted<design>(c, accumulators, odd, k_block);
            even.complete();
        }
    } else {
        for (int k_block = 0; k_block < c.k_blocks; ++k_block) {
            multiply_unpromoted<design>(c, accumulators, even, k_block);
        }
    }
    wgmma_wait<0>();
    even.complete();
    odd.complete();
    if (c.k_blocks > 0) c.release_previous();
#pragma unroll
    for (int subtile = 0; subtile < design.subtiles; ++subtile) pin(accumulators[subtile]);
}

}  // namespace tilewright::hopper
