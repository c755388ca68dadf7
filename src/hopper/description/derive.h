// Computes a kernel's design: six functions, each from facts of those above it. Their numbers are the sections of
// design.h.
#pragma once

#include "hopper/description/design.h"

namespace tilewright::hopper {

// ---- 1 and 2. The stage and the tile of D

constexpr void derive_tile(Design& d) {
    const bool doubled = d.order.step == StepKind::bf16;
    const Side& rows = d.swap_ab ? d.b : d.a;  // of mma A
    if (rows.form == Form::columns) {
        d.feed = FeedKind::transposed;
    } else if (rows.is_packed() && !doubled) {
        d.feed = d.wide_rows ? FeedKind::windowed : FeedKind::decoded;
    } else if (rows.is_packed()) {
        const bool promotes_k_blocks = d.order.has(ScaleUse::chains) && d.order.chain != step_k;
        d.feed = promotes_k_blocks ? FeedKind::k_block_to_bf16 : FeedKind::decoded_to_bf16;
    }
    d.stage_k = doubled && !d.b.is_packed() ? 64 : packed_k;
    d.k_boxes = d.stage_k * (doubled ? 2 : 1) / row_bytes;
    d.d_rows = d.swap_ab ? d.shape.n : d.shape.m;
    d.d_columns = d.swap_ab ? d.shape.m : d.shape.n;
    d.rows_per_warpgroup = d.shape.m / d.shape.warpgroups;
    d.share_rows = d.swap_ab ? d.shape.n : d.rows_per_warpgroup;
    d.accumulator_registers = d.rows_per_warpgroup * d.shape.n / warpgroup_threads;
    d.skips_rows = d.shape.warpgroups > 1 && !d.swap_ab && d.cluster.k_slices() == 1;
    d.skips_boxes = d.groups == Groups::rows && (d.skips_rows || (d.swap_ab && d.shape.n > token_box_rows));
}

// ---- 3. Operands and scales

constexpr OperandTile operand_of(const Design& d, const Side& side, ScaleUse use, bool of_a) {
    OperandTile operand{.side = side, .rows = of_a ? d.d_rows : d.d_columns};
    const bool shared = d.cluster.use == (of_a ? ClusterUse::share_a : ClusterUse::share_b);
    operand.loaded_rows = shared ? operand.rows / d.cluster.size : operand.rows;
    const int grouped_box = d.swap_ab ? token_box_rows : d.rows_per_warpgroup;
    const int limit = of_a && d.skips_boxes ? grouped_box : box_rows_limit;
    const int in_boxes = operand.loaded_rows % limit == 0 ? limit : operand.loaded_rows;
    operand.box_rows = side.form == Form::columns ? mn_major_box : in_boxes;
    const int packed_tiles = operand.rows / packed_rows;
    if (side.form == Form::rows_and_tiles) {
        operand.loaded_bytes = operand.rows * raw_row_bytes + packed_tiles * raw_tile_bytes;
        operand.value_bytes = round_up(operand.loaded_bytes, raw_alignment);
    } else if (side.form == Form::tiles) {
        operand.loaded_bytes =
            packed_tiles * packed_tile_bytes(side.scale_k, d.feed == FeedKind::windowed ? most_windows : 0);
        operand.value_bytes = operand.loaded_bytes;
    } else {
        operand.loaded_bytes = operand.rows * d.k_boxes * row_bytes;
        operand.value_bytes = round_up(operand.loaded_bytes, tile_alignment);
    }
    // The mainloop reads scales from the stage: one per step, or one. 128x128 scales of B are read from chunks.
    if (use == ScaleUse::chains)
        operand.scales_of_row = d.order.chain == step_k ? d.stage_k / step_k : side.scale_rows == 1 || of_a ? 1 : 0;
    return operand;
}

/// K-major scales of A are loaded for four k-blocks at once, with the stage of the first k-block. They stay K-major,
/// because TMA moves at least 16 bytes of a row. Four kinds of tiles do not load them so:
///
/// - Split-K, because a slice may begin between two multiples of 16 bytes.
/// - Swap-AB, because four scales per column would take all registers.
/// - Tiles with one warpgroup, which become up to 24 % slower at short k.
/// - k-grouped tiles, whose groups begin at any k-block.
///
/// Their scales are copied k-block by k-block to the places that the kernel of M-major scales uses, so that the
/// mainloops do not change. (Large tiles lose 3 to 20 % by such copies.)
///
/// Kernels for K-major scales and for D of f32 copy what TMA cannot load (load/scales_copy.h): f32 in any strides,
/// which takes no registers. Kernels for bf16 of swap-AB and split-K tiles also serve one-byte scales, and so have
/// ordinary loads. 128x128 scales of A need these too, because nothing else repeats them per row.
constexpr void derive_scale_route(Design& d) {
    const bool splits = d.cluster.k_slices() > 1;
    const bool by_four = d.scales_along_k && !d.swap_ab && !splits && d.shape.warpgroups > 1 && !d.is_k_grouped();
    d.k_blocks_per_scale_copy = by_four ? 4 : 1;
    if (!d.has_row_scales()) return;
    const bool spreads = d.a.scale_rows > 1 && d.order.a == ScaleUse::chains;
    if (d.order.chain == step_k || spreads) {
        d.scale_route = {.loads = true};
    } else if (d.scales_along_k || d.output == Output::f32_by_tma) {
        d.scale_route = {.tma = !d.scales_along_k || by_four, .copies = true};
    } else {
        d.scale_route = {.tma = true, .loads = d.output == Output::any || d.swap_ab || splits};
    }
}

constexpr void derive_operands(Design& d) {
    const OperandTile a = operand_of(d, d.a, d.order.a, true), b = operand_of(d, d.b, d.order.b, false);
    d.mma_a = d.swap_ab ? b : a;
    d.mma_b = d.swap_ab ? a : b;
    if (d.order.b == ScaleUse::chains && d.b.scale_rows > 1) {
        int columns = 128;
        while (d.d_columns % columns != 0) columns /= 2;
        d.block_scales_per_k_block = d.d_columns / columns;
    }
    const bool nvfp4 = d.a.is_nvfp4() || d.b.is_nvfp4(), folds = d.order.folded != Folded::none;
    d.has_epilogue_scales = d.order.has(ScaleUse::end) || folds || (nvfp4 && d.order.has(ScaleUse::chains));
    d.scales_alpha = nvfp4 && !d.has_epilogue_scales;
    derive_scale_route(d);
}

// ---- 6, because shared memory limits the blocks of an SM, and these limit registers. The output

constexpr void derive_output(Design& d) {
    const bool f32 = d.output == Output::f32_by_tma;
    d.fragments_per_block = ceil_div(d.accumulator_registers / fragment_elements, d.cluster.k_slices());
    const int all_slices = d.cluster.k_slices() * d.fragments_per_block * warpgroup_threads * fragment_elements * 4;
    // The whole share in 16-bit elements, or 16 rows of 128 bytes per warp. Split-K: the fragments that the block
    // reduces. D of f32: none, but an array has at least one element.
    const int scratch = warpgroup_warps * warp_rows * row_bytes;
    const int share = d.cluster.k_slices() > 1 ? all_slices : d.rows_per_warpgroup * d.shape.n * 2;
    d.staging_bytes = f32 ? 1 : round_up(max(share, scratch), tile_alignment);
    d.f32_parts = d.rows_per_warpgroup / wgmma_m * (d.shape.n / f32_part_columns);
    const int in_stage = d.mma_a.value_bytes / f32_part_bytes + d.mma_b.value_bytes / f32_part_bytes;
    d.f32_parts_per_stage = in_stage / d.shape.warpgroups;
    d.output_stages = f32 ? ceil_div(d.f32_parts, d.f32_parts_per_stage) : 0;
}

// ---- 7. Shared memory

constexpr int work_slots(const Design& d) { return d.groups != Groups::none ? work_tile_slots : 1; }

/// The members of Shared in order, each at a multiple of its alignment. TMA writes scales to multiples of 128 bytes. An
/// array has at least one element.
constexpr void derive_shared_memory(Design& d) {
    constexpr int word = 4, barrier = 8;
    d.mma_a.scales_in_stage = max(d.shape.m * d.mma_a.scales_of_row * d.k_blocks_per_scale_copy, 1);
    d.mma_b.scales_in_stage = max(round_up(d.shape.n, 32) * d.mma_b.scales_of_row, 1);
    int bytes = round_up(d.stages * d.mma_a.value_bytes, tile_alignment);
    bytes += d.stages * d.mma_b.value_bytes;
    bytes += d.shape.warpgroups * d.staging_bytes;
    bytes = round_up(bytes, 128) + d.stages * d.mma_a.scales_in_stage * word;
    bytes = round_up(bytes, 128) + d.stages * d.mma_b.scales_in_stage * word;
    bytes = round_up(bytes, 16) + scale_chunk_slots * max(d.block_scales_per_k_block * scale_chunk_k_blocks, 1) * word;
    bytes += epilogue_scale_slots * (d.has_epilogue_scales ? d.shape.m : 1) * word;
    bytes = round_up(bytes, 8) + epilogue_scale_slots * (d.has_epilogue_scales ? d.shape.n : 1) * word;
    bytes = round_up(bytes, barrier);
    bytes += ((d.output == Output::f32_by_tma ? d.stages : d.shape.warpgroups) + d.shape.warpgroups) * barrier;
    bytes += 2 * (d.stages + epilogue_scale_slots + scale_chunk_slots + work_slots(d)) * barrier;
    bytes += barrier;
    bytes += work_slots(d) * work_tile_words * word;
    d.shared_bytes =
        round_up(round_up(bytes, barrier) + (2 + (d.is_k_grouped() ? d.stages : 0)) * barrier, tile_alignment);
}

// ---- 4. Threads and registers

constexpr void derive_registers(Design& d) {
    d.threads = (producer_warps + d.shape.warpgroups * warpgroup_warps) * warp_threads;
    // With split-K two blocks, if they fit, because clusters of 4 and 8 leave some SMs without a block.
    const bool two_fit = 2 * (d.shared_bytes + 1024) <= shared_bytes_per_sm;
    d.blocks_per_sm = d.cluster.k_slices() > 1 && d.shape.warpgroups == 1 && two_fit ? 2 : 1;
    // setmaxnreg can only move registers that the launch allocated. A single consumer warpgroup has enough without it.
    d.launch_registers = min(registers_per_sm / (d.threads * d.blocks_per_sm) / 8 * 8, 248);
    d.producer_registers = d.consumer_registers = d.launch_registers;
    if (d.shape.warpgroups > 1) {
        // Producers that load 1x32 scales hold the scales of several k-blocks.
        d.producer_registers = d.shape.warpgroups > 2 ? 32 : d.order.chain == step_k ? 56 : 40;
        const int pool = d.launch_registers * d.threads - d.producer_registers * warpgroup_threads;
        d.consumer_registers = min(pool / (d.shape.warpgroups * warpgroup_threads) / 8 * 8, 240);
    }
    // Registers of a consumer thread that the mma cannot use: addresses, scales, the state of the loop. Epilogue scales
    // take some more if alpha and C do too. As NVRTC 13.0 compiles the loops, two kinds differ. Loops that decode to
    // bf16 and promote k-blocks have fewer: 256x64 of four warpgroups has wgmmas of 32 columns without spills. Loops
    // that promote steps of bf16 on both sides have more (64x192 of grouped kernels).
    const bool bf16 = d.order.step == StepKind::bf16, steps = d.order.chain == step_k;
    const bool scales_rows_at_end = d.order.has(ScaleUse::end) || d.order.folded == Folded::b;
    int others = 32;
    if (bf16 && steps && !d.b.is_packed()) others += 8;
    if (bf16 && !steps && d.order.has(ScaleUse::chains)) others -= 8;
    if (scales_rows_at_end && d.output == Output::any) others += 16;
    d.mma_register_budget = d.consumer_registers - others;
}

// ---- 5. The mainloop

/// Registers per thread for 64 rows of mma A and one box of k, or both boxes.
constexpr int feed_registers(const Design& d) {
    const int boxes = d.feed == FeedKind::k_block_to_bf16 ? d.k_boxes : 1;
    return d.feed == FeedKind::shared ? 0 : boxes * wgmma_steps * fragment_words;
}
/// Registers of the partial sums, with wgmmas of `columns` columns. If k-blocks are promoted, they are in `partials`
/// partial accumulators.
constexpr int partial_registers(const Design& d, int columns, int partials = 1) {
    const int scales = d.mma_b.scales_of_row > 0 ? columns / 4 : 0;  // of columns, which are read in advance
    if (d.order.chain == step_k) {
        // Two partial accumulators, the fragments of a step that feed them, and the scales of one's columns. Both
        // halves of 128 rows share these scales. (A k-block's values count among the other registers of a thread.)
        const int wgmmas = d.order.step == StepKind::bf16 ? 2 : 1;
        const int fragments = d.feed == FeedKind::shared ? 0 : wgmmas * fragment_words;
        return 2 * (columns / 2 + fragments) + scales;
    }
    if (d.order.chain != 0) return partials * (columns / 2 + feed_registers(d) + scales);
    // Without promotion, a k-block's wgmmas are issued while the previous k-block's wgmmas run.
    const int fragments = d.held_rows / wgmma_m * feed_registers(d);
    // Wide rows with bf16: the fragments, and a partial accumulator or the saved sums of a subtile in its place.
    return fragments + (d.has_wide_steps() ? max(fragments, columns / 2) : fragments);
}

/// The loops with promotion per k-block:
///
/// - Two partial accumulators, on which the tensor core works at once (multiply/two_partials.h). Several subtiles, or
///   several warpgroups, fill each other's pauses. The pauses of swap-AB tiles, which read column scales or decode, are
///   longer.
/// - The fragments of the next 64 rows are made in other registers while these rows are multiplied, if there are
///   registers for both (multiply/fill_next.h). Kernels that scale MN-major operands in their loop differ, as NVRTC
///   13.0 compiles them. Kernels for bf16 of 256x128 do not spill with 8 more registers; others must leave 8 free.
/// - In fours without an exit (multiply/mainloop.h), except three kinds of tiles. With K-major scales the compiler
///   would read the scales of all four k-blocks ahead, for which there are not enough registers. Without scales it
///   moves partial sums. With swap-AB a k-block's 128x128 scale is needed until its promotion, but the loop reads the
///   next scale earlier.
constexpr Loop loop_of(const Design& d) {
    if (d.order.chain == step_k) return Loop::steps;
    if (d.order.chain == 0) return Loop::unpromoted;
    const bool decodes = d.b.is_packed(), transposes = d.feed == FeedKind::transposed;
    const bool scales = d.order.has(ScaleUse::chains);

    const bool pauses = scales && d.order.chain == d.stage_k && (d.shape.n * d.shape.warpgroups <= 192 || decodes);
    const bool by_itself = d.shape.warpgroups == 1 || d.swap_ab;
    const int decoding = decodes ? 16 : 0;  // values, scales and tables
    const int of_two = d.accumulator_registers + partial_registers(d, d.shape.n, 2) + decoding;
    if (d.subtiles == 1 && pauses && by_itself && !transposes && of_two <= d.mma_register_budget)
        return Loop::two_partials;

    const bool large = d.rows_per_warpgroup > wgmma_m && d.wgmmas_along_n > 1;
    const int spare = !transposes || !scales ? 0 : d.output != Output::any && large ? 8 : -8;
    const bool makes_fragments = transposes || d.feed == FeedKind::decoded || d.feed == FeedKind::windowed;
    const int of_both = d.accumulator_registers + partial_registers(d, d.wgmma_n) + feed_registers(d);
    if (makes_fragments && d.k_blocks_per_scale_copy != 4 && of_both <= d.mma_register_budget + spare)
        return Loop::filling_next;

    const bool in_fours = d.subtiles == 1 && scales && d.k_blocks_per_scale_copy == 1 && !d.swap_ab;
    return in_fours ? Loop::in_fours : Loop::k_blocks;
}

constexpr void derive_mainloop(Design& d) {
    // Without promotion, all subtiles of a k-block are issued together.
    d.held_rows = d.order.chain == 0 ? d.rows_per_warpgroup : wgmma_m;
    const auto fits = [&] {
        const int partial = partial_registers(d, d.shape.n / d.wgmmas_along_n);
        return d.accumulator_registers + partial <= d.mma_register_budget;
    };
    // If accumulators are promoted, n is halved until a partial accumulator fits in addition. (Two of them, one
    // promoted while the next is multiplied, gained nothing: docs/experiments/004-one-accumulator.md.)
    const bool keeps_sums = d.order.chain == 0 && !d.has_wide_steps();
    while (!keeps_sums && d.wgmmas_along_n < 4 && !fits() && d.shape.n % (16 * d.wgmmas_along_n) == 0) {
        d.wgmmas_along_n *= 2;
    }
    d.wgmma_n = d.shape.n / d.wgmmas_along_n;
    d.subtiles = d.rows_per_warpgroup / wgmma_m * d.wgmmas_along_n;
    d.loop = loop_of(d);
    d.mma_registers = d.accumulator_registers + partial_registers(d, d.wgmma_n, d.loop == Loop::two_partials ? 2 : 1);
    // Warpgroups with wide rows also hold the exponents of windows, and the column scales if these are epilogue scales
    // for other rows.
    constexpr int exponents = 8;
    const int with_window = d.accumulator_registers + d.wgmma_n / 2 + d.wgmma_n / 4 + 2 * feed_registers(d) + exponents;
    d.fills_next_window = d.feed == FeedKind::windowed && d.loop != Loop::steps && with_window <= d.mma_register_budget;
}

constexpr Design design_of(const Kernel& kernel) {
    Design design{kernel};
    derive_tile(design);
    derive_operands(design);
    derive_output(design);
    derive_shared_memory(design);
    derive_registers(design);
    derive_mainloop(design);
    return design;
}

}  // namespace tilewright::hopper
