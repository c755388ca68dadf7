// Split k: each block of a cluster multiplies a slice of k of the same tile. The fragments of its sums are dealt out: a
// block owns as many as its peers, and gets them from all of them, straight from registers into its shared memory. It
// adds them in ascending k, and stores what it owns.
#pragma once

#include "hopper/epilogue/store.h"

namespace tilewright::hopper {

/// Where block `slice` of the cluster leaves this thread's part of the `index`-th fragment that a block owns.
template <Tile tile>
TILEWRIGHT_DEVICE Quad& slice_place(const Consumer<tile>& c, int slice, int index) {
    const int thread = c.warp * warp_threads + c.lane;
    Quad* const first = reinterpret_cast<Quad*>(c.shared.d[c.warpgroup]);
    return first[(slice * fragments_per_block(tile) + index) * warpgroup_threads + thread];
}

/// Fragments that this block owns.
template <Tile tile>
TILEWRIGHT_DEVICE int owned_fragments() {
    const int rest = fragments_per_warpgroup(tile) - block_rank() * fragments_per_block(tile);
    return rest < 0 ? 0 : min(rest, fragments_per_block(tile));
}

template <Tile tile>
TILEWRIGHT_DEVICE void send_sums(Consumer<tile>& c, const Sums<tile>& sums) {
    if (!c.peers_ready) wait_cluster();
    c.peers_ready = true;
    barrier_wait(c.shared.slices_read, c.slices.parity ^ 1, {c.patience, BarrierName::slices_read, 0});
    if (c.warpgroup == 0 && c.warp == 0 && c.lane == 0) {
        const int bytes = owned_fragments<tile>() * k_slices(tile) * consumer_warps(tile) * warp_threads;
        barrier_arrive_expect(c.shared.slices_full, bytes * int(sizeof(Quad)));
    }
    sync_warp();
    const int rank = block_rank();
#pragma unroll
    for (int i = 0; i < fragments_per_warpgroup(tile); ++i) {
        const float* sum = fragment<tile>(sums, i / (tile.shape.n / 8), i % (tile.shape.n / 8) * 8);
        store_peer(slice_place(c, rank, i % fragments_per_block(tile)), {sum[0], sum[1], sum[2], sum[3]},
                   c.shared.slices_full, i / fragments_per_block(tile));
    }
}

/// This thread's part of the `index`-th fragment that the block owns.
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

/// Elements 0, 1: row `m` of the tensor core's, columns `n` and the next; 2, 3: row `m` + 8.
template <Tile tile>
TILEWRIGHT_DEVICE void scale_fragment(const Consumer<tile>& c, Quad& sums, int m, int n) {
    const int place = c.finals.place;
    const Pair columns = load_shared(*reinterpret_cast<const Pair*>(&c.shared.column_scales[place][n]));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float row = load_shared(c.shared.row_scales[place][m + i / 2 * 8]);
        sums.values[i] *= row * (i % 2 == 0 ? columns.x : columns.y);
    }
}

/// As above.
template <Tile tile>
TILEWRIGHT_DEVICE void store_fragment(const Consumer<tile>& c, const Work& work, const Quad& sums, int m, int n) {
    const int row_end = is_grouped(tile) ? work.row_end : c.arguments.m;
    const int row = work.row + (tile.swap_ab ? n : m), column = work.column + (tile.swap_ab ? m : n);
    if constexpr (is_fast(tile) && !tile.swap_ab) {
        const OutputView& d = c.arguments.output;
        u16* const to = static_cast<u16*>(d.data) + work.batch * d.batch_stride + row * d.row_stride + column;
        if (column >= c.arguments.n) return;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const u32 pair = pack_bf16(sums.values[2 * half], sums.values[2 * half + 1]);
            if (row + half * 8 < row_end) store_global(reinterpret_cast<u32*>(to + half * 8 * d.row_stride), pair);
        }
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int beside = i % 2, below = i / 2 * 8;
            const int own_row = row + (tile.swap_ab ? beside : below);
            const int own_column = column + (tile.swap_ab ? below : beside);
            if (own_row < row_end && own_column < c.arguments.n) {
                store_element<is_fast(tile)>(c.arguments, work, own_row, own_column, sums.values[i]);
            }
        }
    }
}

/// `more`: another tile follows. After the last one nobody writes to this block any more, so that it may end.
template <Tile tile>
TILEWRIGHT_DEVICE void store_slices(Consumer<tile>& c, const Sums<tile>& sums, const Work& work, bool more) {
    send_sums<tile>(c, sums);
    if constexpr (has_epilogue_scales(tile)) wait_final_scales<tile>(c);
    barrier_wait(c.shared.slices_full, c.slices.parity, {c.patience, BarrierName::slices_full, 0});
    const int owned = owned_fragments<tile>(), first = block_rank() * fragments_per_block(tile);
#pragma unroll 1
    for (int i = 0; i < owned; ++i) {
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
    if constexpr (has_epilogue_scales(tile)) release_final_scales<tile>(c);
}

}  // namespace tilewright::hopper
