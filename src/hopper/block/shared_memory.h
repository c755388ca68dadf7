// A block's shared memory, as one struct. derive_shared_memory (description/derive.h) computes its size.
#pragma once

#include "hopper/description/derive.h"
#include "hopper/ptx/ptx.h"

namespace tilewright::hopper {

/// k-grouped: TMA has loaded a k-block in which a group ends, and the bytes after the group's end are still to be
/// cleared. Other kernels have no such barriers.
template <int count>
struct LandedBarriers {
    Barrier barriers[count];
};
template <>
struct LandedBarriers<0> {};

template <Design design>
struct Shared {
    // The ring of k-blocks: values in swizzled rows of 128 bytes, one box along k after another, then 1x128 scales.
    // K-major scales of A: each row's scales of four k-blocks, in the stage of the first k-block.
    alignas(tile_alignment) u8 mma_a_values[design.stages][design.mma_a.value_bytes];
    alignas(tile_alignment) u8 mma_b_values[design.stages][design.mma_b.value_bytes];
    // D between the consumers and the store warp. D of f32 is in stages of the ring instead. Split-K: fragments from
    // all slices.
    alignas(tile_alignment) u8 d[design.shape.warpgroups][design.staging_bytes];
    alignas(128) float mma_a_scales[design.stages][design.mma_a_scales_per_stage];
    alignas(128) float mma_b_scales[design.stages][design.mma_b_scales_per_stage];

    // Chunks of 128x128 scales, for each 128x128 block of B that the tile covers.
    alignas(16) float block_scales[scale_chunk_slots][scale_chunk_rows(design)][scale_chunk_columns(design)];

    // Epilogue scales of the accumulators' rows and columns, for the current tile and the next.
    float row_scales[epilogue_scale_slots][epilogue_row_scales(design)];
    alignas(8) float column_scales[epilogue_scale_slots][epilogue_column_scales(design)];

    // One of each per warpgroup's D. D of f32: one `staged` per stage, and no thread waits for `stored`.
    Barrier staged[staged_barriers(design)];
    Barrier stored[design.shape.warpgroups];
    Barrier full[design.stages];
    Barrier empty[design.stages];
    Barrier ended;
    Barrier epilogue_scales_full[epilogue_scale_slots];
    Barrier epilogue_scales_empty[epilogue_scale_slots];
    Barrier block_scales_full[scale_chunk_slots];
    Barrier block_scales_empty[scale_chunk_slots];

    // Grouped kernels: work tiles from the scheduler warp.
    Barrier work_full[work_slots(design)];
    Barrier work_empty[work_slots(design)];
    int work[work_slots(design)][work_tile_words];

    // Split-K.
    Barrier slices_full;
    Barrier slices_read;

    [[no_unique_address]] LandedBarriers<landed_barriers(design)> landed;

    TILEWRIGHT_DEVICE u8* values_of_a(int stage) { return design.swap_ab ? mma_b_values[stage] : mma_a_values[stage]; }
    TILEWRIGHT_DEVICE u8* values_of_b(int stage) { return design.swap_ab ? mma_a_values[stage] : mma_b_values[stage]; }
    TILEWRIGHT_DEVICE float* scales_of_a(int stage) {
        return design.swap_ab ? mma_b_scales[stage] : mma_a_scales[stage];
    }
    TILEWRIGHT_DEVICE float* scales_of_b(int stage) {
        return design.swap_ab ? mma_a_scales[stage] : mma_b_scales[stage];
    }
};

}  // namespace tilewright::hopper
