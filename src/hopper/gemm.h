// The kernel: D = C + alpha * (A scales_a) (B scales_b)^T. It is persistent: as many blocks as fit on the GPU run, and
// each computes its list of tiles. In a block, one warpgroup moves data and the others multiply. Rings in shared memory
// connect them, so that loads of the next tile and stores of the last tile overlap the current tile.
//
// The tables below show the warps and barriers of the tile 256x128x128 with 1x128 : 128x128 scales. Two tests check the
// tables. tests/emulator/table_test.cpp compares them with the code that computes them.
// barrier_users_test.cpp compares them with the behaviour of kernels. Other kernels differ as follows:
//
// - Grouped: warp 1 also produces the work tiles (signals work_full, waits for work_empty), for
//   which all other warps wait. Warp 2 looks for blocks of row indices with two groups.
// - k-grouped: warp 1 too. row_scales clears the bytes after the end of a group, or loads groups that
//   TMA cannot load. The bytes of these k-blocks arrive at `unfinished`, and row_scales then makes load's arrival at
//   `full`.
// - Epilogue scales: their barriers take the place of the block scales' barriers.
// - D of f32 is stored from stages of the ring (store/f32_stage.h). `staged` belongs to these stages and counts the
//   arrivals of all consumer warps. The store warp, not the consumers, signals `empty`; nothing signals `stored`.
// clang-format off
//
// warp | role                 | waits for                       | signals                                  | registers
// 0    | load                 | empty                           | full                                     | 40
// 1    | scheduler_and_scales | block_scales_empty              | block_scales_full                        | 40
// 2    | row_scales           | empty                           | full                                     | 40
// 3    | store                | staged                          | stored                                   | 40
// 4-11 | multiply             | full, block_scales_full, stored | empty, block_scales_empty, staged, ended | 232
//
// The barriers and their arrivals per phase. `consumer warps`: the consumer warps of the block. `x cluster`: times the
// blocks of a cluster that shares an operand or splits k. The role row_scales arrives at full only if TMA cannot load
// the 1x128 scales. If it copies them, the copies of each lane add an arrival to the phase and make that arrival.
//
// barrier               | who waits             | who arrives                       | arrivals
// full                  | multiply              | load (with bytes), row_scales     | 1 + row scale warps
// unfinished            | row_scales            | load (with bytes)                 | 1
// empty                 | load, row_scales      | multiply                          | consumer warps x cluster
// ended                 | load, in end_waits    | multiply                          | consumer warps
// staged                | store                 | multiply                          | warps of a warpgroup
// stored                | multiply              | store                             | 1
// block_scales_full     | multiply              | warp 1                            | 1
// block_scales_empty    | warp 1                | multiply                          | consumer warps
// epilogue_scales_full  | multiply              | warp 1                            | 1
// epilogue_scales_empty | warp 1                | multiply                          | consumer warps
// work_full             | all but warp 1        | warp 1                            | 1
// work_empty            | warp 1                | load, row_scales, store, multiply | warps that take tiles
// slices_full           | multiply              | multiply, all blocks (with bytes) | 1
// slices_read           | multiply              | multiply                          | consumer warps x cluster
// clang-format on
#pragma once

#include "hopper/description/design.h"
#include "hopper/kernel/barriers.h"
#include "hopper/kernel/consumer_loops.h"
#include "hopper/load/epilogue_scales.h"
#include "hopper/load/finish_k_blocks.h"
#include "hopper/load/load.h"
#include "hopper/load/scales_copy.h"
#include "hopper/load/scales_load.h"
#include "hopper/schedule/group_sizes.h"
#include "hopper/schedule/scheduler.h"
#include "hopper/store/f32_stage.h"
#include "hopper/store/store.h"

namespace tilewright::hopper {

// ---- What each producer warp runs. All functions return the rest of the wait budget.

template <Design design>
TILEWRIGHT_DEVICE int load(Shared<design>& shared, const ArgumentsOf<design>& arguments,
                           const WorkTiles<design>& tiles) {
    Loader<design> loader(shared, arguments, tiles);
    // The first k-block needs no barrier of a peer and no work tile: it is loaded ahead of the block's synchronisation.
    if constexpr (design.groups == Groups::none && !design.cluster.shares_operand()) loader.begin();
    if (lane_index() == 0) init_barriers<design>(shared, arguments);
    sync_warp();
    arrive_initialised<design>();
    const int budget = loader.run();
    if (budget < 0 && lane_index() == 0) end_waits<design>(shared);
    sync_warp();
    return budget;
}

/// Loads, ahead of a tile, the scales that serve the whole tile or many of its k-blocks. As the scheduler it also
/// produces the work tiles, because it is the first to know them.
template <Design design>
class SchedulerAndScales {
public:
    TILEWRIGHT_DEVICE SchedulerAndScales(Shared<design>& shared, const ArgumentsOf<design>& arguments)
        : shared_(shared), arguments_(arguments), tiles_(shared, arguments), block_scales_(shared, arguments) {}

    /// The part of the work that does not need the block's barriers.
    TILEWRIGHT_DEVICE void begin() {
        tiles_.prepare();
        if constexpr (design.groups == Groups::none) {
            if constexpr (design.block_scales_per_k_block > 0) block_scales_.read_first(tiles_.first(budget_));
        }
    }

    TILEWRIGHT_DEVICE int run() {
        bool has_first = design.groups == Groups::none;
        for (WorkTileOf<design> work = tiles_.first(budget_); work.exists != 0; work = tiles_.next(budget_)) {
            if constexpr (design.has_epilogue_scales) {
                if constexpr (design.groups == Groups::rows) wait_for_earlier_kernels();  // for scales of A
                load_epilogue_scales<design>(shared_, arguments_, work, epilogue_scales_, budget_);
            }
            if constexpr (design.block_scales_per_k_block > 0) block_scales_.load(work, has_first, budget_);
            has_first = false;
        }
        return budget_;
    }

private:
    Shared<design>& shared_;
    const ArgumentsOf<design>& arguments_;
    int budget_ = wait_budget;
    ProducedWorkTiles<design> tiles_;
    PipelineState<epilogue_scale_slots> epilogue_scales_{.phase = 1};
    BlockScales<design> block_scales_;
};

/// Loads 1x128 scales without TMA. In grouped kernels warp 2 has little to do if TMA loads all scales, so that it also
/// looks for rows of two groups.
template <Design design, bool copies = design.scale_route.copies>
class RowScaleWarp {
public:
    TILEWRIGHT_DEVICE RowScaleWarp(Shared<design>& shared, const ArgumentsOf<design>& arguments,
                                   const WorkTiles<design>&)
        : shared_(shared), arguments_(arguments) {}

    TILEWRIGHT_DEVICE void begin() {}

    TILEWRIGHT_DEVICE int run() {
        int budget = wait_budget;
        if constexpr (design.scale_route.loads) {
            if (!scales_by_tma<design>(arguments_)) budget = RowScales<design>(shared_, arguments_).run();
        }
        if constexpr (design.is_k_grouped()) {
            if (!design.order.has(ScaleUse::chains) || scales_by_tma<design>(arguments_))
                budget = finish_k_blocks<design>(shared_, arguments_, WorkTiles<design>(shared_, arguments_));
        }
        if constexpr (design.groups == Groups::rows) report_mixed_rows(arguments_);
        return budget;
    }

private:
    Shared<design>& shared_;
    const ArgumentsOf<design>& arguments_;
};

/// The same role in kernels that copy these scales.
template <Design design>
class RowScaleWarp<design, true> {
public:
    TILEWRIGHT_DEVICE RowScaleWarp(Shared<design>& shared, const ArgumentsOf<design>& arguments,
                                   const WorkTiles<design>& tiles)
        : shared_(shared), arguments_(arguments), copies_(shared, arguments, tiles) {}

    /// Starts copies that do not need the block's barriers.
    TILEWRIGHT_DEVICE void begin() {
        if constexpr (design.groups == Groups::none) {
            if (!scales_by_tma<design>(arguments_)) copies_.begin();
        }
    }

    TILEWRIGHT_DEVICE int run() {
        int budget = wait_budget;
        if (!scales_by_tma<design>(arguments_)) {
            budget = copies_.run();
        } else if constexpr (design.is_k_grouped() && design.scale_route.tma) {
            budget = finish_k_blocks<design>(shared_, arguments_, WorkTiles<design>(shared_, arguments_));
        }
        if constexpr (design.groups == Groups::rows) report_mixed_rows(arguments_);
        return budget;
    }

private:
    Shared<design>& shared_;
    const ArgumentsOf<design>& arguments_;
    RowScaleCopies<design> copies_;
};

template <Design design>
TILEWRIGHT_DEVICE int store(Shared<design>& shared, const ArgumentsOf<design>& arguments,
                            const WorkTiles<design>& tiles) {
    if constexpr (design.output == Output::f32_by_tma) return F32Store<design>(shared, arguments, tiles).run();
    if constexpr (design.output != Output::any) return store_tiles<design, 2>(shared, arguments, tiles);
    if (!arguments.stored_by_tma) return wait_budget;
    if (element_bytes(arguments.format) == 2) {
        if constexpr (design.stores_by_tma(2)) return store_tiles<design, 2>(shared, arguments, tiles);
    } else {
        if constexpr (design.stores_by_tma(4)) return store_tiles<design, 4>(shared, arguments, tiles);
    }
    return wait_budget;
}

template <Design design>
TILEWRIGHT_DEVICE int produce(Shared<design>& shared, const ArgumentsOf<design>& arguments,
                              const WorkTiles<design>& tiles, int warp) {
    const Role role = role_of(design, warp);
    if (role == Role::load) return load<design>(shared, arguments, tiles);
    const bool schedules = role == Role::scheduler_and_scales;
    SchedulerAndScales<design> scheduler(shared, arguments);
    RowScaleWarp<design> row_scales(shared, arguments, tiles);
    if (schedules) scheduler.begin();
    if (role == Role::row_scales) row_scales.begin();
    // One instruction for all warps, because synccheck reports warps that wait at different instructions as divergent.
    sync_initialised<design>(NamedBarrier::producers);
    if (schedules) return scheduler.run();
    if constexpr (design.groups == Groups::rows) wait_for_earlier_kernels();
    if (role == Role::row_scales) return row_scales.run();
    return role == Role::store ? store<design>(shared, arguments, tiles) : wait_budget;
}

// ---- The kernel

/// (The type is a template parameter, because GCC 12 cannot write a name that depends on a call.)
template <Kernel kernel, class OfKernel = ArgumentsOf<Design(kernel)>>
__global__ void __launch_bounds__(Design(kernel).threads, Design(kernel).blocks_per_sm)
    gemm(const __grid_constant__ OfKernel arguments) {
    constexpr Design design = Design(kernel);
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
    // Up to this line the kernel has read only its arguments. Producers may first read weights and sizes of groups, and
    // only then wait for the kernels ahead of this one.
    const bool waits_later = design.groups == Groups::rows && arguments.weights_ready && warp < producer_warps;
    if (!waits_later) {
        wait_for_earlier_kernels();
        let_next_kernel_start();
    }

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
