// The state of a consumer warp, shared by the mainloop and the epilogue.
//
// A warpgroup's share of the tile is divided into subtiles of 64 rows and wgmma_n columns, one wgmma each. With
// promotion, the subtiles take turns in a partial accumulator (128 products deep). Its values are scaled and added to
// the accumulators. While one warpgroup promotes, the tensor core multiplies for the others.
#pragma once

#include "hopper/arguments.h"
#include "hopper/block/pipeline.h"
#include "hopper/block/shared_memory.h"
#include "hopper/block/stamps.h"
#include "hopper/description/derive.h"

namespace tilewright::hopper {

/// A thread's share of the tile. The index is the subtile (64 rows, then wgmmas along n) and the fragment register
/// (ptx.h).
template <Design design>
using Accumulators = float[design.subtiles][design.wgmma_n / 2];

/// The subtile that the tensor core multiplies.
template <Design design>
using Partial = float[design.wgmma_n / 2];

template <Design design>
struct Consumer {
    Shared<design>& shared;
    const Arguments& arguments;
    // Here, because at the end of the struct it would move instructions of two kernels.
    [[no_unique_address]] Stamps<design> stamp{arguments};
    int warpgroup;
    int warp;  // in the warpgroup
    int lane;
    int row_in_tile;  // of this thread's first fragment row
    int k_blocks;
    MatrixDescriptor mma_a_descriptor;  // of the ring's first stage
    MatrixDescriptor mma_b_descriptor;
    bool by_tma;  // D is stored by TMA
    PipelineState<design.stages> ring{};
    PipelineState<scale_chunk_slots> blocks{};
    PipelineState<epilogue_scale_slots> epilogue_scales{};
    PipelineState<1> staged{.phase = 1};
    PipelineState<1> slices{};
    int budget = wait_budget;
    bool peers_ready = false;  // Split-K: the peers' shared memory may be written to.
    bool arrived = false;      // The full barrier of `ring` is known to be complete.
    bool defers = false;       // Scales of the tile left a power of two to the epilogue (multiply/deferred.h).

    TILEWRIGHT_DEVICE int first_row() const { return warpgroup * design.rows_per_warpgroup; }

    // ---- Stages

    /// Without a limit, because a limit would cost 1 to 8 % (docs/experiments/003-waits.md). The load warp watches this
    /// wait (kernel/watch.h).
    TILEWRIGHT_DEVICE void wait_full() {
        const int stage = ring.stage;
        stamp(Event::waits_full);
        if (!arrived) barrier_wait_watched(shared.full[stage], ring.phase, BarrierName::full, stage);
        arrived = false;
        stamp(Event::multiplies);
    }

    /// Waits for the stage ahead of the mainloop's own wait for it.
    TILEWRIGHT_DEVICE void await_full() {
        if (!arrived) barrier_wait_watched(shared.full[ring.stage], ring.phase, BarrierName::full, ring.stage);
        arrived = true;
    }

    TILEWRIGHT_DEVICE void release(int stage) {
        stamp(Event::released);
        if constexpr (!design.cluster.shares_operand()) {
            warp_arrives<design>(shared.empty[stage], lane);
        } else {
            if (lane < design.cluster.size) barrier_arrive_peer(shared.empty[stage], lane);
        }
    }

    /// The stage that precedes `ring`, whose last wgmma has completed.
    TILEWRIGHT_DEVICE void release_previous() { release(ring.previous()); }

    /// All wgmmas of the stage are issued; continues with the next stage.
    TILEWRIGHT_DEVICE void advance() {
        ring.advance();
        arrived = barrier_test(shared.full[ring.stage], ring.phase);
    }
};

/// Waits until the epilogue scales of the consumer's tile are loaded. They stay valid until the consumer releases them.
template <Design design>
TILEWRIGHT_DEVICE void wait_epilogue_scales(Consumer<design>& c) {
    const int slot = c.epilogue_scales.stage;
    barrier_wait(c.shared.epilogue_scales_full[slot], c.epilogue_scales.phase,
                 {c.budget, BarrierName::epilogue_scales_full, slot});
}

}  // namespace tilewright::hopper
