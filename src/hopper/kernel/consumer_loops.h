// The consumer warps: each tile's mainloop and then its epilogue, or the epilogue during the next tile's mainloop.
#pragma once

#include "hopper/block/k_slice.h"
#include "hopper/epilogue/cluster_reduce.h"
#include "hopper/epilogue/store.h"
#include "hopper/mainloop/mainloop.h"
#include "hopper/schedule/scheduler.h"

namespace tilewright::hopper {

/// Whether the tile has rows of this warpgroup ahead of the end of D or of the group.
template <Tile tile>
TILEWRIGHT_DEVICE bool has_rows(const Consumer<tile>& consumer, const WorkTile& work) {
    // Dense: row_end is m, but it would occupy a register during the mainloop.
    const int row_end = is_grouped(tile) ? work.row_end : consumer.arguments.m;
    return !skips_rows(tile) || work.row + consumer.first_row() < row_end;
}

/// The lanes of a warp converge at the end of a tile. Only if the compiler knows this does it keep the loop's state,
/// and with it the descriptors of wgmma, in uniform registers. After stores that branch it must also be told that the
/// stage is the same in all lanes.
template <Tile tile>
TILEWRIGHT_DEVICE void stay_uniform(Consumer<tile>& consumer) {
    sync_warp();
    if constexpr (!is_fast(tile) || splits_k(tile)) consumer.ring.stage = same_in_warp(consumer.ring.stage);
}

template <Tile tile>
TILEWRIGHT_DEVICE void consume_in_turn(Consumer<tile>& consumer, WorkTiles<tile>& tiles) {
    Accumulators<tile> accumulators;
    WorkTile work = tiles.first(consumer.budget);
    while (work.exists != 0) {
        if constexpr (is_k_grouped(tile)) consumer.k_blocks = k_slice_of<tile>(work).count;
        WorkTile next{};
        if constexpr (splits_k(tile)) {
            multiply<tile>(consumer, accumulators);
            next = tiles.next(consumer.budget);
            store_slices<tile>(consumer, accumulators, work, next.exists != 0);
        } else {
            if (has_rows<tile>(consumer, work)) {
                multiply<tile>(consumer, accumulators);
                store<tile>(consumer, accumulators, work);
            } else {
                skip_tile<tile>(consumer);
                skip_epilogue_scales<tile>(consumer);
                skip_f32<tile>(consumer);
                if constexpr (!is_grouped(tile)) stay_uniform<tile>(consumer);
            }
            next = tiles.next(consumer.budget);
        }
        work = next;
        stay_uniform<tile>(consumer);
    }
}

/// The mainloop of a tile. During its first k-block, `store_last(subtile)` stages the last tile's D.
template <Tile tile, class StoreLast>
TILEWRIGHT_DEVICE void multiply_overlapped(Consumer<tile>& consumer, Accumulators<tile>& accumulators,
                                           const StoreLast& store_last) {
    if constexpr (defers_scales(tile)) {
        if (any_row_defers<tile>(consumer)) {
#pragma unroll
            for (int subtile = 0; subtile < subtiles<tile>; ++subtile) store_last(subtile);
            consumer.defers = true;
            return multiply_deferring<tile>(consumer, accumulators);
        }
    }
    if constexpr (partials_in_flight(tile) == 2) {
        multiply_two_partials<tile>(consumer, accumulators, store_last);
    } else {
        multiply_after_first<tile>(consumer, accumulators, store_last);
    }
    consumer.defers = false;  // up to here it was the last tile's
}

/// Dense: stages a tile's D during the first k-block of the next tile.
template <Tile tile>
TILEWRIGHT_DEVICE void consume_overlapped(Consumer<tile>& consumer, WorkTiles<tile>& tiles) {
    Accumulators<tile> accumulators;
    WorkTile work = tiles.first(consumer.budget);
    bool holds_last = false;  // the accumulators of the last tile are not stored yet
    const auto store_last = [&](int subtile) {
        if (holds_last) store_subtile<tile>(consumer, accumulators, subtile);
    };
    while (true) {
        if (work.exists == 0 || !has_rows<tile>(consumer, work)) {
#pragma unroll
            for (int subtile = 0; subtile < subtiles<tile>; ++subtile) store_last(subtile);
            if (work.exists == 0) return;
            holds_last = false;
            skip_tile<tile>(consumer);
            skip_epilogue_scales<tile>(consumer);
            work = tiles.next(consumer.budget);
        } else {
            work = tiles.next(consumer.budget);
            multiply_overlapped<tile>(consumer, accumulators, store_last);
            holds_last = true;
        }
        stay_uniform<tile>(consumer);
    }
}

/// Returns the rest of the wait budget.
template <Tile tile>
TILEWRIGHT_DEVICE int consume(Shared<tile>& shared, const Arguments& arguments, WorkTiles<tile> tiles, int warp) {
    const int warpgroup = warp / 4;
    const int lane = lane_index();
    Consumer<tile> consumer{
        .shared = shared,
        .arguments = arguments,
        .warpgroup = warpgroup,
        .warp = warp % 4,
        .lane = lane,
        .row_in_tile =
            warpgroup * rows_per_warpgroup(tile) + warp % 4 * warp_rows + lane / 4 * (pairs_rows(tile) ? 2 : 1),
        .k_blocks = k_slice_of<tile>(arguments).count,
        .mma_a_descriptor =
            has_packed_weights(tile)
                ? 0
                : matrix_descriptor(shared.mma_a_values[0] + warpgroup * rows_per_warpgroup(tile) * row_bytes),
        .mma_b_descriptor = matrix_descriptor(shared.mma_b_values[0]),
        .by_tma = arguments.stored_by_tma,
    };
    if constexpr (overlaps_epilogue(tile)) {
        consume_overlapped<tile>(consumer, tiles);
    } else {
        consume_in_turn<tile>(consumer, tiles);
    }
    sync_warp();
    warp_arrives<tile>(shared.ended, lane_index());
    return consumer.budget;
}

}  // namespace tilewright::hopper
