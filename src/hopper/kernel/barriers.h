// Initialises a block's barriers and synchronises the warps that use them. gemm.h shows the barriers as a table.
#pragma once

#include "hopper/arguments.h"
#include "hopper/block/shared_memory.h"
#include "hopper/tile/roles.h"

namespace tilewright::hopper {

/// Runs on one thread, in straight code. The instruction mbarrier.init takes its address from a uniform register. With
/// one barrier per lane the compiler would emit a loop over the lanes.
template <Tile tile>
TILEWRIGHT_DEVICE void init_full(Shared<tile>& shared, const Arguments& arguments) {
    const int arrivals = full_arrivals(tile, arguments.scales_by_tma);
#pragma unroll
    for (int stage = 0; stage < tile.stages; ++stage) barrier_init(shared.full[stage], arrivals);
    barrier_init_fence();
}

/// All barriers except `full`.
template <Tile tile>
TILEWRIGHT_DEVICE void init_barriers(Shared<tile>& shared, const Arguments& arguments) {
    const auto init = [](auto& barriers, int arrivals) {
#pragma unroll
        for (Barrier& barrier : barriers) barrier_init(barrier, arrivals);
    };
    init(shared.empty, empty_arrivals(tile));
    barrier_init(shared.ended, ended_arrivals(tile));
    init(shared.stored, stored_arrivals(tile));
    init(shared.staged, staged_arrivals(tile));
    if constexpr (has_block_scales(tile)) {
        init(shared.block_scales_full, scales_full_arrivals(tile));
        init(shared.block_scales_empty, scales_empty_arrivals(tile));
    }
    if constexpr (has_epilogue_scales(tile)) {
        init(shared.epilogue_scales_full, scales_full_arrivals(tile));
        init(shared.epilogue_scales_empty, scales_empty_arrivals(tile));
    }
    if constexpr (is_k_grouped(tile)) init(shared.landed.barriers, landed_arrivals(tile));
    if constexpr (has_scheduler(tile)) {
        init(shared.work_full, work_full_arrivals(tile));
        init(shared.work_empty, work_empty_arrivals(tile, arguments.scales_by_tma, arguments.stored_by_tma));
    }
    if constexpr (splits_k(tile)) {
        barrier_init(shared.slices_full, slices_full_arrivals(tile));
        barrier_init(shared.slices_read, slices_read_arrivals(tile));
    }
    barrier_init_fence();
}

/// Two named barriers at which warps wait for initialised mbarriers. The load warp initialises the mbarriers and only
/// arrives. The tool synccheck rejects this at a barrier of the full block, because it demands that every thread waits
/// there.
enum class NamedBarrier : u8 { producers = 1, consumers = 2 };

template <Tile tile>
constexpr int threads_of(NamedBarrier barrier) {
    return barrier == NamedBarrier::producers ? warpgroup_threads : (consumer_warps(tile) + 1) * warp_threads;
}

template <Tile tile>
TILEWRIGHT_DEVICE void sync_peers() {
    // Split-K: only warps that send fragments need the peers' initialised barriers, and they wait later
    // (epilogue/cluster_reduce.h).
    if constexpr (tile.cluster.size > 1) arrive_cluster_relaxed();
    if constexpr (shares_operand(tile)) wait_cluster();
}

template <Tile tile>
TILEWRIGHT_DEVICE void arrive_initialised() {
    arrive_named(int(NamedBarrier::producers), threads_of<tile>(NamedBarrier::producers));
    arrive_named(int(NamedBarrier::consumers), threads_of<tile>(NamedBarrier::consumers));
    sync_peers<tile>();
}

template <Tile tile>
TILEWRIGHT_DEVICE void sync_initialised(NamedBarrier barrier) {
    sync_named(int(barrier), threads_of<tile>(barrier));
    sync_peers<tile>();
}

}  // namespace tilewright::hopper
