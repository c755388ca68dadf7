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
template <Design design, int bytes>
TILEWRIGHT_DEVICE void store_tail_rows(const Shared<design>& shared, const Arguments& arguments,
                                       const WorkTileOf<design>& work, int warpgroup, int begin, int stores) {
    constexpr StoreBox to_d = store_of(design, bytes);
    constexpr int chunk_bytes = int(sizeof(Quad)), chunks = to_d.pitch / chunk_bytes;
    constexpr int lanes = store_row_bytes / chunk_bytes, rows_at_once = warp_threads / lanes, in_flight = 2;
    static_assert(design.share_rows % (in_flight * rows_at_once) == 0);
    const OutputView& d = arguments.output;
    const int row_of_lane = lane_index() / lanes, chunk = lane_index() % lanes;
    const int first = work.row + share_row(design, warpgroup);
    const int rows = min(work.row_end - first, design.share_rows);
    const i64 step = rows_at_once * d.row_stride * bytes;
#pragma unroll 1
    for (int store = 0; store < stores; ++store) {
        const int column = work.column + share_column(design, warpgroup) + (begin + store) * to_d.columns +
                           chunk * (chunk_bytes / bytes);
        if (chunk >= chunks || column >= arguments.n) continue;
        const u8* const from = shared.d[warpgroup] + store * design.share_rows * to_d.pitch;
        u8* to = static_cast<u8*>(d.data) +
                 (work.batch * d.batch_stride + (first + row_of_lane) * d.row_stride + column) * bytes;
#pragma unroll 1
        for (int row = row_of_lane; row < rows; row += in_flight * rows_at_once) {
            Quad values[in_flight];
#pragma unroll
            for (int i = 0; i < in_flight; ++i) {
                const int at = row + i * rows_at_once;  // the row in the warpgroup's share; it may be outside of the
                                                        // group
                const int swizzled = to_d.swizzled ? chunk ^ at % 8 : chunk;
                values[i] =
                    load_shared(*reinterpret_cast<const Quad*>(from + at * to_d.pitch + swizzled * chunk_bytes));
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
template <Design design, int bytes>
TILEWRIGHT_DEVICE void store_share(const Shared<design>& shared, const Arguments& arguments,
                                   const WorkTileOf<design>& work, int warpgroup, int begin, int stores, bool issues,
                                   bool more, int pace) {
    constexpr StoreBox to_d = store_of(design, bytes);
    constexpr int halves = design.share_rows / store_rows(design), pitch = to_d.pitch;
    const int row = work.row + share_row(design, warpgroup);
    for (int i = 0; i < stores * halves; ++i) {
        if (issues) {
            tma_store(arguments.d, shared.d[warpgroup] + i * store_rows(design) * pitch,
                      work.column + share_column(design, warpgroup) + (begin + i / halves) * to_d.columns,
                      row + i % halves * store_rows(design), work.batch);
            tma_store_commit();
        }
        if (more) pause(pace);
    }
}

/// Nanoseconds between two stores: half of the time that the tensor cores need for a tile, at 1.7 GHz.
template <Design design, int bytes>
constexpr int pace_over(int k_blocks) {
    constexpr int stores_in_all =
        store_of(design, bytes).per_share * (design.share_rows / store_rows(design)) * design.shape.warpgroups;
    return k_blocks * design.tensor_clocks() * 3 / 10 / stores_in_all;
}

/// Returns the rest of the wait budget.
template <Design design, int bytes>
TILEWRIGHT_DEVICE int store_tiles(Shared<design>& shared, const Arguments& arguments, WorkTiles<design> tiles) {
    constexpr int at_once = store_of(design, bytes).at_once, per_share = store_of(design, bytes).per_share;
    int pace = pace_over<design, bytes>(k_slice_of<design>(arguments).count);
    const bool issues = lane_index() == 0;
    int budget = wait_budget;
    u32 phases = 0;  // one bit per warpgroup
    WorkTileOf<design> work = tiles.first(budget);
    while (work.exists != 0) {
        const WorkTileOf<design> next = tiles.next(budget);
        if constexpr (design.is_k_grouped()) pace = pace_over<design, bytes>(k_slice_of<design>(next).count);
        const auto rows_of = [&](int warpgroup) {
            if constexpr (design.is_k_grouped()) {
                return rows_of_share(design, arguments.m, work.row, warpgroup);
            } else {
                return rows_of_share(design, work.row_end, work.row, warpgroup);
            }
        };
        for (int begin = 0; begin < per_share; begin += at_once) {
            const int stores = min(at_once, per_share - begin);
            for (int warpgroup = 0; warpgroup < design.shape.warpgroups; ++warpgroup) {
                if (rows_of(warpgroup) <= 0) continue;
                barrier_wait(shared.staged[warpgroup], phases >> warpgroup & 1,
                             {budget, BarrierName::staged, warpgroup});
                const int row = work.row + share_row(design, warpgroup);
                if constexpr (design.groups == Groups::rows) {
                    if (row + design.share_rows > work.row_end) {
                        store_tail_rows<design, bytes>(shared, arguments, work, warpgroup, begin, stores);
                        continue;
                    }
                }
                store_share<design, bytes>(shared, arguments, work, warpgroup, begin, stores, issues, next.exists != 0,
                                           pace);
            }
            if (issues) tma_store_wait_read();
            sync_warp();  // a lane that still waited for `staged` would miss its phase when the share is staged again
            for (int warpgroup = 0; warpgroup < design.shape.warpgroups; ++warpgroup) {
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
