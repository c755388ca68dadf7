// How a block ends one of whose stages is never filled. Its consumers wait for full barriers without a limit: code that
// counts tries in their loop costs time though it never runs. The load warp waits for what they release, with a limit;
// once that is exceeded it ends their waits, and they go through the rest of their tiles without data.
#pragma once

#include "hopper/block/shared_memory.h"
#include "hopper/ptx/ptx.h"

namespace tilewright::hopper {

/// By one thread of the load warp, whose waits have timed out. A consumer waits for one phase or the other, so each is
/// completed in turn. The barriers are reset each time, because bytes may still arrive.
template <Tile tile>
TILEWRIGHT_DEVICE void end_waits(Shared<tile>& shared) {
    constexpr int nanoseconds = 1000;  // time for each consumer to see it
    while (!barrier_test(shared.ended, 0)) {
        for (Barrier& full : shared.full) barrier_reset(full, 1);
        barrier_init_fence();
        pause(nanoseconds);
        for (Barrier& full : shared.full) barrier_arrive(full);
        pause(nanoseconds);
    }
}

}  // namespace tilewright::hopper
