// A block's shared memory, as one struct, and the places in its rings.
#pragma once

#include "hopper/ptx.h"
#include "hopper/schedule.h"

namespace tilewright::hopper {

constexpr int at_least_one(int count) { return count > 0 ? count : 1; }

template <Tile tile>
struct Shared {
    static constexpr int bytes_a = tile.first().value_bytes(tile.k);
    static constexpr int bytes_b = tile.second().value_bytes(tile.k);

    // The ring of k-blocks: values in rows of 128 bytes, swizzled, and a scale for each row.
    alignas(tile_alignment) u8 a[tile.stages][bytes_a];
    alignas(tile_alignment) u8 b[tile.stages][bytes_b];
    alignas(128) float a_scales[tile.stages][at_least_one(tile.scales_rows() ? tile.m : 0)];
    alignas(128) float b_scales[tile.stages][at_least_one(tile.scales_columns() ? tile.n : 0)];

    // 128x128 scales, 32 k-blocks at a time, for each group of columns.
    float block_scales[block_scale_slots][at_least_one(tile.scales_blocks() ? tile.column_groups() : 0)]
                      [tile.scales_blocks() ? block_scale_columns : 1];

    // The tiles that come next, with the scales that multiply their finished sums.
    Work work[work_slots];
    float row_scales[work_slots][at_least_one(tile.scales_after() ? tile.m : 0)];
    alignas(8) float column_scales[work_slots][at_least_one(tile.scales_after() ? tile.n : 0)];

    Barrier full[tile.stages];
    Barrier empty[tile.stages];
    Barrier work_full[work_slots];
    Barrier work_empty[work_slots];
    Barrier block_scales_full[block_scale_slots];
    Barrier block_scales_empty[block_scale_slots];
};

/// A place in a ring, and the parity that its barriers are waited for with. Who fills starts with parity 1, because
/// every place is empty at first; who empties with 0.
template <int places>
struct Ring {
    int place = 0;
    u32 parity = 0;

    constexpr void advance() {
        if (++place != places) return;
        place = 0;
        parity ^= 1;
    }
};

/// This block's tiles, for those who walk them without asking.
template <Tile tile>
TILEWRIGHT_DEVICE Schedule<tile> own_schedule(const Arguments& arguments) {
    const Extent extent{.m = arguments.m, .n = arguments.n, .batch = arguments.batch, .band = arguments.band};
    return Schedule<tile>(extent, block_index(), block_count());
}

/// The list of tiles as a consumer warp reads it, in step with the warp that dispatches: consumers have no registers
/// for a schedule.
template <Tile tile>
class WorkList {
public:
    TILEWRIGHT_DEVICE WorkList(Shared<tile>& shared, TimeoutReport* report) : shared_(shared), report_(report) {}

    /// To the next tile; false after the last.
    TILEWRIGHT_DEVICE bool next() {
        if (reading_) give_back();
        barrier_wait(shared_.work_full[ring_.place], ring_.parity, {report_, BarrierName::work_full, ring_.place});
        reading_ = true;
        // Uniform for the compiler too: what changes in a loop that lanes may leave apart cannot be.
        return same_in_warp(shared_.work[ring_.place].exists) != 0;
    }

    /// Read where it is needed: held through the main loop it would cost registers.
    TILEWRIGHT_DEVICE Work work() const { return shared_.work[ring_.place]; }

    /// Its slot.
    TILEWRIGHT_DEVICE int place() const { return ring_.place; }

private:
    TILEWRIGHT_DEVICE void give_back() {
        sync_warp();
        if (lane_index() == 0) barrier_arrive(shared_.work_empty[ring_.place]);
        ring_.advance();
    }

    Shared<tile>& shared_;
    TimeoutReport* report_;
    Ring<work_slots> ring_;
    bool reading_ = false;
};

}  // namespace tilewright::hopper
