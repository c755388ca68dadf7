// The operands of a tile as the loads see them, and where their scales enter.
#pragma once

#include "hopper/tile/tile.h"

namespace tilewright::hopper {

inline constexpr int tile_alignment = 1024;  // of swizzled shared memory
inline constexpr int raw_alignment = 512;    // of rows of raw codes, whose swizzle is half as wide
inline constexpr int box_rows_limit = 256;   // of one TMA box
inline constexpr int mn_major_box = 128;     // rows of an mn-major operand in one, which is as wide as the swizzle

/// One operand's rows in a stage.
struct OperandTile {
    OperandSpec spec{};
    int rows = 0;
    bool shared = false;  // by the blocks of a cluster
    int box_limit = box_rows_limit;
    bool spreads_scales = false;  // of A, 128x128: each row has its block's, as if they were 1x128 (scales_load.h)
    int k = 128;  // elements in a stage: the tile's, for `stage_k` here would move instructions of other kernels

    constexpr bool scaled_in_mainloop() const { return has_row_scales() || spec.scaling == Scaling::block_128x128; }
    constexpr bool is_mn_major() const { return spec.major == Major::mn; }
    constexpr bool has_row_scales() const {
        return spec.scaling == Scaling::block_1x128 || scaled_by_steps() || spreads_scales;
    }
    /// A scale for each step, 1x32 or repeated.
    constexpr bool scaled_by_steps() const {
        return spec.scaling == Scaling::block_1x32 || spec.scaling == Scaling::repeated;
    }
    /// Scales of a row in a stage.
    constexpr int scales_of_row() const { return scaled_by_steps() ? k / step_k : 1; }
    constexpr bool is_packed() const { return hopper::is_packed(spec.storage); }
    constexpr bool has_windows() const { return hopper::has_windows(spec.storage); }
    constexpr bool is_raw() const { return spec.storage == Storage::raw_e2m1; }
    /// Bytes of one row in a stage, not packed.
    constexpr int stage_row_bytes() const { return k * element_bytes(spec.storage); }
    /// In a stage.
    constexpr int value_bytes() const {
        if (is_raw()) return round_up(loaded_bytes(), raw_alignment);
        if (has_windows()) return rows / packed_tile_rows * windowed_tile_bytes(most_windows);
        if (is_packed()) return rows / packed_tile_rows * packed_tile_bytes(spec.storage);
        return round_up(rows * stage_row_bytes(), tile_alignment);
    }
    /// The part that is loaded.
    constexpr int loaded_bytes() const {
        if (is_raw()) return rows * raw_row_bytes + rows / packed_tile_rows * raw_tile_bytes;
        return is_packed() ? value_bytes() : rows * stage_row_bytes();
    }
    /// As which the tensor core multiplies it.
    constexpr Storage multiplied_as() const { return hopper::multiplied_as(spec.storage); }
    /// In a stage. 128x128 scales of B have a ring of chunks instead (stage_layout.h).
    constexpr int scale_bytes() const { return has_row_scales() ? rows * scales_of_row() * 4 : 0; }
};

constexpr OperandTile operand_a(const Tile& tile) {
    const int box = tile.swap_ab ? token_box_rows : rows_per_warpgroup(tile);
    return {tile.a,
            d_rows(tile),
            tile.cluster.use == ClusterUse::share_a,
            skips_boxes(tile) ? box : box_rows_limit,
            tile.a.scaling == Scaling::block_128x128,
            tile.shape.k};
}
constexpr OperandTile operand_b(const Tile& tile) {
    return {
        .spec = tile.b, .rows = d_columns(tile), .shared = tile.cluster.use == ClusterUse::share_b, .k = tile.shape.k};
}
constexpr OperandTile mma_a(const Tile& tile) { return tile.swap_ab ? operand_b(tile) : operand_a(tile); }
constexpr OperandTile mma_b(const Tile& tile) { return tile.swap_ab ? operand_a(tile) : operand_b(tile); }

/// Rows that this block loads of an operand itself; its peers load the rest of a shared one.
constexpr int loaded_rows(const Tile& tile, const OperandTile& operand) {
    return operand.shared ? operand.rows / tile.cluster.size : operand.rows;
}
constexpr int box_rows(const Tile& tile, const OperandTile& operand) {
    const int rows = loaded_rows(tile, operand);
    if (operand.is_mn_major()) return mn_major_box;
    return rows % operand.box_limit == 0 ? operand.box_limit : rows;
}
/// Rows of A that a dense tile with `rows` rows of D loads, because TMA takes more time for rows outside of a tensor
/// than for rows inside: exactly those, or, where blocks share A, as many as make equal shares of whole swizzle
/// patterns. A box of an mn-major operand has neighbouring rows in a line of memory, and is always whole.
constexpr int rows_of_a(const Tile& tile, int rows) {
    constexpr int pattern = 8;
    if (operand_a(tile).is_mn_major()) return d_rows(tile);
    return min(operand_a(tile).shared ? round_up(rows, pattern * tile.cluster.size) : rows, d_rows(tile));
}

/// Clocks that the tensor cores of an SM multiply a k-block: 4096 products of fp8 a clock, half as many of bf16.
constexpr int tensor_clocks(const Tile& tile) { return tile.shape.m * tile.shape.n / 32 * k_boxes(tile); }

// ---- Scales

constexpr bool scales_in_mainloop(const Tile& tile) {
    return operand_a(tile).scaled_in_mainloop() || operand_b(tile).scaled_in_mainloop();
}
constexpr bool scales_mma_rows(const Tile& tile) { return mma_a(tile).has_row_scales(); }
/// The costly ones: every warp reads the scales of all columns of the accumulators.
constexpr bool scales_mma_columns(const Tile& tile) { return mma_b(tile).has_row_scales(); }
constexpr bool has_row_scales(const Tile& tile) { return scales_mma_rows(tile) || scales_mma_columns(tile); }
constexpr bool has_block_scales(const Tile& tile) { return tile.b.scaling == Scaling::block_128x128; }
/// Scales of rows or of the tensor wait for the end, or the factors of MXFP4's rows.
constexpr bool scales_rows_at_end(const Tile& tile) {
    return tile.a.scaling == Scaling::epilogue || tile.b.scaling == Scaling::epilogue ||
           tile.b.scaling == Scaling::factor;
}
/// Scales in the mainloop leave a power of two to the end, where other scales wait (`CanonicalOrder::defers`).
constexpr bool defers_scales(const Tile& tile) {
    return (scales_rows_at_end(tile) || ends_with_tensor_scale(tile)) && has_row_scales(tile);
}
constexpr bool defers_scales_of_a(const Tile& tile) { return defers_scales(tile) && operand_a(tile).has_row_scales(); }
constexpr bool defers_scales_of_b(const Tile& tile) { return defers_scales(tile) && operand_b(tile).has_row_scales(); }
constexpr bool has_epilogue_scales(const Tile& tile) {
    return scales_rows_at_end(tile) || ends_with_tensor_scale(tile);
}

/// Columns of D that have one 128x128 scale wherever the tile begins: a power of two.
constexpr int columns_per_block_scale(const Tile& tile) {
    int columns = 128;
    while (d_columns(tile) % columns != 0) columns /= 2;
    return columns;
}
constexpr int block_scales_per_k_block(const Tile& tile) { return d_columns(tile) / columns_per_block_scale(tile); }

/// The fast kernels of swapped and split-k tiles serve scales of one byte too, so they keep the ordinary loads; those
/// of 128 rows are spread by nothing else.
constexpr bool fast_loads_row_scales(const Tile& tile) {
    return !has_k_major_scales(tile) && (tile.swap_ab || splits_k(tile) || operand_a(tile).spreads_scales);
}
/// K-major kernels copy what TMA cannot load (mainloop/scales_copy.h): it serves all strides of f32 and takes no
/// registers. Those for D of f32 have one variant for all orders, and copy whatever TMA does not load along m.
constexpr bool copies_row_scales(const Tile& tile) {
    return has_k_major_scales(tile) || (stores_f32(tile) && has_row_scales(tile) && !operand_a(tile).spreads_scales);
}
/// Whether the kernel holds code that loads 1x128 scales without TMA.
constexpr bool may_load_row_scales(const Tile& tile) {
    return !is_fast(tile) || fast_loads_row_scales(tile) || copies_row_scales(tile);
}

/// Whether scales of A are loaded for four k-blocks at once, with the stage of the first, as they are along k: TMA
/// moves at least 16 bytes of a row. Not where k is split, for a slice may begin between two multiples of 16 bytes, nor
/// swapped, where four scales of each column would take all registers, nor with one warpgroup, which they make up to
/// 24 % slower at short k. There each k-block's are copied to where the kernel of m-major scales has them, so that the
/// mainloops are the same. (Large tiles lose 3 to 20 % by that.) Nor for groups of k, which begin at any k-block.
constexpr bool loads_scales_by_four(const Tile& tile) {
    return has_k_major_scales(tile) && !tile.swap_ab && !splits_k(tile) && tile.shape.warpgroups > 1 &&
           !is_k_grouped(tile);
}
constexpr int k_blocks_per_scale_copy(const Tile& tile) { return loads_scales_by_four(tile) ? 4 : 1; }
/// Whether the kernel holds code that loads 1x128 scales by TMA, which cannot spread those of 128 rows.
constexpr bool may_load_row_scales_by_tma(const Tile& tile) {
    return has_row_scales(tile) && !promotes_each_step(tile) &&
           (!has_k_major_scales(tile) || loads_scales_by_four(tile)) && !operand_a(tile).spreads_scales;
}
/// For a tile that loads `rows` rows of A. Scales that are adjacent along m are one row to TMA, which is always whole,
/// and groups have one box, of all rows.
constexpr int a_scale_copy_bytes(const Tile& tile, int rows) {
    const int whole = operand_a(tile).scale_bytes() * k_blocks_per_scale_copy(tile);
    return is_grouped(tile) || !loads_scales_by_four(tile) ? whole : rows * k_blocks_per_scale_copy(tile) * 4;
}
constexpr int b_scale_copy_bytes(const Tile& tile) { return operand_b(tile).scale_bytes(); }

}  // namespace tilewright::hopper
