// The kernel: D = C + alpha * (A scales_a) (B scales_b)^T. It is persistent: as many blocks as fit on the GPU run, and
// each computes its list of tiles. In a block, one warpgroup moves data and the others multiply. Rings in shared memory
// connect them, so that loads of the next tile and stores of the last tile overlap the current tile.
//
// The tables below show the warps and barriers of the tile 256x128x128 with 1x128 : 128x128 scales. Two tests check the
// tables. tests/emulator/table_test.cpp compares them with roles.h and design.h, which compute them.
// barrier_users_test.cpp compares them with the behaviour of kernels. Other kernels differ as follows:
//
// - Grouped: warp 1 is the scheduler. It also produces the work tiles (signals work_full, waits for work_empty), for
//   which all other warps wait. Warp 2 looks for blocks of row indices with two groups.
// - k-grouped: warp 1 is the scheduler too. row_scales clears the bytes after the end of a group, or loads groups that
//   TMA cannot load. The bytes of these k-blocks arrive at `landed`, and row_scales then makes load's arrival at
//   `full`.
// - Epilogue scales: their barriers take the place of the block scales' barriers.
// - D of f32 is stored from stages of the ring (store/f32_store.h). `staged` belongs to these stages and counts the
//   arrivals of all consumer warps. The store warp, not the consumers, signals `empty`; nothing signals `stored`.
// clang-format off
//
// warp | role                      | waits for                       | signals                                  | registers
// 0    | load                      | empty                           | full                                     | 40
// 1    | block_and_epilogue_scales | block_scales_empty              | block_scales_full                        | 40
// 2    | row_scales                | empty                           | full                                     | 40
// 3    | store                     | staged                          | stored                                   | 40
// 4-11 | multiply                  | full, block_scales_full, stored | empty, block_scales_empty, staged, ended | 232
//
// The barriers and their arrivals per phase. `consumer warps`: the consumer warps of the block. `x cluster`: times the
// blocks of a cluster that shares an operand or splits k. The role row_scales arrives at full only if TMA cannot load
// the 1x128 scales. If it copies them, the copies of each lane add an arrival to the phase and make that arrival.
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

#include "hopper/description/derive.h"
#include "hopper/description/rules.h"
#include "hopper/kernel/consumer_loops.h"
#include "hopper/kernel/producer.h"

namespace tilewright::hopper {

template <Kernel kernel>
__global__ void __launch_bounds__(design_of(kernel).threads, design_of(kernel).blocks_per_sm)
    gemm(const __grid_constant__ Arguments arguments) {
    static_assert(contradiction(kernel) == nullptr);
    constexpr Design design = design_of(kernel);
    static_assert(sizeof(Shared<design>) == design.shared_bytes);
    auto& shared = shared_memory<Shared<design>>();
    const int warp = warp_index();
    if (role_of(design, warp) == Role::load && lane_index() == 0) {
        tma_prefetch(arguments.a);
        if constexpr (design.groups != Groups::rows && design.groups != Groups::k_anywhere)
            tma_prefetch(arguments.a_last);
        if constexpr (!design.b.is_packed() || design.b.form == Form::rows_and_tiles) tma_prefetch(arguments.b);
        init_full<design>(shared, arguments);
    }
    sync_warp();
    WorkTiles<design> tiles(shared, arguments);
    tiles.prepare();
    // Up to this line the kernel has read only its arguments.
    wait_for_earlier_kernels();
    let_next_kernel_start();

    int budget = 0;
    if (warp < producer_warps) {
        if constexpr (design.shape.warpgroups > 1) registers_give<design.producer_registers>();
        budget = produce<design>(shared, arguments, tiles, warp);
    } else {
        if constexpr (design.shape.warpgroups > 1) registers_take<design.consumer_registers>();
        sync_initialised<design>(NamedBarrier::consumers);
        budget = consume<design>(shared, arguments, tiles, warp - producer_warps);
    }
    if (budget < 0) {
        Timeout& timeout = warp < producer_warps ? arguments.report->producer : arguments.report->consumer;
        store_global(&timeout.word, Timeout::pack(u32(block_index()), u32(thread_index()), budget));
    }
    // Warps of a peer may still signal this block's barriers. (Split-K: no warp does.)
    if constexpr (design.cluster.shares_operand()) sync_cluster();
}

}  // namespace tilewright::hopper
