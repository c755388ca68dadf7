// The store warp: it copies D, which the consumers staged in shared memory, to global memory by TMA.
//
// All stores of a tile at once would delay the loads of the next tile, in all blocks at the same time. So the stores
// are paced over the time that the next tile takes.
#pragma once

#include "hopper/block/k_slice.h"
#include "hopper/block/shared_memory.h"
#include "hopper/schedule/scheduler.h"

namespace tilewright::hopper {

/// Stores a warpgroup's staged stores from `begin` on row by row, because rows after row_end belong to the next group.
/// Eight lanes store a row, 16 bytes each. Two rows are read before the first is written.
template <Tile tile, int bytes>
TILEWRIGHT_DEVICE void store_tail_rows(const Shared<tile>& shared, const Arguments& arguments, const WorkTile& work,
                                       int warpgroup, int begin, int stores) {
    constexpr int chunk_bytes = int(sizeof(Quad)), chunks = store_pitch(tile, bytes) / chunk_bytes;
    constexpr int lanes = store_row_bytes / chunk_bytes, rows_at_once = warp_threads / lanes, in_flight = 2;
    static_assert(share_rows(tile) % (in_flight * rows_at_once) == 0);
    const OutputView& d = arguments.output;
    const int row_of_lane = lane_index() / lanes, chunk = lane_index() % lanes;
    const int first = work.row + share_row(tile, warpgroup);
    const int rows = min(work.row_end - first, share_rows(tile));
    const i64 step = rows_at_once * d.row_stride * bytes;
#pragma unroll 1
    for (int store = 0; store < stores; ++store) {
        const int column = work.column + share_column(tile, warpgroup) + (begin + store) * store_columns(tile, bytes) +
                           chunk * (chunk_bytes / bytes);
        if (chunk >= chunks || column >= arguments.n) continue;
        const u8* const from = shared.d[warpgroup] + store * share_rows(tile) * store_pitch(tile, bytes);
        u8* to = static_cast<u8*>(d.data) +
                 (work.batch * d.batch_stride + (first + row_of_lane) * d.row_stride + column) * bytes;
#pragma unroll 1
        for (int row = row_of_lane; row < rows; row += in_flight * rows_at_once) {
            Quad values[in_flight];
#pragma unroll
            for (int i = 0; i < in_flight; ++i) {
                const int at = row + i * rows_at_once;  // the row in the warpgroup's share; it may be outside of the
                                                        // group
                const int swizzled = store_swizzled(tile, bytes) ? chunk ^ at % 8 : chunk;
                values[i] = load_shared(
                    *reinterpret_cast<const Quad*>(from + at * store_pitch(tile, bytes) + swizzled * chunk_bytes));
            }
#pragma unroll
            for (int i = 0; i < in_flight; ++i, to += step) {
                if (row + i * rows_at_once < rows) store_global(reinterpret_cast<Quad*>(to), values[i]);
            }
        }
    }
    sync_warp();
}

/// Stores a warpgroup's staged stores from `begin` on by TMA. While another tile follows (`more`), they are `pace`
/// nanoseconds apart.
template <Tile tile, int bytes>
TILEWRIGHT_DEVICE void store_share(const Shared<tile>& shared, const Arguments& arguments, const WorkTile& work,
                                   int warpgroup, int begin, int stores, bool issues, bool more, int pace) {
    constexpr int halves = share_rows(tile) / store_rows(tile), pitch = store_pitch(tile, bytes);
    const int row = work.row + share_row(tile, warpgroup);
    for (int i = 0; i < stores * halves; ++i) {
        if (issues) {
            tma_store(arguments.d, shared.d[warpgroup] + i * store_rows(tile) * pitch,
                      work.column + share_column(tile, warpgroup) + (begin + i / halves) * store_columns(tile, bytes),
                      row + i % halves * store_rows(tile), work.batch);
            tma_store_commit();
        }
        if (more) pause(pace);
    }
}

/// Nanoseconds between two stores: half of the time that the tensor cores need for a tile, at 1.7 GHz.
template <Tile tile, int bytes>
constexpr int pace_over(int k_blocks) {
    constexpr int stores_in_all =
        stores_per_share(tile, bytes) * (share_rows(tile) / store_rows(tile)) * tile.shape.warpgroups;
    return k_blocks * tensor_clocks(tile) * 3 / 10 / stores_in_all;
}

/// Returns the rest of the wait budget.
template <Tile tile, int bytes>
TILEWRIGHT_DEVICE int store_tiles(Shared<tile>& shared, const Arguments& arguments, WorkTiles<tile> tiles) {
    constexpr int at_once = stores_at_once(tile, bytes);
    int pace = pace_over<tile, bytes>(k_slice_of<tile>(arguments).count);
    const bool issues = lane_index() == 0;
    int budget = wait_budget;
    u32 phases = 0;  // one bit per warpgroup
    WorkTile work = tiles.first(budget);
    while (work.exists != 0) {
        const WorkTile next = tiles.next(budget);
        if constexpr (is_k_grouped(tile)) pace = pace_over<tile, bytes>(k_slice_of<tile>(next).count);
        const auto rows_of = [&](int warpgroup) {
            if constexpr (is_k_grouped(tile)) return rows_of_share(tile, arguments.m, work, warpgroup);
            return skips_rows(tile) ? work.row_end - work.row - warpgroup * rows_per_warpgroup(tile) : tile.shape.m;
        };
        for (int begin = 0; begin < stores_per_share(tile, bytes); begin += at_once) {
            const int stores = min(at_once, stores_per_share(tile, bytes) - begin);
            for (int warpgroup = 0; warpgroup < tile.shape.warpgroups; ++warpgroup) {
                if (rows_of(warpgroup) <= 0) continue;
                barrier_wait(shared.staged[warpgroup], phases >> warpgroup & 1,
                             {budget, BarrierName::staged, warpgroup});
                const int row = work.row + share_row(tile, warpgroup);
                if (is_grouped(tile) && row + share_rows(tile) > work.row_end) {
                    store_tail_rows<tile, bytes>(shared, arguments, work, warpgroup, begin, stores);
                    continue;
                }
                store_share<tile, bytes>(shared, arguments, work, warpgroup, begin, stores, issues, next.exists != 0,
                                         pace);
            }
            if (issues) tma_store_wait_read();
            sync_warp();  // a lane that still waited for `staged` would miss its phase when the share is staged again
            for (int warpgroup = 0; warpgroup < tile.shape.warpgroups; ++warpgroup) {
                if (rows_of(warpgroup) <= 0) continue;
                if (issues) barrier_arrive(shared.stored[warpgroup]);
                phases ^= 1U << warpgroup;
            }
            sync_warp();
        }
        work = next;
    }
    if (issues) tma_store_wait();
    return budget;
}

}  // namespace tilewright::hopper
