// The operands of a tile as the loads see them, and the places where their scales are applied.
#pragma once

#include "hopper/tile/tile.h"

namespace tilewright::hopper {

inline constexpr int tile_alignment = 1024;  // Alignment of swizzled shared memory.
inline constexpr int raw_alignment = 512;    // The same for unpacked weights read in place, whose swizzle is half as
                                             // wide.
inline constexpr int box_rows_limit = 256;   // Rows of one TMA box.
inline constexpr int mn_major_box = 128;     // Rows of an MN-major operand in one TMA box: the width of the swizzle.

/// One operand's rows in a stage.
struct OperandTile {
    OperandSpec spec{};
    int rows = 0;
    bool shared = false;  // by the blocks of a cluster
    int box_limit = box_rows_limit;
    // 128x128 scales of A: each row gets its block's scale, as if they were 1x128 scales (scales_load.h).
    bool spreads_scales = false;
    // Elements in a stage. The tile sets it, because `stage_k` here would move instructions of other kernels.
    int k = 128;

    constexpr bool scaled_in_mainloop() const { return has_row_scales() || spec.scaling == Scaling::block_128x128; }
    constexpr bool is_mn_major() const { return spec.major == Major::mn; }
    constexpr bool has_row_scales() const {
        return spec.scaling == Scaling::block_1x128 || scaled_by_steps() || spreads_scales;
    }
    /// One scale per step: 1x32, or scales that all steps share.
    constexpr bool scaled_by_steps() const {
        return spec.scaling == Scaling::block_1x32 || spec.scaling == Scaling::repeated;
    }
    /// Scales per row in a stage.
    constexpr int scales_of_row() const { return scaled_by_steps() ? k / step_k : 1; }
    constexpr bool is_packed() const { return hopper::is_packed(spec.storage); }
    constexpr bool has_windows() const { return hopper::has_windows(spec.storage); }
    constexpr bool is_raw() const { return spec.storage == Storage::raw_e2m1; }
    /// Bytes of one row in a stage, if it is not packed.
    constexpr int stage_row_bytes() const { return k * element_bytes(spec.storage); }
    /// Bytes in a stage.
    constexpr int value_bytes() const {
        if (is_raw()) return round_up(loaded_bytes(), raw_alignment);
        if (has_windows()) return rows / packed_tile_rows * windowed_tile_bytes(most_windows);
        if (is_packed()) return rows / packed_tile_rows * packed_tile_bytes(spec.storage);
        return round_up(rows * stage_row_bytes(), tile_alignment);
    }
    /// Bytes in a stage that are loaded.
    constexpr int loaded_bytes() const {
        if (is_raw()) return rows * raw_row_bytes + rows / packed_tile_rows * raw_tile_bytes;
        return is_packed() ? value_bytes() : rows * stage_row_bytes();
    }
    /// The format in which the tensor core multiplies it.
    constexpr Storage multiplied_as() const { return hopper::multiplied_as(spec.storage); }
    /// Bytes of scales in a stage. 128x128 scales of B have a ring of chunks instead (stage_layout.h).
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

/// Rows that this block loads of an operand. If the operand is shared, its peers load the rest.
constexpr int loaded_rows(const Tile& tile, const OperandTile& operand) {
    return operand.shared ? operand.rows / tile.cluster.size : operand.rows;
}
constexpr int box_rows(const Tile& tile, const OperandTile& operand) {
    const int rows = loaded_rows(tile, operand);
    if (operand.is_mn_major()) return mn_major_box;
    return rows % operand.box_limit == 0 ? operand.box_limit : rows;
}
/// Rows of A that a dense tile with `rows` rows of D loads. TMA takes more time for rows outside of a tensor than for
/// rows inside, so that the tile loads exactly `rows` rows. If blocks share A, it loads as many rows as make equal
/// shares of whole swizzle patterns. A box of an MN-major operand has adjacent rows in a line of memory, and is always
/// whole.
constexpr int rows_of_a(const Tile& tile, int rows) {
    constexpr int pattern = 8;
    if (operand_a(tile).is_mn_major()) return d_rows(tile);
    return min(operand_a(tile).shared ? round_up(rows, pattern * tile.cluster.size) : rows, d_rows(tile));
}

/// Clocks that an SM's tensor cores need for a k-block, at 4096 products per clock for fp8 and half of that for bf16.
constexpr int tensor_clocks(const Tile& tile) { return tile.shape.m * tile.shape.n / 32 * k_boxes(tile); }

// ---- Scales

constexpr bool scales_in_mainloop(const Tile& tile) {
    return operand_a(tile).scaled_in_mainloop() || operand_b(tile).scaled_in_mainloop();
}
constexpr bool scales_mma_rows(const Tile& tile) { return mma_a(tile).has_row_scales(); }
/// Column scales are the costly ones: every warp reads the scales of all columns of the accumulators.
constexpr bool scales_mma_columns(const Tile& tile) { return mma_b(tile).has_row_scales(); }
constexpr bool has_row_scales(const Tile& tile) { return scales_mma_rows(tile) || scales_mma_columns(tile); }
constexpr bool has_block_scales(const Tile& tile) { return tile.b.scaling == Scaling::block_128x128; }
/// Whether rows have epilogue scales: scales of rows or of the tensor, or the factors of MXFP4's rows.
constexpr bool scales_rows_at_end(const Tile& tile) {
    return tile.a.scaling == Scaling::epilogue || tile.b.scaling == Scaling::epilogue ||
           tile.b.scaling == Scaling::factor;
}
/// Whether scales in the mainloop leave a power of two to the epilogue, because there are also epilogue scales
/// (`CanonicalOrder::defers`).
constexpr bool defers_scales(const Tile& tile) {
    return (scales_rows_at_end(tile) || ends_with_tensor_scale(tile)) && has_row_scales(tile);
}
constexpr bool defers_scales_of_a(const Tile& tile) { return defers_scales(tile) && operand_a(tile).has_row_scales(); }
constexpr bool defers_scales_of_b(const Tile& tile) { return defers_scales(tile) && operand_b(tile).has_row_scales(); }
constexpr bool has_epilogue_scales(const Tile& tile) {
    return scales_rows_at_end(tile) || ends_with_tensor_scale(tile);
}

/// Columns of D that share one 128x128 scale wherever the tile begins: a power of two.
constexpr int columns_per_block_scale(const Tile& tile) {
    int columns = 128;
    while (d_columns(tile) % columns != 0) columns /= 2;
    return columns;
}
constexpr int block_scales_per_k_block(const Tile& tile) { return d_columns(tile) / columns_per_block_scale(tile); }

/// Whether fast kernels load row scales by ordinary loads. The fast kernels of swap-AB and split-K tiles also serve
/// one-byte scales, so they keep the ordinary loads. Kernels with 128x128 scales of A need them too, because nothing
/// else repeats these scales per row.
constexpr bool fast_loads_row_scales(const Tile& tile) {
    return !has_k_major_scales(tile) && (tile.swap_ab || splits_k(tile) || operand_a(tile).spreads_scales);
}
/// K-major kernels copy the scales that TMA cannot load (mainloop/scales_copy.h). The copy serves all strides of f32
/// and takes no registers. Kernels for D of f32 have one variant for all orders, and copy all scales that TMA does not
/// load along m.
constexpr bool copies_row_scales(const Tile& tile) {
    return has_k_major_scales(tile) || (stores_f32(tile) && has_row_scales(tile) && !operand_a(tile).spreads_scales);
}
/// Whether the kernel contains code that loads 1x128 scales without TMA.
constexpr bool may_load_row_scales(const Tile& tile) {
    return !is_fast(tile) || fast_loads_row_scales(tile) || copies_row_scales(tile);
}

/// Whether scales of A are loaded for four k-blocks at once, with the stage of the first k-block. They stay K-major,
/// because TMA moves at least 16 bytes of a row. Four kinds of tiles do not load them so:
///
/// - Split-K, because a slice may begin between two multiples of 16 bytes.
/// - Swap-AB, because four scales per column would take all registers.
/// - Tiles with one warpgroup, which become up to 24 % slower at short k.
/// - k-grouped tiles, whose groups begin at any k-block.
///
/// Their scales are copied k-block by k-block to the places that the kernel of M-major scales uses, so that the
/// mainloops do not change. (Large tiles lose 3 to 20 % by such copies.)
constexpr bool loads_scales_by_four(const Tile& tile) {
    return has_k_major_scales(tile) && !tile.swap_ab && !splits_k(tile) && tile.shape.warpgroups > 1 &&
           !is_k_grouped(tile);
}
constexpr int k_blocks_per_scale_copy(const Tile& tile) { return loads_scales_by_four(tile) ? 4 : 1; }
/// Whether the kernel contains code that loads 1x128 scales by TMA, which cannot repeat 128x128 scales per row.
constexpr bool may_load_row_scales_by_tma(const Tile& tile) {
    return has_row_scales(tile) && !promotes_each_step(tile) &&
           (!has_k_major_scales(tile) || loads_scales_by_four(tile)) && !operand_a(tile).spreads_scales;
}
/// Bytes of scales of A for a tile that loads `rows` rows of A. Scales that are adjacent along m are one row to TMA,
/// which is always whole. Grouped tiles have one box, of all rows.
constexpr int a_scale_copy_bytes(const Tile& tile, int rows) {
    const int whole = operand_a(tile).scale_bytes() * k_blocks_per_scale_copy(tile);
    return is_grouped(tile) || !loads_scales_by_four(tile) ? whole : rows * k_blocks_per_scale_copy(tile) * 4;
}
constexpr int b_scale_copy_bytes(const Tile& tile) { return operand_b(tile).scale_bytes(); }

}  // namespace tilewright::hopper
