// Initialises a block's barriers and synchronises the warps that use them. gemm.h shows the barriers as a table.
#pragma once

#include "hopper/arguments.h"
#include "hopper/block/ring.h"
#include "hopper/description/roles.h"

namespace tilewright::hopper {

/// Runs on one thread, in straight code. The instruction mbarrier.init takes its address from a uniform register. With
/// one barrier per lane the compiler would emit a loop over the lanes.
template <Design design>
TILEWRIGHT_DEVICE void init_full(Shared<design>& shared, const Arguments& arguments) {
    const int arrivals = full_arrivals(design, arguments.scales_by_tma);
#pragma unroll
    for (int stage = 0; stage < design.stages; ++stage) barrier_init(shared.full[stage], arrivals);
    barrier_init_fence();
}

/// All barriers except `full`.
template <Design design>
TILEWRIGHT_DEVICE void init_barriers(Shared<design>& shared, const Arguments& arguments) {
    const auto init = [](auto& barriers, int arrivals) {
#pragma unroll
        for (Barrier& barrier : barriers) barrier_init(barrier, arrivals);
    };
    init(shared.empty, empty_arrivals(design));
    barrier_init(shared.ended, ended_arrivals(design));
    init(shared.stored, stored_arrivals(design));
    init(shared.staged, staged_arrivals(design));
    if constexpr (design.has_block_scales) {
        init(shared.block_scales_full, scales_full_arrivals(design));
        init(shared.block_scales_empty, scales_empty_arrivals(design));
    }
    if constexpr (design.has_epilogue_scales) {
        init(shared.epilogue_scales_full, scales_full_arrivals(design));
        init(shared.epilogue_scales_empty, scales_empty_arrivals(design));
    }
    if constexpr (design.is_k_grouped()) init(shared.landed.barriers, landed_arrivals(design));
    if constexpr (design.has_scheduler()) {
        init(shared.work_full, work_full_arrivals(design));
        init(shared.work_empty, work_empty_arrivals(design, arguments.scales_by_tma, arguments.stored_by_tma));
    }
    if constexpr (design.k_slices > 1) {
        barrier_init(shared.slices_full, slices_full_arrivals(design));
        barrier_init(shared.slices_read, slices_read_arrivals(design));
    }
    barrier_init_fence();
}

/// Two named barriers at which warps wait for initialised mbarriers. The load warp initialises the mbarriers and only
/// arrives. The tool synccheck rejects this at a barrier of the full block, because it demands that every thread waits
/// there.
enum class NamedBarrier : u8 { producers = 1, consumers = 2 };

template <Design design>
constexpr int threads_of(NamedBarrier barrier) {
    return barrier == NamedBarrier::producers ? warpgroup_threads : (design.consumer_warps + 1) * warp_threads;
}

template <Design design>
TILEWRIGHT_DEVICE void sync_peers() {
    // Split-K: only warps that send fragments need the peers' initialised barriers, and they wait later
    // (store/cluster_reduce.h).
    if constexpr (design.cluster.size > 1) arrive_cluster_relaxed();
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

}  // namespace tilewright::hopper
