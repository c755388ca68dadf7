// The store warp of kernels for D of f32: C to shared memory and D from there, both by TMA, through the same slots.
//
// A slot goes round: TMA loads a part of C, a warpgroup makes D of it (f32_stage.h), TMA stores D. The next part that
// takes the slot is loaded as soon as D has been read, so that C is there before a tile's mainloop ends. Two lanes
// issue in turn: each waits for its own stores alone, those of a part while those of the next one are under way.
#pragma once

#include "hopper/epilogue/tma_store.h"

namespace tilewright::hopper {

template <Tile tile>
class F32Store {
public:
    TILEWRIGHT_DEVICE F32Store(Shared<tile>& shared, const Arguments& arguments, const WorkTiles<tile>& tiles)
        : shared_(shared), arguments_(arguments), tiles_(tiles) {}

    /// Returns the wait budget that is left.
    TILEWRIGHT_DEVICE int run() {
        int pace = pace_over<tile, 4>(k_slice_of<tile>(arguments_).count);
        WorkTile work = tiles_.first(budget_);
        for (int slot = 0; slot < slots; ++slot) load_all(work, slot, issues(slot));
        while (work.exists != 0) {
            const WorkTile next = tiles_.next(budget_);
            if constexpr (is_k_grouped(tile)) pace = pace_over<tile, 4>(k_slice_of<tile>(next).count);
            for (int part = 0; part < parts; ++part) {
                // The next tile's parts take the slots of the last ones: not before its mainloop needs its operands.
                store_all(work, part, part + slots >= parts && next.exists != 0 ? pace : 0);
                if (part >= behind) refill(work, next, part - behind);
            }
            if (behind > 0) refill(work, next, parts - 1);
            work = next;
        }
        if (lane_index() < issuers) tma_store_wait();
        return budget_;
    }

private:
    static constexpr int slots = staging_slots(tile), parts = f32_parts(tile), warpgroups = tile.shape.warpgroups;
    static constexpr int issuers = 2;
    static constexpr int behind = slots > 1 ? 1 : 0;  // parts that are stored before a slot is refilled
    static constexpr int parts_along_n = tile.shape.n / f32_part_columns();

    TILEWRIGHT_DEVICE bool has_rows(const WorkTile& work, int warpgroup) const {
        return work.exists != 0 && rows_of_share<tile>(arguments_.m, work, warpgroup) > 0;
    }
    TILEWRIGHT_DEVICE u8* slot_of(int warpgroup, int part) {
        return shared_.d[warpgroup] + part % slots * f32_part_bytes();
    }
    TILEWRIGHT_DEVICE static int row_of(const WorkTile& work, int warpgroup, int part) {
        return work.row + share_row(tile, warpgroup) + part / parts_along_n * wgmma_m;
    }
    TILEWRIGHT_DEVICE static int column_of(const WorkTile& work, int part) {
        return work.column + part % parts_along_n * f32_part_columns();
    }

    /// Whether this lane stores a part, and loads what its slot has next.
    TILEWRIGHT_DEVICE static bool issues(int part) { return lane_index() == part % issuers; }

    /// The slot that a part of D leaves gets its next part of C, of this tile or the next.
    TILEWRIGHT_DEVICE void refill(const WorkTile& work, const WorkTile& next, int part) {
        const bool issues_here = issues(part);
        if (issues_here) tma_store_wait_read();
        sync_warp();  // a lane that still waited for this part would miss its phase once the slot is staged again
        if (part + slots < parts) {
            load_all(work, part + slots, issues_here);
        } else {
            load_all(next, part + slots - parts, issues_here);
        }
    }

    /// C of a part to each warpgroup's slot, which is free; where there is no C, it is given away as it is.
    TILEWRIGHT_DEVICE void load_all(const WorkTile& work, int part, bool issues_here) {
        for (int warpgroup = 0; warpgroup < warpgroups; ++warpgroup) {
            if (!has_rows(work, warpgroup) || !issues_here) continue;
            Barrier& ready = shared_.stored[warpgroup * slots + part % slots];
            if (arguments_.addend.data == nullptr) {
                barrier_arrive(ready);
            } else {
                barrier_arrive_expect(ready, f32_part_bytes());
                tma_load(slot_of(warpgroup, part), arguments_.a_scales_last, ready, column_of(work, part),
                         row_of(work, warpgroup, part), work.batch);
            }
        }
        sync_warp();
    }

    /// A part of D from each warpgroup's slot, `pace` nanoseconds apart.
    TILEWRIGHT_DEVICE void store_all(const WorkTile& work, int part, int pace) {
        for (int warpgroup = 0; warpgroup < warpgroups; ++warpgroup) {
            if (!has_rows(work, warpgroup)) continue;
            const int barrier = warpgroup * slots + part % slots;
            barrier_wait(shared_.staged[barrier], phases_ >> barrier & 1, {budget_, BarrierName::staged, barrier});
            phases_ ^= 1U << barrier;
            if (issues(part)) {
                tma_store(arguments_.d, slot_of(warpgroup, part), column_of(work, part), row_of(work, warpgroup, part),
                          work.batch);
                tma_store_commit();
            }
            if (pace > 0) pause(pace);
        }
    }

    Shared<tile>& shared_;
    const Arguments& arguments_;
    WorkTiles<tile> tiles_;
    int budget_ = wait_budget;
    u32 phases_ = 0;  // a bit for each slot
};

}  // namespace tilewright::hopper
