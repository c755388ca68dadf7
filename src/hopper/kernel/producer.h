// The producer warps: what each role runs. All functions return the rest of the wait budget.
#pragma once

#include "hopper/epilogue/f32_store.h"
#include "hopper/epilogue/scales_load.h"
#include "hopper/epilogue/tma_store.h"
#include "hopper/kernel/barriers.h"
#include "hopper/kernel/watch.h"
#include "hopper/mainloop/clear_rest.h"
#include "hopper/mainloop/load.h"
#include "hopper/mainloop/odd_groups.h"
#include "hopper/mainloop/scales_copy.h"
#include "hopper/mainloop/scales_load.h"
#include "hopper/schedule/scheduler.h"

namespace tilewright::hopper {

template <Tile tile>
TILEWRIGHT_DEVICE int load(Shared<tile>& shared, const Arguments& arguments, const WorkTiles<tile>& tiles) {
    Loader<tile> loader(shared, arguments, tiles);
    if constexpr (loads_early<tile>) loader.begin();
    if (lane_index() == 0) init_barriers<tile>(shared, arguments);
    sync_warp();
    arrive_initialised<tile>();
    const int budget = loader.run();
    if (budget < 0 && lane_index() == 0) end_waits<tile>(shared);
    sync_warp();
    return budget;
}

/// Loads, ahead of a tile, the scales that serve the whole tile or many of its k-blocks. As the scheduler it also
/// produces the work tiles, because it is the first to know them.
template <Tile tile>
class SchedulerAndScales {
public:
    TILEWRIGHT_DEVICE SchedulerAndScales(Shared<tile>& shared, const Arguments& arguments)
        : shared_(shared), arguments_(arguments), tiles_(shared, arguments), block_scales_(shared, arguments) {}

    /// The part of the work that does not need the block's barriers.
    TILEWRIGHT_DEVICE void begin() {
        tiles_.prepare();
        if constexpr (!has_scheduler(tile)) {
            if constexpr (has_block_scales(tile)) block_scales_.read_first(tiles_.first(budget_));
        }
    }

    TILEWRIGHT_DEVICE int run() {
        bool has_first = !has_scheduler(tile);
        for (WorkTile work = tiles_.first(budget_); work.exists != 0; work = tiles_.next(budget_)) {
            if constexpr (has_epilogue_scales(tile)) {
                load_epilogue_scales<tile>(shared_, arguments_, work, epilogue_scales_, budget_);
            }
            if constexpr (has_block_scales(tile)) block_scales_.load(work, has_first, budget_);
            has_first = false;
        }
        return budget_;
    }

private:
    Shared<tile>& shared_;
    const Arguments& arguments_;
    int budget_ = wait_budget;
    ProducedWorkTiles<tile> tiles_;
    PipelineState<epilogue_scale_slots> epilogue_scales_{.phase = 1};
    BlockScales<tile> block_scales_;
};

/// k-grouped: completes k-blocks that TMA loads only in part, or not at all.
template <Tile tile>
TILEWRIGHT_DEVICE int finish_k_blocks(Shared<tile>& shared, const Arguments& arguments) {
    const WorkTiles<tile> tiles(shared, arguments);
    if constexpr (maps_groups(tile)) {
        return load_odd_groups<tile>(shared, arguments, tiles);
    } else {
        return clear_rests<tile>(shared, tiles);
    }
}

/// Loads 1x128 scales without TMA. In grouped kernels warp 2 has little to do if TMA loads all scales, so that it also
/// looks for rows of two groups.
template <Tile tile, bool copies = copies_row_scales(tile)>
class RowScaleWarp {
public:
    TILEWRIGHT_DEVICE RowScaleWarp(Shared<tile>& shared, const Arguments& arguments, const WorkTiles<tile>&)
        : shared_(shared), arguments_(arguments) {}

    TILEWRIGHT_DEVICE void begin() {}

    TILEWRIGHT_DEVICE int run() {
        int budget = wait_budget;
        if constexpr (has_row_scales(tile) && may_load_row_scales(tile)) {
            if (!arguments_.scales_by_tma) budget = RowScales<tile>(shared_, arguments_).run();
        }
        if constexpr (is_k_grouped(tile)) {
            const bool does_nothing_else = !has_row_scales(tile) || arguments_.scales_by_tma;
            if (does_nothing_else) budget = finish_k_blocks<tile>(shared_, arguments_);
        }
        if constexpr (is_grouped(tile)) report_mixed_rows(arguments_);
        return budget;
    }

private:
    Shared<tile>& shared_;
    const Arguments& arguments_;
};

/// The same role in kernels that copy these scales.
template <Tile tile>
class RowScaleWarp<tile, true> {
public:
    TILEWRIGHT_DEVICE RowScaleWarp(Shared<tile>& shared, const Arguments& arguments, const WorkTiles<tile>& tiles)
        : shared_(shared), arguments_(arguments), copies_(shared, arguments, tiles) {}

    /// Starts copies that do not need the block's barriers.
    TILEWRIGHT_DEVICE void begin() {
        if constexpr (!has_scheduler(tile)) {
            if (by_copies()) copies_.begin();
        }
    }

    TILEWRIGHT_DEVICE int run() {
        int budget = wait_budget;
        if (by_copies()) {
            budget = copies_.run();
        } else if constexpr (is_k_grouped(tile) && may_load_row_scales_by_tma(tile)) {
            budget = finish_k_blocks<tile>(shared_, arguments_);
        }
        if constexpr (is_grouped(tile)) report_mixed_rows(arguments_);
        return budget;
    }

private:
    TILEWRIGHT_DEVICE bool by_copies() const { return !may_load_row_scales_by_tma(tile) || !arguments_.scales_by_tma; }

    Shared<tile>& shared_;
    const Arguments& arguments_;
    RowScaleCopies<tile> copies_;
};

template <Tile tile>
TILEWRIGHT_DEVICE int store(Shared<tile>& shared, const Arguments& arguments, const WorkTiles<tile>& tiles) {
    if constexpr (stores_f32(tile)) return F32Store<tile>(shared, arguments, tiles).run();
    if constexpr (is_fast(tile)) return store_tiles<tile, 2>(shared, arguments, tiles);
    if (!arguments.stored_by_tma) return wait_budget;
    if (element_bytes(arguments.format) == 2) {
        if constexpr (can_store_by_tma(tile, 2)) return store_tiles<tile, 2>(shared, arguments, tiles);
    } else {
        if constexpr (can_store_by_tma(tile, 4)) return store_tiles<tile, 4>(shared, arguments, tiles);
    }
    return wait_budget;
}

template <Tile tile>
TILEWRIGHT_DEVICE int produce(Shared<tile>& shared, const Arguments& arguments, const WorkTiles<tile>& tiles,
                              int warp) {
    const Role role = role_of(tile, warp);
    if (role == Role::load) return load<tile>(shared, arguments, tiles);
    const bool schedules = role == Role::scheduler || role == Role::block_and_epilogue_scales;
    SchedulerAndScales<tile> scheduler(shared, arguments);
    RowScaleWarp<tile> row_scales(shared, arguments, tiles);
    if (schedules) scheduler.begin();
    if (role == Role::row_scales) row_scales.begin();
    // One instruction for all warps, because synccheck reports warps that wait at different instructions as divergent.
    sync_initialised<tile>(NamedBarrier::producers);
    if (schedules) return scheduler.run();
    if (role == Role::row_scales) return row_scales.run();
    return role == Role::store ? store<tile>(shared, arguments, tiles) : wait_budget;
}

}  // namespace tilewright::hopper
