// The producer warps: what each role runs. All functions return the rest of the wait budget.
#pragma once

#include "hopper/kernel/barriers.h"
#include "hopper/kernel/watch.h"
#include "hopper/load/epilogue_scales.h"
#include "hopper/load/load.h"
#include "hopper/load/scales_copy.h"
#include "hopper/load/scales_load.h"
#include "hopper/load/unaligned_groups.h"
#include "hopper/load/zero_k_tail.h"
#include "hopper/schedule/scheduler.h"
#include "hopper/store/f32_store.h"
#include "hopper/store/tma_store.h"

namespace tilewright::hopper {

template <Design design>
TILEWRIGHT_DEVICE int load(Shared<design>& shared, const Arguments& arguments, const WorkTiles<design>& tiles) {
    Loader<design> loader(shared, arguments, tiles);
    if constexpr (loads_early(design)) loader.begin();
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
    TILEWRIGHT_DEVICE SchedulerAndScales(Shared<design>& shared, const Arguments& arguments)
        : shared_(shared), arguments_(arguments), tiles_(shared, arguments), block_scales_(shared, arguments) {}

    /// The part of the work that does not need the block's barriers.
    TILEWRIGHT_DEVICE void begin() {
        tiles_.prepare();
        if constexpr (!design.has_scheduler()) {
            if constexpr (design.has_block_scales) block_scales_.read_first(tiles_.first(budget_));
        }
    }

    TILEWRIGHT_DEVICE int run() {
        bool has_first = !design.has_scheduler();
        for (WorkTileOf<design> work = tiles_.first(budget_); work.exists != 0; work = tiles_.next(budget_)) {
            if constexpr (design.has_epilogue_scales) {
                load_epilogue_scales<design>(shared_, arguments_, work, epilogue_scales_, budget_);
            }
            if constexpr (design.has_block_scales) block_scales_.load(work, has_first, budget_);
            has_first = false;
        }
        return budget_;
    }

private:
    Shared<design>& shared_;
    const Arguments& arguments_;
    int budget_ = wait_budget;
    ProducedWorkTiles<design> tiles_;
    PipelineState<epilogue_scale_slots> epilogue_scales_{.phase = 1};
    BlockScales<design> block_scales_;
};

/// k-grouped: completes k-blocks that TMA loads only in part, or not at all.
template <Design design>
TILEWRIGHT_DEVICE int finish_k_blocks(Shared<design>& shared, const Arguments& arguments) {
    const WorkTiles<design> tiles(shared, arguments);
    if constexpr (design.groups == Groups::k_anywhere) {
        return load_unaligned_groups<design>(shared, arguments, tiles);
    } else {
        return zero_k_tails<design>(shared, tiles);
    }
}

/// Loads 1x128 scales without TMA. In grouped kernels warp 2 has little to do if TMA loads all scales, so that it also
/// looks for rows of two groups.
template <Design design, bool copies = may_copy(design.scale_route)>
class RowScaleWarp {
public:
    TILEWRIGHT_DEVICE RowScaleWarp(Shared<design>& shared, const Arguments& arguments, const WorkTiles<design>&)
        : shared_(shared), arguments_(arguments) {}

    TILEWRIGHT_DEVICE void begin() {}

    TILEWRIGHT_DEVICE int run() {
        int budget = wait_budget;
        if constexpr (may_load(design.scale_route)) {
            if (!arguments_.scales_by_tma) budget = RowScales<design>(shared_, arguments_).run();
        }
        if constexpr (design.is_k_grouped()) {
            const bool does_nothing_else = !design.has_row_scales() || arguments_.scales_by_tma;
            if (does_nothing_else) budget = finish_k_blocks<design>(shared_, arguments_);
        }
        if constexpr (design.groups == Groups::rows) report_mixed_rows(arguments_);
        return budget;
    }

private:
    Shared<design>& shared_;
    const Arguments& arguments_;
};

/// The same role in kernels that copy these scales.
template <Design design>
class RowScaleWarp<design, true> {
public:
    TILEWRIGHT_DEVICE RowScaleWarp(Shared<design>& shared, const Arguments& arguments, const WorkTiles<design>& tiles)
        : shared_(shared), arguments_(arguments), copies_(shared, arguments, tiles) {}

    /// Starts copies that do not need the block's barriers.
    TILEWRIGHT_DEVICE void begin() {
        if constexpr (!design.has_scheduler()) {
            if (by_copies()) copies_.begin();
        }
    }

    TILEWRIGHT_DEVICE int run() {
        int budget = wait_budget;
        if (by_copies()) {
            budget = copies_.run();
        } else if constexpr (design.is_k_grouped() && may_use_tma(design.scale_route)) {
            budget = finish_k_blocks<design>(shared_, arguments_);
        }
        if constexpr (design.groups == Groups::rows) report_mixed_rows(arguments_);
        return budget;
    }

private:
    TILEWRIGHT_DEVICE bool by_copies() const { return !may_use_tma(design.scale_route) || !arguments_.scales_by_tma; }

    Shared<design>& shared_;
    const Arguments& arguments_;
    RowScaleCopies<design> copies_;
};

template <Design design>
TILEWRIGHT_DEVICE int store(Shared<design>& shared, const Arguments& arguments, const WorkTiles<design>& tiles) {
    if constexpr (design.output == Output::f32_by_tma) return F32Store<design>(shared, arguments, tiles).run();
    if constexpr (design.output != Output::any) return store_tiles<design, 2>(shared, arguments, tiles);
    if (!arguments.stored_by_tma) return wait_budget;
    if (element_bytes(arguments.format) == 2) {
        if constexpr (store_of(design, 2).possible) return store_tiles<design, 2>(shared, arguments, tiles);
    } else {
        if constexpr (store_of(design, 4).possible) return store_tiles<design, 4>(shared, arguments, tiles);
    }
    return wait_budget;
}

template <Design design>
TILEWRIGHT_DEVICE int produce(Shared<design>& shared, const Arguments& arguments, const WorkTiles<design>& tiles,
                              int warp) {
    const Role role = role_of(design, warp);
    if (role == Role::load) return load<design>(shared, arguments, tiles);
    const bool schedules = role == Role::scheduler || role == Role::block_and_epilogue_scales;
    SchedulerAndScales<design> scheduler(shared, arguments);
    RowScaleWarp<design> row_scales(shared, arguments, tiles);
    if (schedules) scheduler.begin();
    if (role == Role::row_scales) row_scales.begin();
    // One instruction for all warps, because synccheck reports warps that wait at different instructions as divergent.
    sync_initialised<design>(NamedBarrier::producers);
    if (schedules) return scheduler.run();
    if (role == Role::row_scales) return row_scales.run();
    return role == Role::store ? store<design>(shared, arguments, tiles) : wait_budget;
}

}  // namespace tilewright::hopper
