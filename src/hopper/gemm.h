// The kernel: D = C + alpha * (A scales_a) (B scales_b)^T. Persistent: as many blocks as fit on the GPU, each walks its
// list of tiles. In a block, one warpgroup brings (a thread the operands, warps the scales) and the others multiply;
// they meet in rings of shared memory, so that the next tile arrives while this one is computed.
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
#pragma once

#include "hopper/load.h"
#include "hopper/multiply.h"
#include "hopper/scale.h"
#include "hopper/store.h"

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
        barrier_init(shared.final_scales_full[lane], 1);
        barrier_init(shared.final_scales_empty[lane], tile.consumer_warps());
    }
    if (lane < block_scale_slots) {
        barrier_init(shared.block_scales_full[lane], 1);
        barrier_init(shared.block_scales_empty[lane], tile.consumer_warps());
    }
    if (lane < tile.warpgroups) {
        barrier_init(shared.staged[lane], warpgroup_threads / warp_threads);
        barrier_init(shared.stored[lane], 1);
    }
    barrier_init_fence();
}

/// This and `consume` return the patience that is left.
template <Tile tile>
TILEWRIGHT_DEVICE int produce(Shared<tile>& shared, const Arguments& arguments, const Schedule<tile>& schedule,
                              const Work& first, int warp) {
    switch (tile.role(warp)) {
        case Role::load: return load_operands<tile>(shared, arguments, schedule, first);
        case Role::block_scale: return TileScales<tile>(shared, arguments).run();
        case Role::row_scale:
            if constexpr (!tile.plain) {
                if (!arguments.scales_by_tma) return RowScales<tile>(shared, arguments).run();
            }
            break;
        case Role::store:
            if constexpr (tile.plain) return drain<tile, 2>(shared, arguments, schedule, first);
            if (!arguments.stored_by_tma) break;
            if (element_bytes(arguments.format) == 2) {
                if constexpr (tile.stores_by_tma(2)) return drain<tile, 2>(shared, arguments, schedule, first);
            } else {
                if constexpr (tile.stores_by_tma(4)) return drain<tile, 4>(shared, arguments, schedule, first);
            }
            break;
        default: break;
    }
    return all_patience;
}

/// Multiplies a tile, then stores it.
template <Tile tile>
TILEWRIGHT_DEVICE void consume_in_turn(Consumer<tile>& consumer, Schedule<tile>& schedule, Work work) {
    Sums<tile> sums;
    for (; work.exists != 0; work = schedule.next()) {
        multiply<tile>(consumer, sums);
        store<tile>(consumer, sums, work);
        // Together again, and known to be: only then does the compiler keep the loop's state, and with it the
        // descriptors of wgmma, in uniform registers.
        sync_warp();
    }
}

/// Stores a tile while the first k-block of the next is multiplied.
template <Tile tile>
TILEWRIGHT_DEVICE void consume_overlapped(Consumer<tile>& consumer, Schedule<tile>& schedule, Work work) {
    Sums<tile> sums;
    Chain<tile> chain;
    Factors<tile> factors{};  // read even when there is no tile at all
    Work last{};
    while (true) {
        const Work next = schedule.next();
        multiply_block<tile>(consumer, sums, chain, factors, 0, {.first = true}, work.exists != 0, [&](int unit) {
            if (last.exists == 0) return;
            if (unit == 0) consumer.release_previous();
            store_unit<tile>(consumer, sums, unit);
        });
        if (work.exists == 0) break;
        multiply_promoted<tile>(consumer, sums, chain, factors);
        last = work;
        work = next;
        sync_warp();  // as above
    }
}

template <Tile tile>
TILEWRIGHT_DEVICE int consume(Shared<tile>& shared, const Arguments& arguments, Schedule<tile> schedule,
                              const Work& first, int warp) {
    const int warpgroup = warp / 4;
    const int lane = lane_index();
    Consumer<tile> consumer{
        .shared = shared,
        .arguments = arguments,
        .warpgroup = warpgroup,
        .warp = warp % 4,
        .lane = lane,
        .row_in_tile = warpgroup * tile.rows_per_warpgroup() + warp % 4 * warp_rows + lane / 4,
        .k_blocks = k_blocks_of<tile>(arguments),
        .a_rows = matrix_descriptor(shared.a[0] + warpgroup * tile.rows_per_warpgroup() * row_bytes),
        .b_rows = matrix_descriptor(shared.b[0]),
        .by_tma = arguments.stored_by_tma,
    };
    if constexpr (stores_while_multiplying<tile>) {
        consume_overlapped<tile>(consumer, schedule, first);
    } else {
        consume_in_turn<tile>(consumer, schedule, first);
    }
    return consumer.patience;
}

template <Tile tile>
__global__ void __launch_bounds__(tile.threads(), 1) gemm(const __grid_constant__ Arguments arguments) {
    static_assert(sizeof(Shared<tile>) <= tile.shared_bytes());
    auto& shared = shared_memory<Shared<tile>>();
    const int warp = warp_index();
    Schedule<tile> schedule = own_schedule<tile>(arguments);
    Work first{};
    // A warp that has time makes the barriers ready while the others find their first tile.
    if (warp == 0 && lane_index() == 0) {
        tma_prefetch(arguments.a);
        tma_prefetch(arguments.b);
    }
    if (warp == producer_warps - 1) init_barriers<tile>(shared, arguments);
    first = schedule.next();
    sync_block();
    if constexpr (tile.cluster > 1) sync_cluster();

    int patience = 0;
    if (warp < producer_warps) {
        if constexpr (tile.hands_over_registers()) registers_give<tile.producer_registers()>();
        patience = produce<tile>(shared, arguments, schedule, first, warp);
    } else {
        if constexpr (tile.hands_over_registers()) registers_take<tile.consumer_registers()>();
        patience = consume<tile>(shared, arguments, schedule, first, warp - producer_warps);
    }
    if (patience < 0)
        store_global(&arguments.report->word, TimeoutReport::pack(u32(block_index()), u32(thread_index())));
    // A peer's warps may still signal the barriers here.
    if constexpr (tile.cluster > 1) sync_cluster();
}

}  // namespace tilewright::hopper
