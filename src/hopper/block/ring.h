// The ring between producers and consumers: its memory, a warp's position in it, and the k-blocks that pass through it.
// At the end is the state of a consumer warp. Producers are in load/, with their roles in gemm.h.
//
// A warpgroup's share of the tile is divided into subtiles of 64 rows and wgmma_n columns, one wgmma each. With
// promotion, the subtiles take turns in a partial accumulator (128 products deep). Its values are scaled and added to
// the accumulators. While one warpgroup promotes, the tensor core multiplies for the others.
#pragma once

#include "hopper/arguments.h"
#include "hopper/block/stamps.h"
#include "hopper/description/design.h"
#include "hopper/ptx/ptx.h"

namespace tilewright::hopper {

// ---- Shared memory. BlockDesign (description/design.h) has its size.

/// An array that only some kernels have.
template <class Item, int count>
struct Items {
    Item items[count];
};
template <class Item>
struct Items<Item, 0> {};

template <Design design, int work_slots = design.groups == Groups::none ? 1 : work_tile_slots>
struct Shared {
    // The ring of k-blocks: values in swizzled rows of 128 bytes, one box along k after another, then 1x128 scales.
    // K-major scales of A: each row's scales of four k-blocks, in the stage of the first k-block.
    alignas(tile_alignment) u8 mma_a_values[design.stages][design.mma_a.value_bytes];
    alignas(tile_alignment) u8 mma_b_values[design.stages][design.mma_b.value_bytes];
    // D between the consumers and the store warp. D of f32 is in stages of the ring instead. Split-K: fragments from
    // all slices.
    alignas(tile_alignment) u8 d[design.shape.warpgroups][design.staging_bytes];
    alignas(128) float mma_a_scales[design.stages][max(
        design.shape.m * design.mma_a.scales_of_row * design.k_blocks_per_scale_copy, 1)];
    alignas(128) float mma_b_scales[design.stages][max(round_up(design.shape.n, 32) * design.mma_b.scales_of_row, 1)];

    // Chunks of 128x128 scales, for each 128x128 block of B that the tile covers.
    alignas(16) float block_scales[scale_chunk_slots][max(design.block_scales_per_k_block, 1)]
                                  [design.block_scales_per_k_block > 0 ? scale_chunk_k_blocks : 1];

    // Epilogue scales of the accumulators' rows and columns, for the current tile and the next.
    float row_scales[epilogue_scale_slots][design.has_epilogue_scales ? design.shape.m : 1];
    alignas(8) float column_scales[epilogue_scale_slots][design.has_epilogue_scales ? design.shape.n : 1];

    // One of each per warpgroup's D. D of f32: one `staged` per stage, and no thread waits for `stored`.
    Barrier staged[design.output == Output::f32_by_tma ? design.stages : design.shape.warpgroups];
    Barrier stored[design.shape.warpgroups];
    Barrier full[design.stages];
    Barrier empty[design.stages];
    Barrier ended;
    Barrier epilogue_scales_full[epilogue_scale_slots];
    Barrier epilogue_scales_empty[epilogue_scale_slots];
    Barrier block_scales_full[scale_chunk_slots];
    Barrier block_scales_empty[scale_chunk_slots];

    // Grouped kernels: work tiles from the scheduler warp.
    Barrier work_full[work_slots];
    Barrier work_empty[work_slots];
    int work[work_slots][work_tile_words];

    // Split-K.
    Barrier slices_full;
    Barrier slices_read;

    // k-grouped: TMA has loaded a k-block that is unfinished: a group ends in it, or TMA could not load its values
    // (load/finish_k_blocks.h).
    [[no_unique_address]] Items<Barrier, design.is_k_grouped() ? design.stages : 0> unfinished;
    // Packed weights, with the epilogue scales: whether a row is wide, as bit row % 32 of word row / 32.
    [[no_unique_address]] Items<int[design.shape.m / 32], design.wide_rows ? epilogue_scale_slots : 0> wide;

    TILEWRIGHT_DEVICE u8* values_of_a(int stage) { return design.swap_ab ? mma_b_values[stage] : mma_a_values[stage]; }
    TILEWRIGHT_DEVICE u8* values_of_b(int stage) { return design.swap_ab ? mma_a_values[stage] : mma_b_values[stage]; }
    TILEWRIGHT_DEVICE float* scales_of_a(int stage) {
        return design.swap_ab ? mma_b_scales[stage] : mma_a_scales[stage];
    }
    TILEWRIGHT_DEVICE float* scales_of_b(int stage) {
        return design.swap_ab ? mma_a_scales[stage] : mma_b_scales[stage];
    }
};

// ---- Positions and signals

/// A stage and the phase in which its barriers are waited for (CUTLASS's PipelineState). A producer starts in phase 1,
/// because every stage is empty at first. A consumer starts in phase 0.
template <int stages>
struct PipelineState {
    int stage = 0;
    u32 phase = 0;

    /// The stage ahead of this one.
    constexpr int previous() const { return stage == 0 ? stages - 1 : stage - 1; }

    constexpr void advance() {
        if (++stage != stages) return;
        stage = 0;
        phase ^= 1;
    }
};

/// A warp's arrival after sync_warp(): one lane arrives for all.
template <Design design>
TILEWRIGHT_DEVICE void warp_arrives(Barrier& barrier, int lane) {
    if (design.debug.every_lane_arrives || lane == 0) barrier_arrive(barrier);
}

// ---- The k-blocks of a tile: all, or with split-K a slice (k-grouped: schedule/k_grouped.h)

struct KSlice {
    int begin;
    int count;
};

template <Design design>
TILEWRIGHT_DEVICE KSlice k_slice_of(const Arguments& arguments) {
    const int k_blocks = (arguments.k + design.stage_k - 1) / design.stage_k;
    if constexpr (design.cluster.k_slices == 1) return {.begin = 0, .count = k_blocks};
    const int begin = k_slice_begin(design, k_blocks, block_rank());
    return {.begin = begin, .count = k_slice_begin(design, k_blocks, block_rank() + 1) - begin};
}

/// Bytes of a packed tile in memory. If the weights may have exponent windows, the number of windows of weights packed
/// in advance is known at run time.
template <Design design>
TILEWRIGHT_DEVICE int loaded_tile_bytes(const ArgumentsOf<design>& arguments) {
    if constexpr (design.b.form == Form::rows_and_tiles) return raw_tile_bytes;
    return design.feed == FeedKind::windowed ? arguments.packed.tile_bytes : packed_tile_bytes(design.b.scale_k);
}

// ---- A consumer warp: its state in the mainloop and in the epilogue

/// A thread's share of the tile. The index is the subtile (64 rows, then wgmmas along n) and the fragment register
/// (ptx.h).
template <Design design>
using Accumulators = float[design.subtiles][design.wgmma_n / 2];

/// Columns `column` .. `column` + 7 of the tile, in the warp's 16 rows of `half`. `Values`: accumulators, const or not.
template <Design design, class Values>
TILEWRIGHT_DEVICE auto* fragment(Values& accumulators, int half, int column) {
    constexpr int columns = design.wgmma_n;
    return &accumulators[half * design.wgmmas_along_n + column / columns][column % columns / 2];
}

/// The subtile that the tensor core multiplies.
template <Design design>
using Partial = float[design.wgmma_n / 2];

template <Design design>
struct Consumer {
    Shared<design>& shared;
    const ArgumentsOf<design>& arguments;
    // Here, because at the end of the struct it would move instructions of two kernels.
    [[no_unique_address]] Stamps<design> stamp{arguments};
    int warpgroup;
    int warp;  // in the warpgroup
    int lane;
    int row_in_tile;  // of this thread's first fragment row
    int k_blocks;
    MatrixDescriptor mma_a_descriptor;  // of the ring's first stage
    MatrixDescriptor mma_b_descriptor;
    bool by_tma;  // D is stored by TMA
    PipelineState<design.stages> ring{};
    PipelineState<scale_chunk_slots> blocks{};
    PipelineState<epilogue_scale_slots> epilogue_scales{};
    PipelineState<1> staged{.phase = 1};
    PipelineState<1> slices{};
    int budget = wait_budget;
    bool peers_ready = false;  // Split-K: the peers' shared memory may be written to.
    bool arrived = false;      // The full barrier of `ring` is known to be complete.
    bool defers = false;       // Scales of the tile left a power of two to the epilogue (multiply/deferred.h).

    TILEWRIGHT_DEVICE int first_row() const { return warpgroup * design.rows_per_warpgroup; }

    // ---- Stages

    /// Without a limit, because a limit would cost 1 to 8 % (docs/experiments/003-waits.md). The load warp watches this
    /// wait (kernel/barriers.h).
    TILEWRIGHT_DEVICE void wait_full() {
        const int stage = ring.stage;
        stamp(Event::waits_full);
        if (!arrived) barrier_wait_watched(shared.full[stage], ring.phase, BarrierName::full, stage);
        arrived = false;
        stamp(Event::multiplies);
    }

    /// Waits for the stage ahead of the mainloop's own wait for it.
    TILEWRIGHT_DEVICE void await_full() {
        if (!arrived) barrier_wait_watched(shared.full[ring.stage], ring.phase, BarrierName::full, ring.stage);
        arrived = true;
    }

    TILEWRIGHT_DEVICE void release(int stage) {
        stamp(Event::released);
        if constexpr (!design.cluster.shares_operand()) {
            warp_arrives<design>(shared.empty[stage], lane);
        } else {
            if (lane < design.cluster.size()) barrier_arrive_peer(shared.empty[stage], lane);
        }
    }

    /// The stage that precedes `ring`, whose last wgmma has completed.
    TILEWRIGHT_DEVICE void release_previous() { release(ring.previous()); }

    /// All wgmmas of the stage are issued; continues with the next stage.
    TILEWRIGHT_DEVICE void advance() {
        ring.advance();
        arrived = barrier_test(shared.full[ring.stage], ring.phase);
    }
};

/// Waits until the epilogue scales of the consumer's tile are loaded. They stay valid until the consumer releases them.
template <Design design>
TILEWRIGHT_DEVICE void wait_epilogue_scales(Consumer<design>& c) {
    const int slot = c.epilogue_scales.stage;
    barrier_wait(c.shared.epilogue_scales_full[slot], c.epilogue_scales.phase,
                 {c.budget, BarrierName::epilogue_scales_full, slot});
}

/// The wide rows of a consumer's warpgroup, for the loops that multiply them separately (multiply/wide_rows.h) or
/// window by window (multiply/windows.h). The epilogue scales have arrived.
template <Design design>
struct WideRows {
    static constexpr int halves = design.rows_per_warpgroup / wgmma_m;

    TILEWRIGHT_DEVICE explicit WideRows(const Consumer<design>& c) {
        const int* const words = c.shared.wide.items[c.epilogue_scales.stage] + c.first_row() / 32;
#pragma unroll
        for (int half = 0; half < halves; ++half) {
            const u32 first = u32(load_shared(words[2 * half])), second = u32(load_shared(words[2 * half + 1]));
            in_half[half] = (first | second) != 0;
            any = any || in_half[half];
            const u32 of_warp = (c.warp < 2 ? first : second) >> c.warp % 2 * warp_rows;
            of_lane[half] = (of_warp >> c.lane / 4 & 1) | (of_warp >> (c.lane / 4 + warp_rows / 2) & 1) << 1;
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                const u32 rows = of_warp >> warp_rows / 2 * row & 0xFF;
                in_rows[half][row] = rows != 0;
                all_rows[half][row] = rows == 0xFF;
            }
        }
    }

    /// Whether any of the warp's rows is wide.
    TILEWRIGHT_DEVICE bool in_warp(int half) const { return in_rows[half][0] || in_rows[half][1]; }

    /// Whether element `i` of a lane's share of a subtile belongs to a wide row.
    TILEWRIGHT_DEVICE bool has(int half, int i) const { return (of_lane[half] >> i % 4 / 2 & 1) != 0; }

    bool any = false;
    bool in_half[halves];     // of the warpgroup's 64 rows, the same in all of its warps
    bool in_rows[halves][2];  // of the warp's 16 rows: the lanes' first rows, and their second rows
    bool all_rows[halves][2];
    u32 of_lane[halves];  // bits 0 and 1: the lane's first and second row
};

}  // namespace tilewright::hopper
