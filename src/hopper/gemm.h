// The kernel: D = C + alpha * (A scales_a) (B scales_b)^T. Persistent: as many blocks as fit on the GPU, each computes
// its list of tiles. In a block one warpgroup moves data and the others multiply; rings in shared memory connect them,
// so that the next tile is loaded and the last one stored while this one is computed. tests/emulator/table_test.cpp
// holds both tables against roles.h and budget.h, which compute them, barrier_users_test.cpp against what kernels do.
//
// Warps of the tile 256x128x128 with 1x128 : 128x128 scales. In grouped kernels warp 1 is the scheduler: it also
// produces the work tiles (signals work_full, waits for work_empty), which all others wait for, and warp 2 looks for
// blocks of row indices with two groups. Kernels for groups of k have such a scheduler too, and in them row_scales
// clears what follows the end of a group, or loads groups that TMA cannot: a k-block in which one ends, or of such a
// group, arrives at landed, and row_scales makes load's arrival at full. With epilogue scales their barriers are in the
// place of those of the block scales. D of f32 leaves from stages of the ring (epilogue/f32_store.h): `staged` is
// theirs, with the arrivals of all consumer warps, and the store warp signals `empty` instead of them, and no `stored`.
// clang-format off
//
// warp | role                      | waits for                       | signals                                  | registers
// 0    | load                      | empty                           | full                                     | 40
// 1    | block_and_epilogue_scales | block_scales_empty              | block_scales_full                        | 40
// 2    | row_scales                | empty                           | full                                     | 40
// 3    | store                     | staged                          | stored                                   | 40
// 4-11 | multiply                  | full, block_scales_full, stored | empty, block_scales_empty, staged, ended | 232
//
// Barriers. "consumer warps" are those of the block, "x cluster" of all blocks of a cluster that shares an operand or
// splits k. row_scales arrives at full only where TMA cannot load 1x128 scales; where it copies them, each lane's copies
// add an arrival and make it.
//
// barrier               | who waits             | who arrives                       | arrivals
// full                  | multiply              | load (with bytes), row_scales     | 1 + row scale warps
// landed                | row_scales            | load (with bytes)                 | 1
// empty                 | load, row_scales      | multiply                          | consumer warps x cluster
// ended                 | load, in end_waits    | multiply                          | consumer warps
// staged                | store                 | multiply                          | warps of a warpgroup
// stored                | multiply              | store                             | 1
// block_scales_full     | multiply              | warp 1                            | 1
// block_scales_empty    | warp 1                | multiply                          | consumer warps
// epilogue_scales_full  | multiply              | warp 1                            | 1
// epilogue_scales_empty | warp 1                | multiply                          | consumer warps
// work_full             | all but the scheduler | scheduler                         | 1
// work_empty            | scheduler             | load, row_scales, store, multiply | warps that take tiles
// slices_full           | multiply              | multiply, all blocks (with bytes) | 1
// slices_read           | multiply              | multiply                          | consumer warps x cluster
// clang-format on
#pragma once

#include "hopper/kernel/consumer_loops.h"
#include "hopper/kernel/producer.h"

namespace tilewright::hopper {

template <Tile tile>
__global__ void __launch_bounds__(block_threads(tile), blocks_per_sm(tile))
    gemm(const __grid_constant__ Arguments arguments) {
    static_assert(is_consistent(tile));
    static_assert(sizeof(Shared<tile>) == shared_bytes(tile));
    auto& shared = shared_memory<Shared<tile>>();
    const int warp = warp_index();
    if (role_of(tile, warp) == Role::load && lane_index() == 0) {
        tma_prefetch(arguments.a);
        if constexpr (!is_grouped(tile) && !maps_groups(tile)) tma_prefetch(arguments.a_last);
        if constexpr (!has_packed_weights(tile) || has_raw_codes(tile)) tma_prefetch(arguments.b);
        init_full<tile>(shared, arguments);
    }
    sync_warp();
    WorkTiles<tile> tiles(shared, arguments);
    tiles.prepare();
    // So far nothing was read but the arguments.
    wait_for_earlier_kernels();
    let_next_kernel_start();

    int budget = 0;
    if (warp < producer_warps) {
        if constexpr (moves_registers(tile)) registers_give<producer_registers(tile)>();
        budget = produce<tile>(shared, arguments, tiles, warp);
    } else {
        if constexpr (moves_registers(tile)) registers_take<consumer_registers(tile)>();
        sync_initialised<tile>(NamedBarrier::consumers);
        budget = consume<tile>(shared, arguments, tiles, warp - producer_warps);
    }
    if (budget < 0) {
        Timeout& timeout = warp < producer_warps ? arguments.report->producer : arguments.report->consumer;
        store_global(&timeout.word, Timeout::pack(u32(block_index()), u32(thread_index()), budget));
    }
    // Warps of a peer may still signal this block's barriers. (Split k: none does.)
    if constexpr (shares_operand(tile)) sync_cluster();
}

}  // namespace tilewright::hopper
