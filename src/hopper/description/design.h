// Everything that follows from a kernel's description, computed once, in order of dependency. Device code takes a
// `Design` as its template parameter, and the planner prices candidates by it, so that the two cannot differ.
#pragma once

#include "base/math.h"
#include "formats/packed_tile.h"
#include "hopper/description/kernel.h"

namespace tilewright::hopper {

// ---- Constants of the hardware and of layouts

inline constexpr int producer_warps = 4;           // one warpgroup, so that setmaxnreg can take its registers
inline constexpr int wgmma_m = 64;                 // Rows of a wgmma.
inline constexpr int wgmma_k_bytes = 32;           // Bytes of k in a wgmma.
inline constexpr int warp_rows = 16;               // Rows of a wgmma in a warp's registers.
inline constexpr int fragment_words = 4;           // per thread, for 64 x 32 bytes of mma A
inline constexpr int fragment_elements = 4;        // per thread, of 64 x 8 accumulators
inline constexpr int registers_per_sm = 65536;     // 32-bit (CUDA C++ programming guide, 17.7)
inline constexpr int shared_bytes_limit = 232448;  // Per block on sm_90 (same section).
// Per SM. A block takes 1 KB more than it requests (same section).
inline constexpr int shared_bytes_per_sm = 233472;

inline constexpr int row_bytes = 128;  // Bytes of an operand's row in a box: the width of the swizzle.
inline constexpr int wgmma_steps = row_bytes / wgmma_k_bytes;  // wgmmas per subtile and box of k
inline constexpr int store_row_bytes = row_bytes;              // of D in one TMA store, at most
inline constexpr int tile_alignment = 1024;                    // Alignment of swizzled shared memory.
inline constexpr int raw_alignment = 512;   // The same for values read in place, whose swizzle is half as wide.
inline constexpr int box_rows_limit = 256;  // Rows of one TMA box.
inline constexpr int mn_major_box = 128;    // Rows of an MN-major operand in one TMA box: the width of the swizzle.
inline constexpr int token_box_rows = 32;   // Rows of a TMA box of tokens, if groups end anywhere.

using formats::most_windows, formats::packed_code_bytes, formats::packed_k, formats::packed_rows;
using formats::packed_tile_bytes, formats::packed_window_bytes, formats::windows_head_bytes;
inline constexpr int raw_row_bytes = packed_k / 2;  // Values read in place, in a stage: the width of their swizzle.
inline constexpr int raw_tile_bytes = packed_tile_bytes(step_k, most_windows) - packed_code_bytes;

inline constexpr int epilogue_scale_slots = 2;   // Tiles whose epilogue scales are loaded ahead.
inline constexpr int scale_chunk_slots = 4;      // Chunks of 128x128 scales that are loaded ahead.
inline constexpr int scale_chunk_k_blocks = 32;  // K-blocks in a chunk: one per lane.
inline constexpr int work_tile_slots = 4;        // Work tiles that the scheduler produces ahead.
inline constexpr int work_tile_words = 8;        // Words per work tile.

// ---- What is computed

/// The way of an operand's values to the tensor core.
enum class FeedKind : unsigned char {
    shared,  // mma A and mma B from shared memory; K-major.
    // mma A is MN-major: it passes through registers, which ldmatrix and byte permutes fill along k.
    transposed,
    decoded,          // mma A is packed: its values become e4m3 in registers.
    windowed,         // As decoded, but one exponent window of values at a time.
    decoded_to_bf16,  // mma A is packed for bf16: one box of k at a time.
    k_block_to_bf16,  // As decoded_to_bf16 with scales per k-block: both boxes of the k-block.
};

/// The mainloop of rows that are not wide.
enum class Loop : unsigned char {
    unpromoted,    // The tensor core adds all of k.
    steps,         // Each 32 k-elements are promoted with their scales.
    k_blocks,      // Each k-block is promoted; subtiles take turns in one partial accumulator.
    in_fours,      // The same with one subtile: k-blocks in fours without an exit.
    filling_next,  // The fragments of the next 64 rows are made while these rows are multiplied.
    two_partials,  // The tensor core works on two partial accumulators.
};

/// The ways of 1x128 scales, and of 1x32 scales, to shared memory. If there are two, the call decides.
struct ScaleRoute {
    bool tma = false;
    bool loads = false;
    bool copies = false;  // load/scales_copy.h
};

/// An operand as the loads see it.
struct OperandTile {
    Side side{};
    int rows = 0;          // in a stage
    int loaded_rows = 0;   // by this block; its peers load the rest of a shared operand
    int box_rows = 0;      // of one TMA box
    int value_bytes = 0;   // in a stage
    int loaded_bytes = 0;  // in a stage
    /// Scales per row in a stage: 0, one per k-block, or one per step. 128x128 scales of B have a ring of chunks
    /// instead. Those of A are spread: each row gets its block's scale, as if they were 1x128 scales (scales_load.h).
    /// Scales of mma B are the costly ones: every warp reads those of all columns of the accumulators.
    int scales_of_row = 0;
    int scales_in_stage = 0;  // floats of memory for them

    constexpr int scale_bytes() const { return rows * scales_of_row * 4; }
};

/// The TMA stores of a warpgroup's share of D, by the bytes of an element.
struct StoreBox {
    int columns = 0;  // of one store: as many as fit in 128 bytes and divide the share
    int pitch = 0;    // bytes of a row of it
    bool swizzled = false;
    int per_share = 0;  // stores along the share's columns; a warpgroup of 128 rows has two of each
    int at_once = 0;    // stores that are staged together
    bool possible = false;
};

struct Design : Kernel {
    // -- 1. A stage, and the way of its values. Elements of k: as many as a packed tile has. With bf16 on both sides
    // there are half of them, in as many bytes as fp8. With twice as many bytes, only one stage of 128x256 would fit in
    // addition to D.
    FeedKind feed = FeedKind::shared;
    int stage_k = 0;
    int k_boxes = 0;  // TMA boxes of a row's k in a stage, 128 bytes each

    // -- 2. The tile of D, and a warpgroup's share of it.
    int d_rows = 0;
    int d_columns = 0;
    int rows_per_warpgroup = 0;  // of mma A
    int share_rows = 0;          // of D
    int accumulator_registers = 0;
    /// Warpgroups whose rows all follow the end of D, or of a group, neither multiply nor store.
    bool skips_rows = false;
    /// TMA boxes of A whose rows all follow the end of a group are not loaded.
    bool skips_boxes = false;

    // -- 3. Operands and their scales.
    OperandTile mma_a{};
    OperandTile mma_b{};
    /// 128x128 scales of B that a tile needs for a k-block; 0: none. Wherever it begins, each has as many of its
    /// columns: a power of two.
    int block_scales_per_k_block = 0;
    /// Scales multiply finished accumulators: scales of rows, of the tensor, or MXFP4's factors of rows. The scale of
    /// an NVFP4 tensor is one of them if the other side has scales (docs/numerics.md).
    bool has_epilogue_scales = false;
    bool scales_alpha = false;  // The scale of an NVFP4 tensor is a part of alpha.
    ScaleRoute scale_route{};
    int k_blocks_per_scale_copy = 1;  // 4, or 1

    // -- 4. Threads and registers.
    int threads = 0;
    int blocks_per_sm = 1;
    int launch_registers = 0;  // that a launch gives every thread, in steps of 8
    int producer_registers = 0;
    int consumer_registers = 0;
    int mma_register_budget = 0;  // registers of a consumer thread that the mma may use

    // -- 5. The mainloop.
    Loop loop = Loop::k_blocks;
    int held_rows = 0;      // of mma A that a feed holds in registers at once
    int mma_registers = 0;  // accumulators, partial sums and what feeds them
    int wgmmas_along_n = 1;
    int wgmma_n = 0;
    int subtiles = 0;  // of a warpgroup: 64 rows and wgmma_n columns, one wgmma each
    bool fills_next_window = false;

    // -- 6. The output.
    int fragments_per_block = 0;  // split-K: fragments that a block reduces; the last block may have fewer
    int staging_bytes = 0;        // shared memory per warpgroup's D
    int f32_parts = 0;            // of D of f32 per warpgroup: 64 rows and 32 columns
    int f32_parts_per_stage = 0;  // per warpgroup: first in the values of mma A, then in those of mma B
    int output_stages = 0;        // that hold a tile of C and D

    // -- 7. Shared memory.
    int shared_bytes = 0;  // sizeof(Shared<design>), which gemm.h asserts

    constexpr const OperandTile& operand_a() const { return swap_ab ? mma_b : mma_a; }
    constexpr const OperandTile& operand_b() const { return swap_ab ? mma_a : mma_b; }
    constexpr bool has_row_scales() const { return mma_a.scales_of_row > 0 || mma_b.scales_of_row > 0; }
    /// Rows may be wide, and are then promoted after each 32 k-elements (bf16; multiply/wide_rows.h). Wide
    /// rows of fp8 are multiplied in exponent windows, by the feed `windowed`.
    constexpr bool has_wide_steps() const { return wide_rows && order.step == StepKind::bf16; }
    constexpr int value_bytes_per_stage() const { return mma_a.loaded_bytes + mma_b.loaded_bytes; }
    /// Clocks that an SM's tensor cores need for a k-block, at 4096 products per clock for fp8 and half of that for
    /// bf16.
    constexpr int tensor_clocks() const { return shape.m * shape.n / 32 * k_boxes; }
};

// ---- Values that also depend on a warp, a lane or a number of rows

/// The first of the two rows of a warp's 16 that a lane's accumulators have, and the distance to the second row. Pairs
/// of bytes, which are two adjacent rows of an MN-major operand, are transposed by ldmatrix. For r and r + 8 of a
/// warp's 16 rows, the tensor core therefore takes rows 2 r and 2 r + 1. Only the epilogue and row scales see this.
constexpr int fragment_row(const Design& design, int lane) {
    return design.feed == FeedKind::transposed ? lane / 4 * 2 : lane / 4;
}
constexpr int fragment_row_step(const Design& design) { return design.feed == FeedKind::transposed ? 1 : 8; }

/// Where a warpgroup's share of the tile of D begins.
constexpr int share_row(const Design& design, int warpgroup) {
    return design.swap_ab ? 0 : warpgroup * design.share_rows;
}
constexpr int share_column(const Design& design, int warpgroup) {
    return design.swap_ab ? warpgroup * design.rows_per_warpgroup : 0;
}

/// Rows of A that a dense tile with `rows` rows of D loads. TMA takes more time for rows outside of a tensor than for
/// rows inside, so that the tile loads exactly `rows` rows. If blocks share A, it loads as many rows as make equal
/// shares of whole swizzle patterns. A box of an MN-major operand has adjacent rows in a line of memory, and is always
/// whole.
constexpr int rows_of_a(const Design& design, int rows) {
    constexpr int pattern = 8;
    const OperandTile& a = design.operand_a();
    if (a.side.form == Form::columns) return design.d_rows;
    const bool shared = design.cluster.use == ClusterUse::share_a;
    return min(shared ? round_up(rows, pattern * design.cluster.size) : rows, design.d_rows);
}

/// D of f32 leaves through the ring of k-blocks: after a tile's k-blocks some stages hold C, which is replaced by D. A
/// part of D has 64 rows and 32 columns of a warpgroup's share.
inline constexpr int f32_part_columns = store_row_bytes / 4;
inline constexpr int f32_part_bytes = wgmma_m * store_row_bytes;
/// Parts per warpgroup in the `index`-th of these stages.
constexpr int f32_parts_of_stage(const Design& design, int index) {
    return min(design.f32_parts - index * design.f32_parts_per_stage, design.f32_parts_per_stage);
}

/// A store has 64 rows (swap-AB: the rows of all tokens). 16-bit elements are staged 16 columns at a time, 32-bit
/// elements 32. stmatrix transposes only 16-bit elements.
constexpr int store_rows(const Design& design) { return design.swap_ab ? design.shape.n : wgmma_m; }
constexpr StoreBox store_of(const Design& design, int element_bytes) {
    const int share_columns = design.swap_ab ? design.rows_per_warpgroup : design.shape.n;
    StoreBox store{.columns = store_row_bytes / element_bytes};
    while (share_columns % store.columns != 0) store.columns -= 8;
    store.pitch = store.columns * element_bytes;
    store.swizzled = store.pitch == store_row_bytes;
    store.per_share = share_columns / store.columns;
    store.at_once = min(design.staging_bytes / (design.share_rows * store.pitch), store.per_share);
    store.possible = design.swap_ab || design.cluster.k_slices() > 1
                         ? element_bytes == 2
                         : design.shape.n % (element_bytes == 2 ? 16 : 32) == 0;
    return store;
}

}  // namespace tilewright::hopper
