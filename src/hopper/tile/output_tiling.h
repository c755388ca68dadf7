// The ways in which D leaves a tile: each warpgroup's share, its TMA stores, and the fragments of split-K.
#pragma once

#include "hopper/tile/operands.h"

namespace tilewright::hopper {

inline constexpr int store_row_bytes = row_bytes;  // of D in one TMA store, at most

/// A warpgroup's share of the tile of D, and where it begins.
constexpr int share_rows(const Tile& tile) { return tile.swap_ab ? tile.shape.n : rows_per_warpgroup(tile); }
constexpr int share_columns(const Tile& tile) { return tile.swap_ab ? rows_per_warpgroup(tile) : tile.shape.n; }
constexpr int share_row(const Tile& tile, int warpgroup) { return tile.swap_ab ? 0 : warpgroup * share_rows(tile); }
constexpr int share_column(const Tile& tile, int warpgroup) {
    return tile.swap_ab ? warpgroup * share_columns(tile) : 0;
}

// ---- Split-K. A fragment has 64 rows and 8 columns of a warpgroup's accumulators, four elements per thread.

constexpr int fragments_per_warpgroup(const Tile& tile) {
    return rows_per_warpgroup(tile) / wgmma_m * (tile.shape.n / 8);
}
/// Fragments that a block reduces; the last block may have fewer.
constexpr int fragments_per_block(const Tile& tile) { return ceil_div(fragments_per_warpgroup(tile), k_slices(tile)); }
/// Bytes of one warpgroup's fragments from all slices.
constexpr int slice_bytes(const Tile& tile) {
    return k_slices(tile) * fragments_per_block(tile) * warpgroup_threads * 16;
}

// ---- TMA stores

/// D of f32 leaves through the ring of k-blocks: after a tile's k-blocks some stages hold C, which is replaced by D. A
/// part of D has 64 rows and 32 columns of a warpgroup's share.
constexpr int f32_part_columns() { return store_row_bytes / 4; }  // (a variable would move constants of other kernels)
constexpr int f32_part_bytes() { return wgmma_m * store_row_bytes; }
constexpr int f32_parts(const Tile& tile) {
    return share_rows(tile) / wgmma_m * (share_columns(tile) / f32_part_columns());
}
/// Parts per warpgroup that fit into a stage's values: first in the values of mma A, then in those of mma B.
constexpr int f32_parts_in_mma_a(const Tile& tile) { return mma_a(tile).value_bytes() / f32_part_bytes(); }
constexpr int f32_parts_per_stage(const Tile& tile) {
    return (f32_parts_in_mma_a(tile) + mma_b(tile).value_bytes() / f32_part_bytes()) / tile.shape.warpgroups;
}
/// Stages that hold a tile of C and D.
constexpr int output_stages(const Tile& tile) {
    return stores_f32(tile) ? ceil_div(f32_parts(tile), f32_parts_per_stage(tile)) : 0;
}
/// Parts per warpgroup in the `index`-th of these stages.
constexpr int f32_parts_of_stage(const Tile& tile, int index) {
    return min(f32_parts(tile) - index * f32_parts_per_stage(tile), f32_parts_per_stage(tile));
}

/// Shared memory per warpgroup's D: the whole share in 16-bit elements, or 16 rows of 128 bytes per warp. Split-K: the
/// fragments that the block reduces. D of f32: none, but an array has at least one element.
constexpr int staging_bytes(const Tile& tile) {
    if (stores_f32(tile)) return 1;
    const int scratch = warpgroup_warps * warp_rows * row_bytes;
    const int share = splits_k(tile) ? slice_bytes(tile) : share_rows(tile) * share_columns(tile) * 2;
    return round_up(max(share, scratch), tile_alignment);
}

/// A store has 64 rows (swap-AB: the rows of all tokens). It has as many columns as fit in 128 bytes and divide the
/// share.
constexpr int store_rows(const Tile& tile) { return tile.swap_ab ? tile.shape.n : wgmma_m; }
constexpr int store_columns(const Tile& tile, int element_bytes) {
    int columns = store_row_bytes / element_bytes;
    while (share_columns(tile) % columns != 0) columns -= 8;
    return columns;
}
constexpr int store_pitch(const Tile& tile, int element_bytes) {
    return store_columns(tile, element_bytes) * element_bytes;
}
constexpr bool store_swizzled(const Tile& tile, int element_bytes) {
    return store_pitch(tile, element_bytes) == store_row_bytes;
}
/// Stores along the share's columns. A warpgroup of 128 rows has two of each.
constexpr int stores_per_share(const Tile& tile, int element_bytes) {
    return share_columns(tile) / store_columns(tile, element_bytes);
}
/// Stores that are staged together.
constexpr int stores_at_once(const Tile& tile, int element_bytes) {
    const int fit = staging_bytes(tile) / (share_rows(tile) * store_pitch(tile, element_bytes));
    return min(fit, stores_per_share(tile, element_bytes));
}
/// 16-bit elements are staged 16 columns at a time, 32-bit elements 32. stmatrix transposes only 16-bit elements.
constexpr bool can_store_by_tma(const Tile& tile, int element_bytes) {
    if (tile.swap_ab || splits_k(tile)) return element_bytes == 2;
    return tile.shape.n % (element_bytes == 2 ? 16 : 32) == 0;
}

}  // namespace tilewright::hopper
