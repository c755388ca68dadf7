// Initialises a block's barriers, synchronises the warps that use them, and ends waits after a time-out. The table of
// barriers and their arrivals is in gemm.h.
#pragma once

#include "hopper/arguments.h"
#include "hopper/block/ring.h"
#include "hopper/description/roles.h"

namespace tilewright::hopper {

/// The arrivals that complete a phase of a barrier. A warp arrives after its lanes have synchronised.
constexpr int arrivals_at(BarrierName barrier, const Design& design, bool scales_by_tma = false,
                          bool stored_by_tma = false) {
    const int warp = design.debug.every_lane_arrives ? warp_threads : 1;
    const int consumers = design.shape.warpgroups * warpgroup_warps;
    const int row_scales = design.order.has(ScaleUse::chains) && !scales_by_tma ? 1 : 0;  // warps that load them
    switch (barrier) {
        // The loading thread, which expects the bytes, and the warp that loads row scales.
        case BarrierName::full: return 1 + row_scales * warp;
        // Each consumer warp, in every block whose loads wait for this stage.
        case BarrierName::empty:
            return consumers * warp * (design.cluster.shares_operand() ? design.cluster.size() : 1);
        // The warps of the warpgroup that stages. D of f32: the warps of all warpgroups.
        case BarrierName::staged: return (design.output == Output::f32_by_tma ? consumers : warpgroup_warps) * warp;
        // The warp that loads these scales; the warps that read them.
        case BarrierName::epilogue_scales_full:
        case BarrierName::block_scales_full: return warp;
        case BarrierName::epilogue_scales_empty:
        case BarrierName::block_scales_empty:
        case BarrierName::ended: return consumers * warp;
        // Each warp that takes work tiles from the scheduler.
        case BarrierName::work_empty: {
            const int stores = stored_by_tma && design.cluster.k_slices == 1 ? 1 : 0;
            return (1 + (design.is_k_grouped() ? 1 : row_scales) + consumers + stores) * warp;
        }
        case BarrierName::slices_read:
            return consumers * design.cluster.size();  // Each consumer warp of the cluster.
        // One thread: of the scheduler, of the store warp, or the one that expects the bytes.
        case BarrierName::work_full:
        case BarrierName::stored:
        case BarrierName::slices_full:
        case BarrierName::none: break;
    }
    return 1;
}

/// Runs on one thread, in straight code. The instruction mbarrier.init takes its address from a uniform register. With
/// one barrier per lane the compiler would emit a loop over the lanes.
template <Design design>
TILEWRIGHT_DEVICE void init_full(Shared<design>& shared, const Arguments& arguments) {
    const int arrivals = arrivals_at(BarrierName::full, design, arguments.scales_by_tma);
#pragma unroll
    for (int stage = 0; stage < design.stages; ++stage) barrier_init(shared.full[stage], arrivals);
    barrier_init_fence();
}

/// All barriers except `full`.
template <Design design>
TILEWRIGHT_DEVICE void init_barriers(Shared<design>& shared, const Arguments& arguments) {
    const auto init = [&](auto& barriers, BarrierName name) {
        const int arrivals = arrivals_at(name, design, arguments.scales_by_tma, arguments.stored_by_tma);
#pragma unroll
        for (Barrier& barrier : barriers) barrier_init(barrier, arrivals);
    };
    init(shared.empty, BarrierName::empty);
    barrier_init(shared.ended, arrivals_at(BarrierName::ended, design));
    init(shared.stored, BarrierName::stored);
    init(shared.staged, BarrierName::staged);
    if constexpr (design.block_scales_per_k_block > 0) {
        init(shared.block_scales_full, BarrierName::block_scales_full);
        init(shared.block_scales_empty, BarrierName::block_scales_empty);
    }
    if constexpr (design.has_epilogue_scales) {
        init(shared.epilogue_scales_full, BarrierName::epilogue_scales_full);
        init(shared.epilogue_scales_empty, BarrierName::epilogue_scales_empty);
    }
    if constexpr (design.is_k_grouped())
        init(shared.unfinished.items, BarrierName::none);  // waits for it have the name `full`
    if constexpr (design.groups != Groups::none) {
        init(shared.work_full, BarrierName::work_full);
        init(shared.work_empty, BarrierName::work_empty);
    }
    if constexpr (design.cluster.k_slices > 1) {
        barrier_init(shared.slices_full, arrivals_at(BarrierName::slices_full, design));
        barrier_init(shared.slices_read, arrivals_at(BarrierName::slices_read, design));
    }
    barrier_init_fence();
}

/// Two named barriers at which warps wait for initialised mbarriers. The load warp initialises the mbarriers and only
/// arrives. The tool synccheck rejects this at a barrier of the full block, because it demands that every thread waits
/// there.
enum class NamedBarrier : u8 { producers = 1, consumers = 2 };

template <Design design>
constexpr int threads_of(NamedBarrier barrier) {
    return barrier == NamedBarrier::producers ? warpgroup_threads
                                              : design.shape.warpgroups * warpgroup_threads + warp_threads;
}

template <Design design>
TILEWRIGHT_DEVICE void sync_peers() {
    // Split-K: only warps that send fragments need the peers' initialised barriers, and they wait later
    // (store/cluster_reduce.h).
    if constexpr (design.cluster.size() > 1) arrive_cluster_relaxed();
    if constexpr (design.cluster.shares_operand()) wait_cluster();
}

template <Design design>
TILEWRIGHT_DEVICE void arrive_initialised() {
    arrive_named(int(NamedBarrier::producers), threads_of<design>(NamedBarrier::producers));
    arrive_named(int(NamedBarrier::consumers), threads_of<design>(NamedBarrier::consumers));
    sync_peers<design>();
}

template <Design design>
TILEWRIGHT_DEVICE void sync_initialised(NamedBarrier barrier) {
    sync_named(int(barrier), threads_of<design>(barrier));
    sync_peers<design>();
}

/// Ends a block one of whose stages is never filled. Consumers wait for full barriers without a limit, because code
/// that counts tries in their loop costs time even if it never runs. The load warp waits, with a limit, for the stages
/// that consumers release. When that limit is exceeded, one of its threads calls this function, and the consumers
/// finish their tiles without data. A consumer waits for one phase or the other, so each phase is completed in turn.
/// The barriers are reset each time, because bytes may still arrive.
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
