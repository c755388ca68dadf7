// The source of tiles for the roles of a block. Dense: each role computes them. Grouped and k-grouped: the scheduler
// warp reads the group sizes and produces work tiles into a ring in shared memory. All other roles take them from the
// ring.
#pragma once

#include "hopper/arguments.h"
#include "hopper/block/pipeline.h"
#include "hopper/block/shared_memory.h"
#include "hopper/schedule/grouped.h"
#include "hopper/schedule/k_grouped.h"
#include "hopper/schedule/k_mapped.h"

namespace tilewright::hopper {

/// A role's tiles: `first`, then `next` until a tile does not exist.
template <Tile tile, bool scheduled = has_scheduler(tile)>
class WorkTiles {
public:
    TILEWRIGHT_DEVICE WorkTiles(Shared<tile>& /*shared*/, const Arguments& arguments)
        : schedule_(arguments.scheduler, block_index(), block_count()) {}

    /// Computes the first tile while barriers are not yet ready.
    TILEWRIGHT_DEVICE void prepare() { first_ = schedule_.next(); }
    TILEWRIGHT_DEVICE WorkTile first(int& /*budget*/) const { return first_; }
    TILEWRIGHT_DEVICE WorkTile next(int& /*budget*/) { return schedule_.next(); }

private:
    Schedule<tile> schedule_;
    WorkTile first_{};
};

/// The place of the values of a work tile's group, for kernels that need it.
template <bool maps>
struct OriginOfGroup {};
template <>
struct OriginOfGroup<true> {
    GroupOrigin origin{};
};

template <Tile tile>
class WorkTiles<tile, true> : public OriginOfGroup<maps_groups(tile)> {
public:
    TILEWRIGHT_DEVICE WorkTiles(Shared<tile>& shared, const Arguments& /*arguments*/) : shared_(shared) {}

    TILEWRIGHT_DEVICE void prepare() {}
    TILEWRIGHT_DEVICE WorkTile first(int& budget) { return next(budget); }
    /// The next tile, the same in all lanes in a form that the compiler knows.
    TILEWRIGHT_DEVICE WorkTile next(int& budget) {
        const int slot = ring_.stage;
        barrier_wait(shared_.work_full[slot], ring_.phase, {budget, BarrierName::work_full, slot});
        const int(&words)[work_tile_words] = shared_.work[slot];
        WorkTile work{.row = same_in_warp(load_shared(words[0])),
                      .column = same_in_warp(load_shared(words[1])),
                      .batch = same_in_warp(load_shared(words[2])),
                      .group = same_in_warp(load_shared(words[3])),
                      .row_end = same_in_warp(load_shared(words[4])),
                      // After a time-out the slot's contents are undefined.
                      .exists = same_in_warp(budget < 0 ? 0 : load_shared(words[5]))};
        if constexpr (maps_groups(tile)) {
            this->origin = {.begin = same_in_warp(load_shared(words[6])), .k = same_in_warp(load_shared(words[7]))};
        }
        sync_warp();
        warp_arrives<tile>(shared_.work_empty[slot], lane_index());
        ring_.advance();
        return work;
    }

private:
    Shared<tile>& shared_;
    PipelineState<work_tile_slots> ring_{};
};

template <Tile tile, Family family = tile.family>
struct ScheduleOfGroupsOf {
    using Type = GroupedSchedule<tile>;
};
template <Tile tile>
struct ScheduleOfGroupsOf<tile, Family::k_grouped> {
    using Type = KGroupedSchedule<tile>;
};
template <Tile tile>
struct ScheduleOfGroupsOf<tile, Family::k_mapped> {
    using Type = KMappedSchedule<tile>;
};
template <Tile tile>
using ScheduleOfGroups = typename ScheduleOfGroupsOf<tile>::Type;

/// The tiles of the warp that produces them for the others, or of the same warp in kernels without a scheduler.
template <Tile tile, bool scheduled = has_scheduler(tile)>
class ProducedWorkTiles : public WorkTiles<tile> {
    using WorkTiles<tile>::WorkTiles;
};

template <Tile tile>
class ProducedWorkTiles<tile, true> {
public:
    TILEWRIGHT_DEVICE ProducedWorkTiles(Shared<tile>& shared, const Arguments& arguments)
        : shared_(shared), schedule_(arguments, block_index(), block_count()) {}

    TILEWRIGHT_DEVICE void prepare() {}
    TILEWRIGHT_DEVICE WorkTile first(int& budget) { return next(budget); }
    TILEWRIGHT_DEVICE WorkTile next(int& budget) {
        const WorkTile work = schedule_.next();
        const int slot = ring_.stage;
        barrier_wait(shared_.work_empty[slot], ring_.phase, {budget, BarrierName::work_empty, slot});
        if (lane_index() == 0) {
            int(&words)[work_tile_words] = shared_.work[slot];
            store_shared(words[0], work.row);
            store_shared(words[1], work.column);
            store_shared(words[2], work.batch);
            store_shared(words[3], work.group);
            store_shared(words[4], work.row_end);
            store_shared(words[5], work.exists);
            if constexpr (maps_groups(tile)) {
                store_shared(words[6], schedule_.origin().begin);
                store_shared(words[7], schedule_.origin().k);
            }
            barrier_arrive(shared_.work_full[slot]);
        }
        sync_warp();
        ring_.advance();
        return work;
    }

private:
    Shared<tile>& shared_;
    ScheduleOfGroups<tile> schedule_;
    PipelineState<work_tile_slots> ring_{.phase = 1};
};

}  // namespace tilewright::hopper
