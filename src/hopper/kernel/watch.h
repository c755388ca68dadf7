// Ends a block one of whose stages is never filled. Consumers wait for full barriers without a limit, because code that
// counts tries in their loop costs time even if it never runs. The load warp waits, with a limit, for the stages that
// consumers release. When that limit is exceeded, it ends the consumers' waits, and they finish their tiles without
// data.
#pragma once

#include "hopper/block/ring.h"
#include "hopper/ptx/ptx.h"

namespace tilewright::hopper {

/// Called by one thread of the load warp after its waits have timed out. A consumer waits for one phase or the other,
/// so each phase is completed in turn. The barriers are reset each time, because bytes may still arrive.
template <Design design>
TILEWRIGHT_DEVICE void end_waits(Shared<design>& shared) {
    constexpr int nanoseconds = 1000;  // time for each consumer to see the completed phase
    while (!barrier_test(shared.ended, 0)) {
        for (Barrier& full : shared.full) barrier_reset(full, 1);
        barrier_init_fence();
        pause(nanoseconds);
        for (Barrier& full : shared.full) barrier_arrive(full);
        pause(nanoseconds);
    }
}

}  // namespace tilewright::hopper
