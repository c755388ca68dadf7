// The storing warp: D, which the consumers staged in shared memory, to global memory by TMA.
//
// A tile's D in one burst would stand in front of the loads of the next tile, in all blocks at the same time. So its
// stores are spread over the time that the next tile takes.
#pragma once

#include "hopper/shared.h"

namespace tilewright::hopper {

constexpr int min(int a, int b) { return a < b ? a : b; }
constexpr int element_bytes(OutputFormat format) { return format == OutputFormat::f32 ? 4 : 2; }

/// Returns the patience that is left.
template <Tile tile, int bytes>
TILEWRIGHT_DEVICE int drain(Shared<tile>& shared, const Arguments& arguments, Schedule<tile> schedule, Work work) {
    constexpr int halves = tile.rows_per_warpgroup() / tile.store_rows();
    constexpr int at_once = tile.stores_at_once(bytes), pitch = tile.store_pitch(bytes);
    // Half of the time that the tensor cores need for a tile: 4096 products a clock, at 1.7 GHz.
    constexpr int count_all = tile.stores(bytes) * halves * tile.warpgroups;
    const int pace = k_blocks_of<tile>(arguments) * (tile.m * tile.n / 32) * 3 / 10 / count_all;
    const bool issues = lane_index() == 0;
    int patience = all_patience;
    Ring<1> ring{};
    while (work.exists != 0) {
        const Work next = schedule.next();
        for (int begin = 0; begin < tile.stores(bytes); begin += at_once) {
            const int count = min(at_once, tile.stores(bytes) - begin) * halves;
            for (int warpgroup = 0; warpgroup < tile.warpgroups; ++warpgroup) {
                barrier_wait(shared.staged[warpgroup], ring.parity, {patience, BarrierName::staged, warpgroup});
                for (int i = 0; i < count; ++i) {
                    if (issues) {
                        tma_store(arguments.d, shared.d[warpgroup] + i * tile.store_rows() * pitch,
                                  work.column + (begin + i / halves) * tile.store_columns(bytes),
                                  work.row + warpgroup * tile.rows_per_warpgroup() + i % halves * tile.store_rows(),
                                  work.batch);
                        tma_store_commit();
                    }
                    if (next.exists != 0) pause(pace);
                }
            }
            if (issues) {
                tma_store_wait_read();
                for (Barrier& stored : shared.stored) barrier_arrive(stored);
            }
            ring.advance();
            sync_warp();
        }
        work = next;
    }
    if (issues) tma_store_wait();
    return patience;
}

}  // namespace tilewright::hopper
