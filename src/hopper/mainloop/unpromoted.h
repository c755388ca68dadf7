// The mainloop without promotion: the tensor core adds all of k.
#pragma once

#include "hopper/mainloop/issue.h"

namespace tilewright::hopper {

template <Tile tile>
TILEWRIGHT_DEVICE void clear(Accumulators<tile>& accumulators) {
#pragma unroll
    for (int subtile = 0; subtile < subtiles<tile>; ++subtile) {
#pragma unroll
        for (int i = 0; i < subtile_registers<tile>; ++i) accumulators[subtile][i] = 0;
    }
}

/// The next k-block is issued before the last one has completed.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_unpromoted(Consumer<tile>& c, Accumulators<tile>& accumulators) {
    clear<tile>(accumulators);
    for (int k_block = 0; k_block < c.k_blocks; ++k_block) {
        c.wait_full();
#pragma unroll
        for (int subtile = 0; subtile < subtiles<tile>; ++subtile) pin(accumulators[subtile]);
        wgmma_fence();
#pragma unroll
        for (int subtile = 0; subtile < subtiles<tile>; ++subtile) {
            issue(c, accumulators[subtile], subtile, k_block > 0);
        }
        wgmma_commit();
        wgmma_wait<1>();
        if (k_block > 0) c.release_previous();
        c.ring.advance();
    }
    wgmma_wait<0>();
    if (c.k_blocks > 0) c.release_previous();
#pragma unroll
    for (int subtile = 0; subtile < subtiles<tile>; ++subtile) pin(accumulators[subtile]);
}

}  // namespace tilewright::hopper
