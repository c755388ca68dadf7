// The source of tiles for the roles of a block. Dense: each role computes them. Grouped and k-grouped: the scheduler
// warp reads the group sizes and produces work tiles into a ring in shared memory. All other roles take them from the
// ring.
#pragma once

#include "base/math.h"
#include "hopper/arguments.h"
#include "hopper/block/ring.h"
#include "hopper/block/stamps.h"
#include "hopper/schedule/grouped.h"
#include "hopper/schedule/k_grouped.h"

namespace tilewright::hopper {

/// A role's tiles: `first`, then `next` until a tile does not exist.
template <Design design, bool scheduled = design.groups != Groups::none>
class WorkTiles {
public:
    TILEWRIGHT_DEVICE WorkTiles(Shared<design>& /*shared*/, const Arguments& arguments)
        : schedule_(arguments.scheduler, block_index(), block_count()) {}

    /// Computes the first tile while barriers are not yet ready.
    TILEWRIGHT_DEVICE void prepare() { first_ = schedule_.next(); }
    TILEWRIGHT_DEVICE WorkTileOf<design> first(int& /*budget*/) const { return first_; }
    TILEWRIGHT_DEVICE WorkTileOf<design> next(int& /*budget*/) { return schedule_.next(); }

private:
    Schedule<design> schedule_;
    WorkTileOf<design> first_{};
};

/// The place of the values of a work tile's group, for kernels that need it.
template <bool maps>
struct OriginOfGroup {};
template <>
struct OriginOfGroup<true> {
    GroupOrigin origin{};
};

template <Design design>
class WorkTiles<design, true> : public OriginOfGroup<design.groups == Groups::k_anywhere> {
public:
    TILEWRIGHT_DEVICE WorkTiles(Shared<design>& shared, const Arguments& /*arguments*/) : shared_(shared) {}

    TILEWRIGHT_DEVICE void prepare() {}
    TILEWRIGHT_DEVICE WorkTileOf<design> first(int& budget) { return next(budget); }
    /// The next tile, the same in all lanes in a form that the compiler knows.
    TILEWRIGHT_DEVICE WorkTileOf<design> next(int& budget) {
        const int slot = ring_.stage;
        barrier_wait(shared_.work_full[slot], ring_.phase, {budget, BarrierName::work_full, slot});
        const int(&words)[work_tile_words] = shared_.work[slot];
        const WorkTileOf<design> work{same_in_warp(load_shared(words[0])), same_in_warp(load_shared(words[1])),
                                      same_in_warp(load_shared(words[2])), same_in_warp(load_shared(words[3])),
                                      same_in_warp(load_shared(words[4])),
                                      // After a time-out the slot's contents are undefined.
                                      same_in_warp(budget < 0 ? 0 : load_shared(words[5]))};
        if constexpr (design.groups == Groups::k_anywhere) {
            this->origin = {.begin = same_in_warp(load_shared(words[6])), .k = same_in_warp(load_shared(words[7]))};
        }
        sync_warp();
        warp_arrives<design>(shared_.work_empty[slot], lane_index());
        ring_.advance();
        return work;
    }

private:
    Shared<design>& shared_;
    PipelineState<work_tile_slots> ring_{};
};

/// The tiles of the warp that produces them for the others, or of the same warp in kernels without a scheduler.
template <Design design, bool scheduled = design.groups != Groups::none>
class ProducedWorkTiles : public WorkTiles<design> {
    using WorkTiles<design>::WorkTiles;
};

template <Design design>
class ProducedWorkTiles<design, true> {
public:
    TILEWRIGHT_DEVICE ProducedWorkTiles(Shared<design>& shared, const ArgumentsOf<design>& arguments)
        : shared_(shared), stamp_(arguments), schedule_(arguments, block_index(), block_count()) {
        stamp_(Event::begins);
    }

    /// Finds the first tile while barriers are not yet ready.
    TILEWRIGHT_DEVICE void prepare() { first_ = schedule_.next(); }
    TILEWRIGHT_DEVICE WorkTileOf<design> first(int& budget) { return pass_on(first_, budget); }
    TILEWRIGHT_DEVICE WorkTileOf<design> next(int& budget) { return pass_on(schedule_.next(), budget); }

private:
    TILEWRIGHT_DEVICE WorkTileOf<design> pass_on(const WorkTileOf<design>& work, int& budget) {
        const int slot = ring_.stage;
        barrier_wait(shared_.work_empty[slot], ring_.phase, {budget, BarrierName::work_empty, slot});
        if (lane_index() == 0) {
            int(&words)[work_tile_words] = shared_.work[slot];
            store_shared(words[0], work.row);
            store_shared(words[1], work.column);
            store_shared(words[2], work.batch);
            if constexpr (design.is_k_grouped()) {
                store_shared(words[3], work.k_block);
                store_shared(words[4], work.k);
            } else {
                store_shared(words[3], work.group);
                store_shared(words[4], work.row_end);
            }
            store_shared(words[5], work.exists);
            if constexpr (design.groups == Groups::k_anywhere) {
                store_shared(words[6], schedule_.origin().begin);
                store_shared(words[7], schedule_.origin().k);
            }
            barrier_arrive(shared_.work_full[slot]);
        }
        sync_warp();
        stamp_(Event::passes);
        ring_.advance();
        return work;
    }

    Shared<design>& shared_;
    [[no_unique_address]] Stamps<design> stamp_;
    Chosen<design.is_k_grouped(), KGroupedSchedule<design>, GroupedSchedule<design>> schedule_;
    WorkTileOf<design> first_{};
    PipelineState<work_tile_slots> ring_{.phase = 1};
};

}  // namespace tilewright::hopper
