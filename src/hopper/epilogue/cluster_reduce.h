// The epilogue of split-K: each block of a cluster multiplies a slice of k of one tile. The fragments of the
// accumulators are distributed over the blocks. Each block receives its fragments of all slices, adds them in ascending
// k, and stores them. Fragments are sent from registers into the receiver's shared memory.
#pragma once

#include "hopper/epilogue/element_store.h"
#include "hopper/epilogue/scale.h"

namespace tilewright::hopper {

/// This thread's part of a block's `index`-th fragment of slice `slice`, in shared memory.
template <Tile tile>
TILEWRIGHT_DEVICE Quad& slice_place(const Consumer<tile>& c, int slice, int index) {
    const int thread = c.warp * warp_threads + c.lane;
    Quad* const first = reinterpret_cast<Quad*>(c.shared.d[c.warpgroup]);
    return first[(slice * fragments_per_block(tile) + index) * warpgroup_threads + thread];
}

/// Fragments that this block reduces.
template <Tile tile>
TILEWRIGHT_DEVICE int fragments_of_block() {
    const int rest = fragments_per_warpgroup(tile) - block_rank() * fragments_per_block(tile);
    return rest < 0 ? 0 : min(rest, fragments_per_block(tile));
}

template <Tile tile>
TILEWRIGHT_DEVICE void send_fragments(Consumer<tile>& c, const Accumulators<tile>& accumulators) {
    if (!c.peers_ready) wait_cluster();
    c.peers_ready = true;
    barrier_wait(c.shared.slices_read, c.slices.phase ^ 1, {c.budget, BarrierName::slices_read, 0});
    if (c.warpgroup == 0 && c.warp == 0 && c.lane == 0) {
        const int bytes = fragments_of_block<tile>() * k_slices(tile) * consumer_warps(tile) * warp_threads;
        barrier_arrive_expect(c.shared.slices_full, bytes * int(sizeof(Quad)));
    }
    sync_warp();
    const int rank = block_rank();
#pragma unroll
    for (int i = 0; i < fragments_per_warpgroup(tile); ++i) {
        const float* value = fragment<tile>(accumulators, i / (tile.shape.n / 8), i % (tile.shape.n / 8) * 8);
        store_peer(slice_place(c, rank, i % fragments_per_block(tile)), {value[0], value[1], value[2], value[3]},
                   c.shared.slices_full, i / fragments_per_block(tile));
    }
}

/// This thread's part of the block's `index`-th fragment.
template <Tile tile>
TILEWRIGHT_DEVICE Quad add_slices(const Consumer<tile>& c, int index) {
    Quad slices[k_slices(tile)];
#pragma unroll
    for (int slice = 0; slice < k_slices(tile); ++slice) slices[slice] = load_shared(slice_place(c, slice, index));
    Quad total = slices[0];
#pragma unroll
    for (int slice = 1; slice < k_slices(tile); ++slice) {
#pragma unroll
        for (int i = 0; i < 4; ++i) total.values[i] += slices[slice].values[i];
    }
    return total;
}

/// Stores a fragment. Elements 0 and 1 are in the tensor core's row `m`, columns `n` and n + 1. Elements 2 and 3 are in
/// the lane's second row.
template <Tile tile>
TILEWRIGHT_DEVICE void store_fragment(const Consumer<tile>& c, const WorkTile& work, const Quad& values, int m, int n) {
    constexpr int step = fragment_row_step(tile);
    const int row_end = is_grouped(tile) ? work.row_end : c.arguments.m;
    const int row = work.row + (tile.swap_ab ? n : m), column = work.column + (tile.swap_ab ? m : n);
    if constexpr (is_fast(tile) && !tile.swap_ab) {
        const OutputView& d = c.arguments.output;
        u16* const to = static_cast<u16*>(d.data) + work.batch * d.batch_stride + row * d.row_stride + column;
        if (column >= c.arguments.n) return;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const u32 pair = pack_16_bit(values.values[2 * half], values.values[2 * half + 1], true);
            if (row + half * step < row_end)
                store_global(reinterpret_cast<u32*>(to + half * step * d.row_stride), pair);
        }
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int right = i % 2, below = i / 2 * step;
            const int own_row = row + (tile.swap_ab ? right : below);
            const int own_column = column + (tile.swap_ab ? below : right);
            if (own_row < row_end && own_column < c.arguments.n) {
                store_element<tile>(c.arguments, work, own_row, own_column, values.values[i]);
            }
        }
    }
}

/// `more`: another tile follows. After the last tile no peer writes to this block's shared memory, so that the block
/// may end.
template <Tile tile>
TILEWRIGHT_DEVICE void store_slices(Consumer<tile>& c, const Accumulators<tile>& accumulators, const WorkTile& work,
                                    bool more) {
    send_fragments<tile>(c, accumulators);
    if constexpr (has_epilogue_scales(tile)) wait_epilogue_scales<tile>(c);
    barrier_wait(c.shared.slices_full, c.slices.phase, {c.budget, BarrierName::slices_full, 0});
    const int count = fragments_of_block<tile>(), first = block_rank() * fragments_per_block(tile);
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
        const int half = (first + i) / (tile.shape.n / 8), column = (first + i) % (tile.shape.n / 8) * 8;
        const int m = c.row_in_tile + half * wgmma_m, n = column + c.lane % 4 * 2;
        Quad total = add_slices<tile>(c, i);
        if constexpr (has_epilogue_scales(tile)) scale_fragment<tile>(c, total, m, n);
        store_fragment<tile>(c, work, total, m, n);
    }
    sync_warp();
    if (more && c.lane < tile.cluster.size) barrier_arrive_peer(c.shared.slices_read, c.lane);
    sync_warp();
    c.slices.advance();
    if constexpr (has_epilogue_scales(tile)) release_epilogue_scales<tile>(c);
}

}  // namespace tilewright::hopper
