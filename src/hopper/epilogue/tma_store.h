// The storing warp: D, which the consumers staged in shared memory, to global memory by TMA.
//
// A tile's D in one burst would stand in front of the loads of the next tile, in all blocks at the same time. So its
// stores are spread over the time that the next tile takes.
#pragma once

#include "hopper/schedule/scheduler.h"

namespace tilewright::hopper {

constexpr int element_bytes(OutputFormat format) { return format == OutputFormat::f32 ? 4 : 2; }

/// A warpgroup's staged stores from `begin` on, row by row: what lies behind the end of a piece is another's. Eight
/// lanes have a row, 16 bytes each; several rows are read before the first is written.
template <Tile tile, int bytes>
TILEWRIGHT_DEVICE void drain_rows(const Shared<tile>& shared, const Arguments& arguments, const Work& work,
                                  int warpgroup, int begin, int stores) {
    constexpr int unit_bytes = int(sizeof(Quad)), units = store_pitch(tile, bytes) / unit_bytes;
    constexpr int lanes = store_row_bytes / unit_bytes, rows_at_once = warp_threads / lanes, in_hand = 2;
    static_assert(share_rows(tile) % (in_hand * rows_at_once) == 0);
    const OutputView& d = arguments.output;
    const int row_of_lane = lane_index() / lanes, unit = lane_index() % lanes;
    const int first = work.row + share_row(tile, warpgroup);
    const int rows = min(work.row_end - first, share_rows(tile));
    const i64 step = rows_at_once * d.row_stride * bytes;
#pragma unroll 1
    for (int store = 0; store < stores; ++store) {
        const int column = work.column + share_column(tile, warpgroup) + (begin + store) * store_columns(tile, bytes) +
                           unit * (unit_bytes / bytes);
        if (unit >= units || column >= arguments.n) continue;
        const u8* const from = shared.d[warpgroup] + store * share_rows(tile) * store_pitch(tile, bytes);
        u8* to = static_cast<u8*>(d.data) +
                 (work.batch * d.batch_stride + (first + row_of_lane) * d.row_stride + column) * bytes;
#pragma unroll 1
        for (int row = row_of_lane; row < rows; row += in_hand * rows_at_once) {
            Quad values[in_hand];
#pragma unroll
            for (int i = 0; i < in_hand; ++i) {
                const int at = row + i * rows_at_once;  // in the warpgroup's share, if not in the piece
                const int place = store_swizzled(tile, bytes) ? unit ^ at % 8 : unit;
                values[i] = load_shared(
                    *reinterpret_cast<const Quad*>(from + at * store_pitch(tile, bytes) + place * unit_bytes));
            }
#pragma unroll
            for (int i = 0; i < in_hand; ++i, to += step) {
                if (row + i * rows_at_once < rows) store_global(reinterpret_cast<Quad*>(to), values[i]);
            }
        }
    }
    sync_warp();
}

/// Returns the patience that is left.
template <Tile tile, int bytes>
TILEWRIGHT_DEVICE int drain(Shared<tile>& shared, const Arguments& arguments, Tiles<tile> tiles) {
    constexpr int halves = share_rows(tile) / store_rows(tile);
    constexpr int at_once = stores_at_once(tile, bytes), pitch = store_pitch(tile, bytes);
    // Half of the time that the tensor cores need for a tile: 4096 products a clock, at 1.7 GHz.
    constexpr int stores_in_all = stores_per_share(tile, bytes) * halves * tile.shape.warpgroups;
    const int pace = slice_of<tile>(arguments).count * (tile.shape.m * tile.shape.n / 32) * 3 / 10 / stores_in_all;
    const bool issues = lane_index() == 0;
    int patience = all_patience;
    u32 parities = 0;  // a bit for each warpgroup
    Work work = tiles.first(patience);
    while (work.exists != 0) {
        const Work next = tiles.next(patience);
        const auto rows_of = [&](int warpgroup) {
            return skips_rows(tile) ? work.row_end - work.row - warpgroup * rows_per_warpgroup(tile) : tile.shape.m;
        };
        for (int begin = 0; begin < stores_per_share(tile, bytes); begin += at_once) {
            const int stores = min(at_once, stores_per_share(tile, bytes) - begin);
            for (int warpgroup = 0; warpgroup < tile.shape.warpgroups; ++warpgroup) {
                if (rows_of(warpgroup) <= 0) continue;
                barrier_wait(shared.staged[warpgroup], parities >> warpgroup & 1,
                             {patience, BarrierName::staged, warpgroup});
                const int row = work.row + share_row(tile, warpgroup);
                if (is_grouped(tile) && row + share_rows(tile) > work.row_end) {
                    drain_rows<tile, bytes>(shared, arguments, work, warpgroup, begin, stores);
                    continue;
                }
                for (int i = 0; i < stores * halves; ++i) {
                    if (issues) {
                        tma_store(arguments.d, shared.d[warpgroup] + i * store_rows(tile) * pitch,
                                  work.column + share_column(tile, warpgroup) +
                                      (begin + i / halves) * store_columns(tile, bytes),
                                  row + i % halves * store_rows(tile), work.batch);
                        tma_store_commit();
                    }
                    if (next.exists != 0) pause(pace);
                }
            }
            if (issues) tma_store_wait_read();
            for (int warpgroup = 0; warpgroup < tile.shape.warpgroups; ++warpgroup) {
                if (rows_of(warpgroup) <= 0) continue;
                if (issues) barrier_arrive(shared.stored[warpgroup]);
                parities ^= 1U << warpgroup;
            }
            sync_warp();
        }
        work = next;
    }
    if (issues) tma_store_wait();
    return patience;
}

}  // namespace tilewright::hopper
