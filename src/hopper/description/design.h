// Everything that follows from a kernel's description. Device code takes a `Design` as its template parameter, and the
// planner prices candidates by it, so that the two cannot differ.
//
// Four structs, each of which extends the one above it: a fact can only depend on facts above it. A struct's
// constructor computes its fields.
//
//   Kernel                the description
//   1. StageDesign        feed, elements of k in a stage, rows and columns of D, the share of a warpgroup
//   2. OperandDesign      rows and bytes of each operand, its scales and their way
//   3. BlockDesign        memory to stage D, shared memory, threads and their registers
//   4. Design             loop, wgmmas, partial accumulators
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

// ---- The way of the values, and the mainloop

/// The way of an operand's values to the tensor core.
enum class FeedKind : unsigned char {
    shared,  // mma A and mma B from shared memory; K-major.
    // mma A is MN-major: it passes through registers, which ldmatrix and byte permutes fill along k.
    transposed,
    decoded,          // mma A is packed: its values become e4m3 in registers.
    windowed,         // As decoded, but one exponent window of values at a time.
    decoded_to_bf16,  // mma A is packed for bf16: one box of k at a time, or both boxes of a k-block with scales.
};

/// How k-blocks are promoted: the mainloop of rows that are not wide, if sums have chains of 128.
enum class Loop : unsigned char {
    k_blocks,      // Subtiles take turns in one partial accumulator.
    in_fours,      // The same with one subtile: k-blocks in fours without an exit.
    filling_next,  // The fragments of the next 64 rows are made while these rows are multiplied.
    two_partials,  // The tensor core works on two partial accumulators.
};

// ---- 1. A stage, and the tile of D

struct StageDesign : Kernel {
    FeedKind feed = FeedKind::shared;
    /// Elements of k in a stage: as many as a packed tile has. With bf16 on both sides there are half of them, in as
    /// many bytes as fp8. With twice as many bytes, only one stage of 128x256 would fit in addition to D.
    int stage_k = packed_k;
    int k_boxes = 0;  // TMA boxes of a row's k in a stage, 128 bytes each

    int d_rows = 0;
    int d_columns = 0;
    int rows_per_warpgroup = 0;  // of mma A
    int accumulator_registers = 0;
    /// Warpgroups whose rows all follow the end of D, or of a group, neither multiply nor store.
    bool skips_rows = false;
    /// TMA boxes of A whose rows all follow the end of a group are not loaded.
    bool skips_boxes = false;

    constexpr explicit StageDesign(const Kernel& kernel) : Kernel{kernel} {
        const bool doubled = order.step == StepKind::bf16;
        const Side& rows = swap_ab ? b : a;  // of mma A
        if (rows.form == Form::columns) {
            feed = FeedKind::transposed;
        } else if (rows.is_packed() && !doubled) {
            feed = wide_rows ? FeedKind::windowed : FeedKind::decoded;
        } else if (rows.is_packed()) {
            feed = FeedKind::decoded_to_bf16;
        }
        if (doubled && !b.is_packed()) stage_k = 64;
        k_boxes = stage_k * (doubled ? 2 : 1) / row_bytes;
        d_rows = swap_ab ? shape.n : shape.m;
        d_columns = swap_ab ? shape.m : shape.n;
        rows_per_warpgroup = shape.m / shape.warpgroups;
        accumulator_registers = rows_per_warpgroup * shape.n / warpgroup_threads;
        skips_rows = shape.warpgroups > 1 && !swap_ab && cluster.k_slices == 1;
        skips_boxes = groups == Groups::rows && (skips_rows || (swap_ab && shape.n > token_box_rows));
    }

    /// Clocks that an SM's tensor cores need for a k-block, at 4096 products per clock for fp8 and half of that for
    /// bf16.
    constexpr int tensor_clocks() const { return shape.m * shape.n / 32 * k_boxes; }
};

// ---- 2. Operands and their scales

/// An operand as the loads see it.
struct OperandTile {
    Side side{};
    int box_rows = 0;     // of one TMA box
    int value_bytes = 0;  // in a stage
    /// Scales per row in a stage: 0, one per k-block, or one per step. 128x128 scales of B have a ring of chunks
    /// instead. Those of A are spread: each row gets its block's scale, as if they were 1x128 scales (scales_load.h).
    /// Scales of mma B are the costly ones: every warp reads those of all columns of the accumulators.
    int scales_of_row = 0;

    constexpr OperandTile(const StageDesign& d, bool of_a) : side(of_a ? d.a : d.b) {
        const int rows = of_a ? d.d_rows : d.d_columns;
        const int sharing = of_a ? d.cluster.columns : d.cluster.rows;  // blocks, each of which loads a part
        const int loaded_rows = rows / sharing;
        const int grouped_box = d.swap_ab ? token_box_rows : d.rows_per_warpgroup;
        const int limit = of_a && d.skips_boxes ? grouped_box : box_rows_limit;
        const int in_boxes = loaded_rows % limit == 0 ? limit : loaded_rows;
        box_rows = side.form == Form::columns ? mn_major_box : in_boxes;
        const int packed_tiles = rows / packed_rows;
        if (side.form == Form::rows_and_tiles) {
            value_bytes = round_up(rows * raw_row_bytes + packed_tiles * raw_tile_bytes, raw_alignment);
        } else if (side.form == Form::tiles) {
            const int windows = d.feed == FeedKind::windowed ? most_windows : 0;
            value_bytes = packed_tiles * packed_tile_bytes(side.scale_k, windows);
        } else {
            value_bytes = round_up(rows * d.k_boxes * row_bytes, tile_alignment);
        }
        // The mainloop reads scales from the stage: one per step, or one. 128x128 scales of B are read from chunks.
        if ((of_a ? d.order.a : d.order.b) == ScaleUse::chains)
            scales_of_row = d.order.chain == step_k ? d.stage_k / step_k : side.scale_rows == 1 || of_a ? 1 : 0;
    }
};

/// The ways of 1x128 scales, and of 1x32 scales, to shared memory. If there are two, the call decides.
struct ScaleRoute {
    bool tma = false;
    bool loads = false;
    bool copies = false;  // load/scales_copy.h
};

struct OperandDesign : StageDesign {
    OperandTile mma_a;
    OperandTile mma_b;
    /// 128x128 scales of B that a tile needs for a k-block; 0: none. Wherever it begins, each has as many of its
    /// columns: a power of two.
    int block_scales_per_k_block = 0;
    /// Scales multiply finished accumulators: scales of rows, of the tensor, or MXFP4's factors of rows. The scale of
    /// an NVFP4 tensor is one of them if the other side has scales (docs/numerics.md).
    bool has_epilogue_scales = false;
    ScaleRoute scale_route{};
    int k_blocks_per_scale_copy = 1;  // 4, or 1

    constexpr explicit OperandDesign(const Kernel& kernel)
        : StageDesign{kernel}, mma_a(*this, !swap_ab), mma_b(*this, swap_ab) {
        if (order.b == ScaleUse::chains && b.scale_rows > 1) {
            int columns = 128;
            while (d_columns % columns != 0) columns /= 2;
            block_scales_per_k_block = d_columns / columns;
        }
        has_epilogue_scales = order.has(ScaleUse::end) || order.folded != Folded::none || order.defers;

        // K-major scales of A are loaded for four k-blocks at once, with the stage of the first k-block. They stay
        // K-major, because TMA moves at least 16 bytes of a row. Four kinds of tiles do not load them so:
        //
        // - Split-K, because a slice may begin between two multiples of 16 bytes.
        // - Swap-AB, because four scales per column would take all registers.
        // - Tiles with one warpgroup, which become up to 24 % slower at short k.
        // - k-grouped tiles, whose groups begin at any k-block.
        //
        // Their scales are copied k-block by k-block to the places that the kernel of M-major scales uses, so that the
        // mainloops do not change. (Large tiles lose 3 to 20 % by such copies.)
        //
        // Kernels for K-major scales and for D of f32 copy what TMA cannot load (load/scales_copy.h): f32 in any
        // strides, which takes no registers. Kernels for bf16 of swap-AB and split-K tiles also serve one-byte scales,
        // and so have ordinary loads. 128x128 scales of A need these too, because nothing else repeats them per row.
        const bool splits = cluster.k_slices > 1;
        const bool by_four = scales_along_k && !swap_ab && !splits && shape.warpgroups > 1 && !is_k_grouped();
        k_blocks_per_scale_copy = by_four ? 4 : 1;
        const bool spreads = a.scale_rows > 1 && order.a == ScaleUse::chains;
        if (!order.has(ScaleUse::chains)) {
            scale_route = {};
        } else if (order.chain == step_k || spreads) {
            scale_route = {.loads = true};
        } else if (scales_along_k || output == Output::f32_by_tma) {
            scale_route = {.tma = !scales_along_k || by_four, .copies = true};
        } else {
            scale_route = {.tma = true, .loads = output == Output::any || swap_ab || splits};
        }
    }

    constexpr const OperandTile& operand_a() const { return swap_ab ? mma_b : mma_a; }
    constexpr const OperandTile& operand_b() const { return swap_ab ? mma_a : mma_b; }
};

// ---- 3. The block: the staged output, shared memory, threads and registers

struct BlockDesign : OperandDesign {
    int fragments_per_block = 0;  // split-K: fragments that a block reduces; the last block may have fewer
    /// Shared memory per warpgroup's D: the whole share in 16-bit elements, or 16 rows of 128 bytes per warp. Split-K:
    /// the fragments that the block reduces. D of f32: none, but an array has at least one element.
    int staging_bytes = 1;
    int shared_bytes = 0;  // sizeof(Shared<design>), which gemm.h asserts
    int threads = 0;
    int blocks_per_sm = 1;
    int producer_registers = 0;
    int consumer_registers = 0;
    int mma_register_budget = 0;  // registers of a consumer thread that the mma may use

    constexpr explicit BlockDesign(const Kernel& kernel) : OperandDesign{kernel} {
        const int slices = cluster.k_slices;
        fragments_per_block = ceil_div(accumulator_registers / fragment_elements, slices);
        if (output != Output::f32_by_tma) {
            const int all_slices = slices * fragments_per_block * warpgroup_threads * fragment_elements * 4;
            const int share = slices > 1 ? all_slices : rows_per_warpgroup * shape.n * 2;
            staging_bytes = round_up(max(share, warpgroup_warps * warp_rows * row_bytes), tile_alignment);
        }

        // The members of Shared in order, each at a multiple of its alignment. TMA writes scales to multiples of 128
        // bytes. An array has at least one element.
        constexpr int word = 4, barrier = 8;
        const int work_slots = groups == Groups::none ? 1 : work_tile_slots;
        int bytes = round_up(stages * mma_a.value_bytes, tile_alignment);
        bytes += stages * mma_b.value_bytes;
        bytes += shape.warpgroups * staging_bytes;
        bytes = round_up(bytes, 128) + stages * max(shape.m * mma_a.scales_of_row * k_blocks_per_scale_copy, 1) * word;
        bytes = round_up(bytes, 128) + stages * max(round_up(shape.n, 32) * mma_b.scales_of_row, 1) * word;
        bytes =
            round_up(bytes, 16) + scale_chunk_slots * max(block_scales_per_k_block * scale_chunk_k_blocks, 1) * word;
        bytes += epilogue_scale_slots * (has_epilogue_scales ? shape.m : 1) * word;
        bytes = round_up(bytes, 8) + epilogue_scale_slots * (has_epilogue_scales ? shape.n : 1) * word;
        bytes = round_up(bytes, barrier);
        bytes += ((output == Output::f32_by_tma ? stages : shape.warpgroups) + shape.warpgroups) * barrier;
        bytes += 2 * (stages + epilogue_scale_slots + scale_chunk_slots + work_slots) * barrier;
        bytes += barrier;
        bytes += work_slots * work_tile_words * word;
        bytes = round_up(bytes, barrier) + (2 + (is_k_grouped() ? stages : 0)) * barrier;
        bytes += wide_rows ? epilogue_scale_slots * shape.m / 32 * word : 0;
        shared_bytes = round_up(bytes, tile_alignment);

        threads = (producer_warps + shape.warpgroups * warpgroup_warps) * warp_threads;
        // With split-K two blocks, if they fit, because clusters of 4 and 8 leave some SMs without a block.
        const bool two_fit = 2 * (shared_bytes + 1024) <= shared_bytes_per_sm;
        blocks_per_sm = cluster.k_slices > 1 && shape.warpgroups == 1 && two_fit ? 2 : 1;
        // A launch gives every thread as many registers, in steps of 8. setmaxnreg can only move registers that it
        // allocated. A single consumer warpgroup has enough without it.
        const int launch_registers = min(registers_per_sm / (threads * blocks_per_sm) / 8 * 8, 248);
        producer_registers = consumer_registers = launch_registers;
        if (shape.warpgroups > 1) {
            // Producers that load 1x32 scales hold the scales of several k-blocks.
            producer_registers = shape.warpgroups > 2 ? 32 : order.chain == step_k ? 56 : 40;
            const int pool = launch_registers * threads - producer_registers * warpgroup_threads;
            consumer_registers = min(pool / (shape.warpgroups * warpgroup_threads) / 8 * 8, 240);
        }
        // Registers of a consumer thread that the mma cannot use: addresses, scales, the state of the loop. Epilogue
        // scales take some more if alpha and C do too. As NVRTC 13.0 compiles the loops, two kinds differ. Loops that
        // decode to bf16 and promote k-blocks have fewer: 256x64 of four warpgroups has wgmmas of 32 columns without
        // spills. Loops that promote steps of bf16 on both sides have more (64x192 of grouped kernels).
        const bool bf16 = order.step == StepKind::bf16, steps = order.chain == step_k;
        const bool scales_rows_at_end = order.has(ScaleUse::end) || order.folded == Folded::b;
        int others = 32;
        if (bf16 && steps && !b.is_packed()) others += 8;
        if (bf16 && !steps && order.has(ScaleUse::chains)) others -= 8;
        if (scales_rows_at_end && output == Output::any) others += 16;
        mma_register_budget = consumer_registers - others;
    }

    /// A store has 64 rows (swap-AB: the rows of all tokens).
    constexpr int store_rows() const { return swap_ab ? shape.n : wgmma_m; }
    /// Columns of a TMA store of a warpgroup's share: as many elements as fit in 128 bytes and divide the share.
    constexpr int store_columns(int element_bytes) const {
        const int share = swap_ab ? rows_per_warpgroup : shape.n;
        int columns = store_row_bytes / element_bytes;
        while (share % columns != 0) columns -= 8;
        return columns;
    }
    /// Whether TMA can store such elements. 16-bit elements are staged 16 columns at a time, 32-bit elements 32.
    /// stmatrix transposes only 16-bit elements. With split-K, threads store them, in pairs that ask the same of D.
    constexpr bool stores_by_tma(int element_bytes) const {
        if (swap_ab || cluster.k_slices > 1) return element_bytes == 2;
        return shape.n % (element_bytes == 2 ? 16 : 32) == 0;
    }
};

// ---- 4. The mainloop

struct Design : BlockDesign {
    Loop loop = Loop::k_blocks;
    int mma_registers = 0;  // accumulators, partial sums and what feeds them
    int wgmmas_along_n = 1;
    int wgmma_n = 0;
    int subtiles = 0;  // of a warpgroup: 64 rows and wgmma_n columns, one wgmma each
    bool fills_next_window = false;

    constexpr explicit Design(const Kernel& kernel) : BlockDesign{kernel} {
        const bool scales = order.has(ScaleUse::chains), promotes_k_blocks = order.chain > step_k;
        // Registers per thread for 64 rows of mma A and one box of k, or both boxes.
        const int boxes = feed == FeedKind::decoded_to_bf16 && promotes_k_blocks ? k_boxes : 1;
        const int feed_registers = feed == FeedKind::shared ? 0 : boxes * wgmma_steps * fragment_words;
        // Registers of the partial sums, with wgmmas of `columns` columns. If k-blocks are promoted, they are in
        // `partials` partial accumulators.
        const auto partial_registers = [&](int columns, int partials = 1) {
            const int of_columns = mma_b.scales_of_row > 0 ? columns / 4 : 0;  // scales, which are read in advance
            if (order.chain == step_k) {
                // Two partial accumulators, the fragments of a step that feed them, and the scales of one's columns.
                // Both halves of 128 rows share these scales. (A k-block's values count among the other registers of a
                // thread.)
                const int fragments =
                    feed == FeedKind::shared ? 0 : (order.step == StepKind::bf16 ? 2 : 1) * fragment_words;
                return 2 * (columns / 2 + fragments) + of_columns;
            }
            if (order.chain != 0) return partials * (columns / 2 + feed_registers + of_columns);
            // Without promotion, a k-block's wgmmas are issued while the previous k-block's wgmmas run. Wide rows with
            // bf16: the fragments, and a partial accumulator or the saved sums of a subtile in its place.
            const int fragments = rows_per_warpgroup / wgmma_m * feed_registers;
            return fragments + (wide_rows ? max(fragments, columns / 2) : fragments);
        };

        // If accumulators are promoted, n is halved until a partial accumulator fits in addition. (Two of them, one
        // promoted while the next is multiplied, gained nothing: docs/experiments/004-one-accumulator.md.) Without
        // promotion, all subtiles of a k-block are issued together.
        const bool keeps_sums = order.chain == 0 && !wide_rows;
        const auto fits = [&](int columns) {
            return accumulator_registers + partial_registers(columns) <= mma_register_budget;
        };
        while (!keeps_sums && wgmmas_along_n < 4 && !fits(shape.n / wgmmas_along_n) &&
               shape.n % (16 * wgmmas_along_n) == 0) {
            wgmmas_along_n *= 2;
        }
        wgmma_n = shape.n / wgmmas_along_n;
        subtiles = rows_per_warpgroup / wgmma_m * wgmmas_along_n;

        // Two partial accumulators, on which the tensor core works at once (multiply/two_partials.h). Several subtiles,
        // or several warpgroups, fill each other's pauses. The pauses of swap-AB tiles, which read column scales or
        // decode, are longer.
        const bool decodes = b.is_packed(), transposes = feed == FeedKind::transposed;
        const bool pauses = scales && order.chain == stage_k && (shape.n * shape.warpgroups <= 192 || decodes);
        const bool by_itself = shape.warpgroups == 1 || swap_ab;
        const int decoding = decodes ? 16 : 0;  // values, scales and tables
        const int of_two = accumulator_registers + partial_registers(shape.n, 2) + decoding;
        const bool as_two = subtiles == 1 && pauses && by_itself && !transposes && of_two <= mma_register_budget;
        // The fragments of the next 64 rows are made in other registers while these rows are multiplied, if there are
        // registers for both (multiply/fill_next.h). Kernels that scale MN-major operands in their loop differ, as
        // NVRTC 13.0 compiles them. Kernels for bf16 of 256x128 do not spill with 8 more registers; others must leave 8
        // free.
        const bool large = rows_per_warpgroup > wgmma_m && wgmmas_along_n > 1;
        const int spare = !transposes || !scales ? 0 : output != Output::any && large ? 8 : -8;
        const bool makes_fragments = transposes || feed == FeedKind::decoded || feed == FeedKind::windowed;
        const int of_both = accumulator_registers + partial_registers(wgmma_n) + feed_registers;
        const bool fills = makes_fragments && k_blocks_per_scale_copy != 4 && of_both <= mma_register_budget + spare;
        // In fours without an exit (multiply/mainloop.h), except three kinds of tiles. With K-major scales the compiler
        // would read the scales of all four k-blocks ahead, for which there are not enough registers. Without scales it
        // moves partial sums. With swap-AB a k-block's 128x128 scale is needed until its promotion, but the loop reads
        // the next scale earlier.
        const bool in_fours = subtiles == 1 && scales && k_blocks_per_scale_copy == 1 && !swap_ab;
        if (promotes_k_blocks) {
            loop = as_two     ? Loop::two_partials
                   : fills    ? Loop::filling_next
                   : in_fours ? Loop::in_fours
                              : Loop::k_blocks;
        }
        mma_registers = accumulator_registers + partial_registers(wgmma_n, loop == Loop::two_partials ? 2 : 1);
        // Warpgroups with wide rows also hold the exponents of windows, and the column scales if these are epilogue
        // scales for other rows.
        constexpr int exponents = 8;
        const int with_window = accumulator_registers + wgmma_n / 2 + wgmma_n / 4 + 2 * feed_registers + exponents;
        fills_next_window = feed == FeedKind::windowed && promotes_k_blocks && with_window <= mma_register_budget;
    }
};

// ---- Values that also depend on a warp, a lane or a number of rows

/// The first of the two rows of a warp's 16 that a lane's accumulators have, and the distance to the second row. Pairs
/// of bytes, which are two adjacent rows of an MN-major operand, are transposed by ldmatrix. For r and r + 8 of a
/// warp's 16 rows, the tensor core therefore takes rows 2 r and 2 r + 1. Only the epilogue and row scales see this.
constexpr int fragment_row(const Design& design, int lane) {
    return design.feed == FeedKind::transposed ? lane / 4 * 2 : lane / 4;
}
constexpr int fragment_row_step(const Design& design) { return design.feed == FeedKind::transposed ? 1 : 8; }

/// Rows of A that a dense tile with `rows` rows of D loads. TMA takes more time for rows outside of a tensor than for
/// rows inside, so that the tile loads exactly `rows` rows. If blocks share A, it loads as many rows as make equal
/// shares of whole swizzle patterns. A box of an MN-major operand has adjacent rows in a line of memory, and is always
/// whole.
constexpr int rows_of_a(const Design& design, int rows) {
    constexpr int pattern = 8;
    if (design.a.form == Form::columns) return design.d_rows;
    const int sharing = design.cluster.columns;
    return min(sharing > 1 ? round_up(rows, pattern * sharing) : rows, design.d_rows);
}

}  // namespace tilewright::hopper
