// The position of a warp in a ring of shared memory, and how it signals a barrier.
#pragma once

#include "hopper/description/design.h"
#include "hopper/ptx/ptx.h"

namespace tilewright::hopper {

/// A stage and the phase in which its barriers are waited for (CUTLASS's PipelineState). A producer starts in phase 1,
/// because every stage is empty at first. A consumer starts in phase 0.
template <int stages>
struct PipelineState {
    int stage = 0;
    u32 phase = 0;

    /// The stage ahead of this one.
    constexpr int previous() const { return stage == 0 ? stages - 1 : stage - 1; }

    constexpr void advance() {
        if (++stage != stages) return;
        stage = 0;
        phase ^= 1;
    }
};

/// A warp's arrival after sync_warp(): one lane arrives for all.
template <Design design>
TILEWRIGHT_DEVICE void warp_arrives(Barrier& barrier, int lane) {
    if (design.debug.every_lane_arrives || lane == 0) barrier_arrive(barrier);
}

}  // namespace tilewright::hopper
