// Split k: each block of a cluster multiplies a slice of k of the same tile. The sums meet in shared memory: a block
// reads its part of the tile from all of them, adds in ascending k, and stores it.
#pragma once

#include "hopper/store.h"

namespace tilewright::hopper {

/// A block's sums as they lie in its shared memory: D's rows and columns.
template <Tile tile>
TILEWRIGHT_DEVICE float* slice_sums(const Consumer<tile>& c, int row, int column) {
    return reinterpret_cast<float*>(c.shared.d[0]) + row * tile.slice_pitch() + column;
}

template <Tile tile>
TILEWRIGHT_DEVICE void arrive_at_all(Consumer<tile>& c, Barrier& barrier) {
    sync_warp();
    if (c.lane >= tile.cluster) return;
    fence_cluster();
    barrier_arrive_peer(barrier, c.lane);
}

template <Tile tile>
TILEWRIGHT_DEVICE void share_sums(Consumer<tile>& c, const Sums<tile>& sums) {
    constexpr int halves = tile.rows_per_warpgroup() / warpgroup_rows;
    barrier_wait(c.shared.slices_read, c.slices.parity ^ 1, {c.patience, BarrierName::slices_read, 0});
#pragma unroll
    for (int half = 0; half < halves; ++half) {
#pragma unroll
        for (int column = 0; column < tile.n; column += 8) {
            const float* from = fragment<tile>(sums, half, column);
            const int m = c.row_in_tile + half * warpgroup_rows, n = column + c.lane % 4 * 2;
            if constexpr (tile.swap_ab) {
#pragma unroll
                for (int i = 0; i < 4; ++i) store_shared(*slice_sums<tile>(c, n + i % 2, m + i / 2 * 8), from[i]);
            } else {
                store_shared(*reinterpret_cast<Pair*>(slice_sums<tile>(c, m, n)), {from[0], from[1]});
                store_shared(*reinterpret_cast<Pair*>(slice_sums<tile>(c, m + 8, n)), {from[2], from[3]});
            }
        }
    }
    arrive_at_all(c, c.shared.slices_written);
}

/// Four neighbours of a row of D, from all slices.
template <Tile tile>
TILEWRIGHT_DEVICE Quad add_slices(const Consumer<tile>& c, int row, int column) {
    const Quad& place = *reinterpret_cast<const Quad*>(slice_sums<tile>(c, row, column));
    Quad slices[tile.split_k];
#pragma unroll
    for (int rank = 0; rank < tile.split_k; ++rank) slices[rank] = load_peer(place, rank);
    Quad total = slices[0];
#pragma unroll
    for (int rank = 1; rank < tile.split_k; ++rank) {
#pragma unroll
        for (int i = 0; i < 4; ++i) total.values[i] += slices[rank].values[i];
    }
    if constexpr (tile.scales_after()) {
        const int place_of_scales = c.finals.place;
        const float* a = tile.swap_ab ? c.shared.column_scales[place_of_scales] : c.shared.row_scales[place_of_scales];
        const float* b = tile.swap_ab ? c.shared.row_scales[place_of_scales] : c.shared.column_scales[place_of_scales];
        const float row_scale = load_shared(a[row]);
#pragma unroll
        for (int i = 0; i < 4; ++i) total.values[i] *= row_scale * load_shared(b[column + i]);
    }
    return total;
}

/// At once where D's row is contiguous and aligned.
template <Tile tile>
TILEWRIGHT_DEVICE void store_four(const Arguments& arguments, const Work& work, int row, int column, const Quad& sums) {
    const OutputView& d = arguments.output;
    const i64 to = work.batch * d.batch_stride + row * d.row_stride + column;
    u16* const place = static_cast<u16*>(d.data) + to;
    const bool aligned = reinterpret_cast<u64>(place) % sizeof(u64) == 0;
    const bool simple = arguments.addend.data == nullptr && d.column_stride == 1 && column + 4 <= arguments.n;
    if (simple && aligned && arguments.format != OutputFormat::f32) {
        const bool as_bf16 = arguments.format == OutputFormat::bf16;
        float values[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) values[i] = arguments.alpha * sums.values[i];
        store_global(reinterpret_cast<u64*>(place), pack_16_bit(values, as_bf16) | u64(pack_16_bit(values + 2, as_bf16))
                                                                                       << 32);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (column + i < arguments.n) store_element(arguments, work, row, column + i, sums.values[i]);
    }
}

/// The block's part of the tile: as many rows of D as its peers have.
template <Tile tile>
TILEWRIGHT_DEVICE void store_slices(Consumer<tile>& c, const Sums<tile>& sums, const Work& work) {
    constexpr int fours = tile.columns() / 4, part = tile.rows() * fours / tile.split_k;
    share_sums<tile>(c, sums);
    if constexpr (tile.scales_after()) wait_final_scales<tile>(c);
    barrier_wait(c.shared.slices_written, c.slices.parity, {c.patience, BarrierName::slices_written, 0});
    fence_cluster();
    const int first = block_rank() * part, thread = c.warpgroup * warpgroup_threads + c.warp * warp_threads + c.lane;
    for (int i = first + thread; i < first + part; i += tile.warpgroups * warpgroup_threads) {
        const int row = i / fours, column = i % fours * 4;
        if (work.row + row >= (tile.grouped() ? work.row_end : c.arguments.m)) continue;
        const Quad total = add_slices<tile>(c, row, column);
        store_four<tile>(c.arguments, work, work.row + row, work.column + column, total);
    }
    arrive_at_all(c, c.shared.slices_read);
    c.slices.advance();
    if constexpr (tile.scales_after()) release_final_scales<tile>(c);
}

}  // namespace tilewright::hopper
