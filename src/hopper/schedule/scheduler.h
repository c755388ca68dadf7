// Where the roles of a block take their tiles from. Dense: each walks them on its own. Grouped: one warp reads the
// sizes and hands tiles out through a ring in shared memory.
#pragma once

#include "hopper/block/shared_memory.h"
#include "hopper/schedule/grouped.h"

namespace tilewright::hopper {

TILEWRIGHT_DEVICE Extent extent_of(const Arguments& arguments) {
    return {.m = arguments.m, .n = arguments.n, .batch = arguments.batch, .band = arguments.band};
}

/// A role's tiles: `first`, then `next` until none exists.
template <Tile tile, bool grouped = is_grouped(tile)>
class Tiles {
public:
    TILEWRIGHT_DEVICE Tiles(Shared<tile>& /*shared*/, const Arguments& arguments)
        : schedule_(arguments.walk, block_index(), block_count()) {}

    /// Finds the first one, before barriers are ready.
    TILEWRIGHT_DEVICE void prepare() { first_ = schedule_.next(); }
    TILEWRIGHT_DEVICE Work first(int& /*patience*/) const { return first_; }
    TILEWRIGHT_DEVICE Work next(int& /*patience*/) { return schedule_.next(); }

private:
    Schedule<tile> schedule_;
    Work first_{};
};

template <Tile tile>
class Tiles<tile, true> {
public:
    TILEWRIGHT_DEVICE Tiles(Shared<tile>& shared, const Arguments& /*arguments*/) : shared_(shared) {}

    TILEWRIGHT_DEVICE void prepare() {}
    TILEWRIGHT_DEVICE Work first(int& patience) { return next(patience); }
    /// The same in all lanes, and known to be.
    TILEWRIGHT_DEVICE Work next(int& patience) {
        const int slot = ring_.place;
        barrier_wait(shared_.work_full[slot], ring_.parity, {patience, BarrierName::work_full, slot});
        const int(&words)[work_tile_words] = shared_.work[slot];
        Work work{.row = same_in_warp(load_shared(words[0])),
                  .column = same_in_warp(load_shared(words[1])),
                  .batch = same_in_warp(load_shared(words[2])),
                  .group = same_in_warp(load_shared(words[3])),
                  .row_end = same_in_warp(load_shared(words[4])),
                  // Nothing can be known of a slot that was not waited for.
                  .exists = same_in_warp(patience < 0 ? 0 : load_shared(words[5]))};
        sync_warp();
        warp_arrives<tile>(shared_.work_empty[slot], lane_index());
        ring_.advance();
        return work;
    }

private:
    Shared<tile>& shared_;
    Ring<work_tile_slots> ring_{};
};

/// The tiles of the warp that hands them out, if one does.
template <Tile tile, bool grouped = is_grouped(tile)>
class HandedOutTiles : public Tiles<tile> {
    using Tiles<tile>::Tiles;
};

template <Tile tile>
class HandedOutTiles<tile, true> {
public:
    TILEWRIGHT_DEVICE HandedOutTiles(Shared<tile>& shared, const Arguments& arguments)
        : shared_(shared), schedule_(arguments.sizes, extent_of(arguments), block_index(), block_count()) {}

    TILEWRIGHT_DEVICE void prepare() {}
    TILEWRIGHT_DEVICE Work first(int& patience) { return next(patience); }
    TILEWRIGHT_DEVICE Work next(int& patience) {
        const Work work = schedule_.next();
        const int slot = ring_.place;
        barrier_wait(shared_.work_empty[slot], ring_.parity, {patience, BarrierName::work_empty, slot});
        if (lane_index() == 0) {
            int(&words)[work_tile_words] = shared_.work[slot];
            store_shared(words[0], work.row);
            store_shared(words[1], work.column);
            store_shared(words[2], work.batch);
            store_shared(words[3], work.group);
            store_shared(words[4], work.row_end);
            store_shared(words[5], work.exists);
            barrier_arrive(shared_.work_full[slot]);
        }
        sync_warp();
        ring_.advance();
        return work;
    }

private:
    Shared<tile>& shared_;
    GroupedSchedule<tile> schedule_;
    Ring<work_tile_slots> ring_{.parity = 1};
};

}  // namespace tilewright::hopper
