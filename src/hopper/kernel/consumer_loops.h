// The consumer warps: each tile's mainloop and then its epilogue, or the epilogue during the next tile's mainloop.
#pragma once

#include "hopper/block/ring.h"
#include "hopper/multiply/mainloop.h"
#include "hopper/schedule/scheduler.h"
#include "hopper/store/cluster_reduce.h"
#include "hopper/store/store.h"

namespace tilewright::hopper {

/// The lanes of a warp converge at the end of a tile. Only if the compiler knows this does it keep the loop's state,
/// and with it the descriptors of wgmma, in uniform registers. After stores that branch it must also be told that the
/// stage is the same in all lanes.
template <Design design>
TILEWRIGHT_DEVICE void stay_uniform(Consumer<design>& consumer) {
    sync_warp();
    if constexpr (design.output == Output::any || design.cluster.k_slices > 1)
        consumer.ring.stage = same_in_warp(consumer.ring.stage);
}

template <Design design>
TILEWRIGHT_DEVICE void consume_in_turn(Consumer<design>& consumer, WorkTiles<design>& tiles) {
    Accumulators<design> accumulators;
    WorkTileOf<design> work = tiles.first(consumer.budget);
    while (work.exists != 0) {
        if constexpr (design.is_k_grouped()) consumer.k_blocks = k_slice_of<design>(work).count;
        WorkTileOf<design> next{};
        if constexpr (design.cluster.k_slices > 1) {
            multiply<design>(consumer, accumulators);
            next = tiles.next(consumer.budget);
            store_slices<design>(consumer, accumulators, work, next.exists != 0);
        } else {
            if (has_rows<design>(work, consumer.arguments.m, consumer.warpgroup)) {
                multiply<design>(consumer, accumulators);
                store<design>(consumer, accumulators, work);
            } else {
                skip_tile<design>(consumer);
                skip_epilogue_scales<design>(consumer);
                skip_f32<design>(consumer);
                if constexpr (design.groups != Groups::rows) stay_uniform<design>(consumer);
            }
            next = tiles.next(consumer.budget);
        }
        work = next;
        stay_uniform<design>(consumer);
    }
}

/// The mainloop of a tile. During its first k-block, `store_last(subtile)` stages the last tile's D.
template <Design design, class StoreLast>
TILEWRIGHT_DEVICE void multiply_overlapped(Consumer<design>& consumer, Accumulators<design>& accumulators,
                                           const StoreLast& store_last) {
    if constexpr (design.order.defers) {
        if (any_row_defers<design>(consumer)) {
#pragma unroll
            for (int subtile = 0; subtile < design.subtiles; ++subtile) store_last(subtile);
            consumer.defers = true;
            return multiply_deferring<design>(consumer, accumulators);
        }
    }
    if constexpr (design.loop == Loop::two_partials) {
        multiply_two_partials<design>(consumer, accumulators, store_last);
    } else {
        multiply_after_first<design>(consumer, accumulators, store_last);
    }
    consumer.defers = false;  // up to here it was the last tile's
}

/// Dense: stages a tile's D during the first k-block of the next tile.
template <Design design>
TILEWRIGHT_DEVICE void consume_overlapped(Consumer<design>& consumer, WorkTiles<design>& tiles) {
    Accumulators<design> accumulators;
    WorkTileOf<design> work = tiles.first(consumer.budget);
    bool holds_last = false;  // the accumulators of the last tile are not stored yet
    const auto store_last = [&](int subtile) {
        if (holds_last) store_subtile<design>(consumer, accumulators, subtile);
    };
    while (true) {
        if (work.exists == 0 || !has_rows<design>(work, consumer.arguments.m, consumer.warpgroup)) {
#pragma unroll
            for (int subtile = 0; subtile < design.subtiles; ++subtile) store_last(subtile);
            if (work.exists == 0) return;
            holds_last = false;
            skip_tile<design>(consumer);
            skip_epilogue_scales<design>(consumer);
            work = tiles.next(consumer.budget);
        } else {
            work = tiles.next(consumer.budget);
            multiply_overlapped<design>(consumer, accumulators, store_last);
            holds_last = true;
        }
        stay_uniform<design>(consumer);
    }
}

/// Whether D leaves the registers subtile by subtile, each while the next tile's wgmma that replaces it runs. Loops in
/// fours, with two partial accumulators or with the next fragments exclude this and gain more. Grouped tiles gained
/// nothing from it.
template <Design design>
constexpr bool overlaps_epilogue() {
    const bool can = design.loop == Loop::k_blocks || (design.loop == Loop::two_partials && design.swap_ab);
    return can && design.order.chain > step_k && design.output == Output::bf16_by_tma &&
           design.groups == Groups::none && design.cluster.k_slices == 1 && design.feed != FeedKind::windowed &&
           design.wgmma_n % 16 == 0;
}

/// Returns the rest of the wait budget.
template <Design design>
TILEWRIGHT_DEVICE int consume(Shared<design>& shared, const ArgumentsOf<design>& arguments, WorkTiles<design> tiles,
                              int warp) {
    const int warpgroup = warp / 4;
    const int lane = lane_index();
    Consumer<design> consumer{
        .shared = shared,
        .arguments = arguments,
        .warpgroup = warpgroup,
        .warp = warp % 4,
        .lane = lane,
        .row_in_tile = warpgroup * design.rows_per_warpgroup + warp % 4 * warp_rows + fragment_row(design, lane),
        .k_blocks = k_slice_of<design>(arguments).count,
        .mma_a_descriptor = design.b.is_packed() ? 0
                                                 : matrix_descriptor(shared.mma_a_values[0] +
                                                                     warpgroup * design.rows_per_warpgroup * row_bytes),
        .mma_b_descriptor = matrix_descriptor(shared.mma_b_values[0]),
        .by_tma = arguments.stored_by_tma,
    };
    if constexpr (overlaps_epilogue<design>()) {
        consume_overlapped<design>(consumer, tiles);
    } else {
        consume_in_turn<design>(consumer, tiles);
    }
    sync_warp();
    warp_arrives<design>(shared.ended, lane_index());
    return consumer.budget;
}

}  // namespace tilewright::hopper
