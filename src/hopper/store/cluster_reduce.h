// The epilogue of split-K: each block of a cluster multiplies a slice of k of one tile. The fragments of the
// accumulators are distributed over the blocks. Each block receives its fragments of all slices, adds them in ascending
// k, and stores them. Fragments are sent from registers into the receiver's shared memory.
#pragma once

#include "hopper/store/element_store.h"
#include "hopper/store/scale.h"

namespace tilewright::hopper {

/// This thread's part of a block's `index`-th fragment of slice `slice`, in shared memory.
template <Design design>
TILEWRIGHT_DEVICE Quad& slice_place(const Consumer<design>& c, int slice, int index) {
    const int thread = c.warp * warp_threads + c.lane;
    Quad* const first = reinterpret_cast<Quad*>(c.shared.d[c.warpgroup]);
    return first[(slice * design.fragments_per_block + index) * warpgroup_threads + thread];
}

/// Fragments that this block reduces.
template <Design design>
TILEWRIGHT_DEVICE int fragments_of_block() {
    const int rest = design.accumulator_registers / fragment_elements - block_rank() * design.fragments_per_block;
    return rest < 0 ? 0 : min(rest, design.fragments_per_block);
}

template <Design design>
TILEWRIGHT_DEVICE void send_fragments(Consumer<design>& c, const Accumulators<design>& accumulators) {
    if (!c.peers_ready) wait_cluster();
    c.peers_ready = true;
    barrier_wait(c.shared.slices_read, c.slices.phase ^ 1, {c.budget, BarrierName::slices_read, 0});
    if (c.warpgroup == 0 && c.warp == 0 && c.lane == 0) {
        const int bytes =
            fragments_of_block<design>() * design.cluster.k_slices * design.shape.warpgroups * warpgroup_threads;
        barrier_arrive_expect(c.shared.slices_full, bytes * int(sizeof(Quad)));
    }
    sync_warp();
    const int rank = block_rank();
#pragma unroll
    for (int i = 0; i < design.accumulator_registers / fragment_elements; ++i) {
        const float* value = fragment<design>(accumulators, i / (design.shape.n / 8), i % (design.shape.n / 8) * 8);
        store_peer(slice_place(c, rank, i % design.fragments_per_block), {value[0], value[1], value[2], value[3]},
                   c.shared.slices_full, i / design.fragments_per_block);
    }
}

/// This thread's part of the block's `index`-th fragment.
template <Design design>
TILEWRIGHT_DEVICE Quad add_slices(const Consumer<design>& c, int index) {
    Quad slices[design.cluster.k_slices];
#pragma unroll
    for (int slice = 0; slice < design.cluster.k_slices; ++slice)
        slices[slice] = load_shared(slice_place(c, slice, index));
    Quad total = slices[0];
#pragma unroll
    for (int slice = 1; slice < design.cluster.k_slices; ++slice) {
#pragma unroll
        for (int i = 0; i < 4; ++i) total.values[i] += slices[slice].values[i];
    }
    return total;
}

/// Stores a fragment. Elements 0 and 1 are in the tensor core's row `m`, columns `n` and n + 1. Elements 2 and 3 are in
/// the lane's second row.
template <Design design>
TILEWRIGHT_DEVICE void store_fragment(const Consumer<design>& c, const WorkTileOf<design>& work, const Quad& values,
                                      int m, int n) {
    constexpr int step = fragment_row_step(design);
    const int row_end = end_of_rows<design>(work, c.arguments.m);
    const int row = work.row + (design.swap_ab ? n : m), column = work.column + (design.swap_ab ? m : n);
    if constexpr (design.output != Output::any && !design.swap_ab) {
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
            const int own_row = row + (design.swap_ab ? right : below);
            const int own_column = column + (design.swap_ab ? below : right);
            if (own_row < row_end && own_column < c.arguments.n) {
                store_element<design>(c.arguments, work, own_row, own_column, values.values[i]);
            }
        }
    }
}

/// `more`: another tile follows. After the last tile no peer writes to this block's shared memory, so that the block
/// may end.
template <Design design>
TILEWRIGHT_DEVICE void store_slices(Consumer<design>& c, const Accumulators<design>& accumulators,
                                    const WorkTileOf<design>& work, bool more) {
    send_fragments<design>(c, accumulators);
    if constexpr (design.has_epilogue_scales) wait_epilogue_scales<design>(c);
    barrier_wait(c.shared.slices_full, c.slices.phase, {c.budget, BarrierName::slices_full, 0});
    const int count = fragments_of_block<design>(), first = block_rank() * design.fragments_per_block;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
        const int half = (first + i) / (design.shape.n / 8), column = (first + i) % (design.shape.n / 8) * 8;
        const int m = c.row_in_tile + half * wgmma_m, n = column + c.lane % 4 * 2;
        Quad total = add_slices<design>(c, i);
        if constexpr (design.has_epilogue_scales) scale_fragment<design>(c, total, m, n);
        store_fragment<design>(c, work, total, m, n);
    }
    sync_warp();
    if (more && c.lane < design.cluster.size()) barrier_arrive_peer(c.shared.slices_read, c.lane);
    sync_warp();
    c.slices.advance();
    if constexpr (design.has_epilogue_scales) release_epilogue_scales<design>(c);
}

}  // namespace tilewright::hopper
