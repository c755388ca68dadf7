// The kernel: D = C + alpha * (A scales_a) (B scales_b)^T. Persistent: as many blocks as fit on the GPU, each walks its
// list of tiles. In a block, one warpgroup moves data (a thread loads operands, warps bring scales and store D) and the
// others multiply; they meet in rings of shared memory, so that the next tile arrives and the last one leaves while
// this one is computed.
//
// barrier              who waits        who completes a phase                          arrivals
// full[stage]          multiply         load: all bytes of the k-block are here        1 + bytes
//                                       row scale: so are the scales of its rows       1, unless by TMA
// empty[stage]         load, row scale  multiply: the stage has been read              consumer warps of all blocks
//                                                                                      that a copy goes to
// staged[warpgroup]    store            multiply: D lies in shared memory              its warps
// stored[warpgroup]    multiply         store: D has been read from there              1
// block_scales_full    multiply         block scale: 128x128 scales for 32 k-blocks    1
// block_scales_empty   block scale      multiply: they have been read                  consumer warps
// final_scales_full    multiply         block scale: scales for the finished tile      1
// final_scales_empty   block scale      multiply: they have been read                  consumer warps
// work_full            all others       block scale: the next tile, if sizes of groups   1
//                                       lie on the device
// slices_full          multiply         multiply, all blocks: the sums of all slices of k  1 + bytes
//                                       have come
// slices_read          multiply         multiply: they have been added                   consumer warps of all
//                                                                                      blocks of the cluster
// work_empty           block scale      load, row scale, store, multiply: they know it   a warp each
#pragma once

#include "hopper/epilogue/cluster_reduce.h"
#include "hopper/mainloop/load.h"
#include "hopper/mainloop/scales_load.h"

namespace tilewright::hopper {

/// Barriers are made ready by one thread, in straight code: their instruction takes addresses from uniform registers
/// alone, so that lanes which each make one ready do it one after the other, in a loop.
template <Tile tile>
TILEWRIGHT_DEVICE void init_full(Shared<tile>& shared, const Arguments& arguments) {
    const int arrivals = full_arrivals(tile, arguments.scales_by_tma);
#pragma unroll
    for (int stage = 0; stage < tile.stages; ++stage) barrier_init(shared.full[stage], arrivals);
    barrier_init_fence();
}

/// All but `full`.
template <Tile tile>
TILEWRIGHT_DEVICE void init_barriers(Shared<tile>& shared, const Arguments& arguments) {
    const auto init = [](auto& barriers, int arrivals) {
#pragma unroll
        for (Barrier& barrier : barriers) barrier_init(barrier, arrivals);
    };
    const int one = arrivals_of(tile, 1), all = arrivals_of(tile, consumer_warps(tile));
    init(shared.empty, empty_arrivals(tile));
    init(shared.stored, 1);
    init(shared.staged, arrivals_of(tile, warpgroup_threads / warp_threads));
    if constexpr (has_block_scales(tile)) {
        init(shared.block_scales_full, one);
        init(shared.block_scales_empty, all);
    }
    if constexpr (has_epilogue_scales(tile)) {
        init(shared.final_scales_full, one);
        init(shared.final_scales_empty, all);
    }
    if constexpr (is_grouped(tile)) {
        init(shared.work_full, 1);
        init(shared.work_empty, work_empty_arrivals(tile, arguments.scales_by_tma, arguments.stored_by_tma));
    }
    if constexpr (splits_k(tile)) {
        barrier_init(shared.slices_full, 1);
        barrier_init(shared.slices_read, consumer_warps(tile) * tile.cluster.size);
    }
    barrier_init_fence();
}

/// The barriers are ready. The loading warp made them so, and does not wait. It meets the other producers and the
/// consumers apart: compute-sanitizer takes a barrier of all the block's threads for one at which all must wait.
enum class Meeting : u8 { producers = 1, consumers = 2 };

template <Tile tile>
constexpr int threads_of(Meeting meeting) {
    return meeting == Meeting::producers ? warpgroup_threads : (consumer_warps(tile) + 1) * warp_threads;
}

template <Tile tile>
TILEWRIGHT_DEVICE void meet_cluster() {
    // With slices of k only those who send sums need to know that their peers are ready (split.h).
    if constexpr (tile.cluster.size > 1) arrive_cluster_relaxed();
    if constexpr (shares_operand(tile)) wait_cluster();
}

template <Tile tile>
TILEWRIGHT_DEVICE void announce_barriers() {
    arrive_named(int(Meeting::producers), threads_of<tile>(Meeting::producers));
    arrive_named(int(Meeting::consumers), threads_of<tile>(Meeting::consumers));
    meet_cluster<tile>();
}

template <Tile tile>
TILEWRIGHT_DEVICE void await_barriers(Meeting meeting) {
    sync_named(int(meeting), threads_of<tile>(meeting));
    meet_cluster<tile>();
}

/// The loading warp. This, `produce` and `consume` return the patience that is left.
template <Tile tile>
TILEWRIGHT_DEVICE int load(Shared<tile>& shared, const Arguments& arguments, const Tiles<tile>& tiles) {
    Loader<tile> loader(shared, arguments, tiles);
    if constexpr (loads_early<tile>) loader.begin();
    if (lane_index() == 0) init_barriers<tile>(shared, arguments);
    sync_warp();
    announce_barriers<tile>();
    return loader.run();
}

template <Tile tile>
TILEWRIGHT_DEVICE int produce(Shared<tile>& shared, const Arguments& arguments, const Tiles<tile>& tiles, int warp) {
    if (role_of(tile, warp) == Role::load) return load<tile>(shared, arguments, tiles);
    await_barriers<tile>(Meeting::producers);
    switch (role_of(tile, warp)) {
        case Role::scheduler:
        case Role::block_and_epilogue_scales: return TileScales<tile>(shared, arguments).run();
        case Role::row_scales:
            if constexpr (may_load_row_scales(tile)) {
                if (!arguments.scales_by_tma) return RowScales<tile>(shared, arguments).run();
            }
            break;
        case Role::store:
            if constexpr (is_fast(tile)) return drain<tile, 2>(shared, arguments, tiles);
            if (!arguments.stored_by_tma) break;
            if (element_bytes(arguments.format) == 2) {
                if constexpr (can_store_by_tma(tile, 2)) return drain<tile, 2>(shared, arguments, tiles);
            } else {
                if constexpr (can_store_by_tma(tile, 4)) return drain<tile, 4>(shared, arguments, tiles);
            }
            break;
        default: break;
    }
    return all_patience;
}

/// Whether any of the tile's rows in its piece are this warpgroup's.
template <Tile tile>
TILEWRIGHT_DEVICE bool has_rows(const Consumer<tile>& consumer, const Work& work) {
    return !skips_rows(tile) || work.row + consumer.first_row() < work.row_end;
}

/// At the end of a tile: the lanes of the warp are together again, and known to be. Only then does the compiler keep
/// the loop's state, and with it the descriptors of wgmma, in uniform registers. Behind stores with branches of their
/// own it has to be told besides that all lanes agree.
template <Tile tile>
TILEWRIGHT_DEVICE void stay_uniform(Consumer<tile>& consumer) {
    sync_warp();
    if constexpr (!is_fast(tile) || splits_k(tile)) consumer.ring.place = same_in_warp(consumer.ring.place);
}

/// Multiplies a tile, then stores it.
template <Tile tile>
TILEWRIGHT_DEVICE void consume_in_turn(Consumer<tile>& consumer, Tiles<tile>& tiles) {
    Sums<tile> sums;
    Work work = tiles.first(consumer.patience);
    while (work.exists != 0) {
        Work next{};
        if constexpr (splits_k(tile)) {
            multiply<tile>(consumer, sums);
            next = tiles.next(consumer.patience);
            store_slices<tile>(consumer, sums, work, next.exists != 0);
        } else {
            if (has_rows<tile>(consumer, work)) {
                multiply<tile>(consumer, sums);
                store<tile>(consumer, sums, work);
            } else {
                pass_over<tile>(consumer);
                pass_over_final_scales<tile>(consumer);
            }
            next = tiles.next(consumer.patience);
        }
        work = next;
        stay_uniform<tile>(consumer);
    }
}

/// Stores a tile while the first k-block of the next is multiplied.
template <Tile tile>
TILEWRIGHT_DEVICE void consume_overlapped(Consumer<tile>& consumer, Tiles<tile>& tiles) {
    Sums<tile> sums;
    Chain<tile> chain;        // where there is one alone
    Factors<tile> factors{};  // read even when there is no tile at all
    Work work = tiles.first(consumer.patience);
    bool holds_sums = false;  // of the last tile
    const auto store_last = [&](int unit) {
        if (holds_sums) store_unit<tile>(consumer, sums, unit);
    };
    while (true) {
        Work next{};
        if (work.exists != 0 && !has_rows<tile>(consumer, work)) {
#pragma unroll
            for (int unit = 0; unit < units<tile>; ++unit) store_last(unit);
            holds_sums = false;
            pass_over<tile>(consumer);
            pass_over_final_scales<tile>(consumer);
            next = tiles.next(consumer.patience);
        } else {
            // Where sizes lie on the device, the next tile may be handed out only when this one is under way.
            if constexpr (!is_grouped(tile)) next = tiles.next(consumer.patience);
            if constexpr (partials_in_flight(tile) == 2) {
                multiply_two_chains<tile>(consumer, sums, work.exists != 0, store_last);
                if (work.exists == 0) break;
            } else {
                multiply_block<tile>(consumer, sums, chain, factors, 0, {.first = true}, work.exists != 0, store_last);
                if (work.exists == 0) break;
                multiply_promoted<tile>(consumer, sums, chain, factors);
            }
            holds_sums = true;
            if constexpr (is_grouped(tile)) next = tiles.next(consumer.patience);
        }
        work = next;
        stay_uniform<tile>(consumer);
    }
}

template <Tile tile>
TILEWRIGHT_DEVICE int consume(Shared<tile>& shared, const Arguments& arguments, Tiles<tile> tiles, int warp) {
    const int warpgroup = warp / 4;
    const int lane = lane_index();
    Consumer<tile> consumer{
        .shared = shared,
        .arguments = arguments,
        .warpgroup = warpgroup,
        .warp = warp % 4,
        .lane = lane,
        .row_in_tile = warpgroup * rows_per_warpgroup(tile) + warp % 4 * warp_rows + lane / 4,
        .k_blocks = slice_of<tile>(arguments).count,
        .first_operand = matrix_descriptor(shared.first[0] + warpgroup * rows_per_warpgroup(tile) * row_bytes),
        .second_operand = matrix_descriptor(shared.second[0]),
        .by_tma = arguments.stored_by_tma,
    };
    if constexpr (overlaps_epilogue(tile)) {
        consume_overlapped<tile>(consumer, tiles);
    } else {
        consume_in_turn<tile>(consumer, tiles);
    }
    return consumer.patience;
}

template <Tile tile>
__global__ void __launch_bounds__(block_threads(tile), blocks_per_sm(tile))
    gemm(const __grid_constant__ Arguments arguments) {
    static_assert(is_consistent(tile));
    static_assert(sizeof(Shared<tile>) == shared_bytes(tile));
    auto& shared = shared_memory<Shared<tile>>();
    const int warp = warp_index();
    if (role_of(tile, warp) == Role::load && lane_index() == 0) {
        tma_prefetch(arguments.a);
        tma_prefetch(arguments.b);
        init_full<tile>(shared, arguments);
    }
    sync_warp();
    Tiles<tile> tiles(shared, arguments);
    tiles.prepare();
    // So far nothing was read but the arguments.
    wait_for_earlier_kernels();
    let_next_kernel_start();

    int patience = 0;
    if (warp < producer_warps) {
        if constexpr (moves_registers(tile)) registers_give<producer_registers(tile)>();
        patience = produce<tile>(shared, arguments, tiles, warp);
    } else {
        if constexpr (moves_registers(tile)) registers_take<consumer_registers(tile)>();
        await_barriers<tile>(Meeting::consumers);
        patience = consume<tile>(shared, arguments, tiles, warp - producer_warps);
    }
    if (patience < 0)
        store_global(&arguments.report->word, TimeoutReport::pack(u32(block_index()), u32(thread_index())));
    // A peer's warps may still signal the barriers here. (With slices of k nobody does.)
    if constexpr (shares_operand(tile)) sync_cluster();
}

}  // namespace tilewright::hopper
