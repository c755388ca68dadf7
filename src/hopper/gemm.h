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
// slices_written       multiply         multiply: the sums of all slices of k lie in       consumer warps of all
//                                       shared memory                                  blocks of the cluster
// slices_read          multiply         multiply: they have been added                   the same
// work_empty           block scale      load, row scale, store, multiply: they know it   a warp each
#pragma once

#include "hopper/load.h"
#include "hopper/multiply.h"
#include "hopper/scale.h"
#include "hopper/split.h"

namespace tilewright::hopper {

template <Tile tile>
TILEWRIGHT_DEVICE void init_barriers(Shared<tile>& shared, const Arguments& arguments) {
    // A thread each: code that is executed once is as slow as its length, because it comes from memory.
    const int lane = lane_index();
    if (lane < tile.stages) {
        barrier_init(shared.full[lane], tile.full_arrivals(arguments.scales_by_tma));
        barrier_init(shared.empty[lane], tile.empty_arrivals());
    }
    if (lane < final_scale_slots) {
        barrier_init(shared.final_scales_full[lane], tile.arrivals(1));
        barrier_init(shared.final_scales_empty[lane], tile.arrivals(tile.consumer_warps()));
    }
    if (lane < block_scale_slots) {
        barrier_init(shared.block_scales_full[lane], tile.arrivals(1));
        barrier_init(shared.block_scales_empty[lane], tile.arrivals(tile.consumer_warps()));
    }
    if (lane < tile.warpgroups) {
        barrier_init(shared.staged[lane], tile.arrivals(warpgroup_threads / warp_threads));
        barrier_init(shared.stored[lane], 1);
    }
    if (tile.grouped() && lane < work_slots) {
        barrier_init(shared.work_full[lane], 1);
        barrier_init(shared.work_empty[lane], tile.work_arrivals(arguments.scales_by_tma, arguments.stored_by_tma));
    }
    if (tile.splits_k() && lane == 0) {
        barrier_init(shared.slices_written, tile.consumer_warps() * tile.cluster);
        barrier_init(shared.slices_read, tile.consumer_warps() * tile.cluster);
    }
    barrier_init_fence();
}

/// This and `consume` return the patience that is left.
template <Tile tile>
TILEWRIGHT_DEVICE int produce(Shared<tile>& shared, const Arguments& arguments, const Tiles<tile>& tiles, int warp) {
    switch (tile.role(warp)) {
        case Role::load: return load_operands<tile>(shared, arguments, tiles);
        case Role::block_scale: return TileScales<tile>(shared, arguments).run();
        case Role::row_scale:
            if constexpr (!tile.plain) {
                if (!arguments.scales_by_tma) return RowScales<tile>(shared, arguments).run();
            }
            break;
        case Role::store:
            if constexpr (tile.plain) return drain<tile, 2>(shared, arguments, tiles);
            if (!arguments.stored_by_tma) break;
            if (element_bytes(arguments.format) == 2) {
                if constexpr (tile.stores_by_tma(2)) return drain<tile, 2>(shared, arguments, tiles);
            } else {
                if constexpr (tile.stores_by_tma(4)) return drain<tile, 4>(shared, arguments, tiles);
            }
            break;
        default: break;
    }
    return all_patience;
}

/// Whether any of the tile's rows in its piece are this warpgroup's.
template <Tile tile>
TILEWRIGHT_DEVICE bool has_rows(const Consumer<tile>& consumer, const Work& work) {
    return !tile.skips_rows() || work.row + consumer.first_row() < work.row_end;
}

/// Multiplies a tile, then stores it.
template <Tile tile>
TILEWRIGHT_DEVICE void consume_in_turn(Consumer<tile>& consumer, Tiles<tile>& tiles) {
    Sums<tile> sums;
    for (Work work = tiles.first(consumer.patience); work.exists != 0; work = tiles.next(consumer.patience)) {
        if (has_rows<tile>(consumer, work)) {
            multiply<tile>(consumer, sums);
            if constexpr (tile.splits_k()) {
                store_slices<tile>(consumer, sums, work);
            } else {
                store<tile>(consumer, sums, work);
            }
        } else {
            pass_over<tile>(consumer);
            pass_over_final_scales<tile>(consumer);
        }
        // Together again, and known to be: only then does the compiler keep the loop's state, and with it the
        // descriptors of wgmma, in uniform registers.
        sync_warp();
    }
}

/// Stores a tile while the first k-block of the next is multiplied.
template <Tile tile>
TILEWRIGHT_DEVICE void consume_overlapped(Consumer<tile>& consumer, Tiles<tile>& tiles) {
    Sums<tile> sums;
    Chain<tile> chain;
    Factors<tile> factors{};  // read even when there is no tile at all
    Work work = tiles.first(consumer.patience);
    bool holds_sums = false;  // of the last tile
    const auto store_last = [&](int unit) {
        if (!holds_sums) return;
        if (unit == 0) consumer.release_previous();
        store_unit<tile>(consumer, sums, unit);
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
            if constexpr (!tile.grouped()) next = tiles.next(consumer.patience);
            multiply_block<tile>(consumer, sums, chain, factors, 0, {.first = true}, work.exists != 0, store_last);
            if (work.exists == 0) break;
            multiply_promoted<tile>(consumer, sums, chain, factors);
            holds_sums = true;
            if constexpr (tile.grouped()) next = tiles.next(consumer.patience);
        }
        work = next;
        sync_warp();  // as above
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
        .row_in_tile = warpgroup * tile.rows_per_warpgroup() + warp % 4 * warp_rows + lane / 4,
        .k_blocks = slice_of<tile>(arguments).count,
        .first_operand = matrix_descriptor(shared.first[0] + warpgroup * tile.rows_per_warpgroup() * row_bytes),
        .second_operand = matrix_descriptor(shared.second[0]),
        .by_tma = arguments.stored_by_tma,
    };
    if constexpr (stores_while_multiplying<tile>) {
        consume_overlapped<tile>(consumer, tiles);
    } else {
        consume_in_turn<tile>(consumer, tiles);
    }
    return consumer.patience;
}

template <Tile tile>
__global__ void __launch_bounds__(tile.threads(), tile.blocks_per_sm())
    gemm(const __grid_constant__ Arguments arguments) {
    static_assert(sizeof(Shared<tile>) <= tile.shared_bytes());
    auto& shared = shared_memory<Shared<tile>>();
    const int warp = warp_index();
    Tiles<tile> tiles(shared, arguments);
    // A warp that has time makes the barriers ready while the others find their first tile.
    if (warp == 0 && lane_index() == 0) {
        tma_prefetch(arguments.a);
        tma_prefetch(arguments.b);
    }
    if (warp == producer_warps - 1) init_barriers<tile>(shared, arguments);
    tiles.prepare();
    // So far nothing was read but the arguments.
    wait_for_earlier_kernels();
    let_next_kernel_start();
    sync_block();
    if constexpr (tile.cluster > 1) sync_cluster();

    int patience = 0;
    if (warp < producer_warps) {
        if constexpr (tile.hands_over_registers()) registers_give<tile.producer_registers()>();
        patience = produce<tile>(shared, arguments, tiles, warp);
    } else {
        if constexpr (tile.hands_over_registers()) registers_take<tile.consumer_registers()>();
        patience = consume<tile>(shared, arguments, tiles, warp - producer_warps);
    }
    if (patience < 0)
        store_global(&arguments.report->word, TimeoutReport::pack(u32(block_index()), u32(thread_index())));
    // A peer's warps may still signal the barriers here.
    if constexpr (tile.cluster > 1) sync_cluster();
}

}  // namespace tilewright::hopper
