// A block's shared memory, as one struct, and the places in its rings.
#pragma once

#include "hopper/ptx/ptx.h"
#include "hopper/schedule/dense.h"
#include "hopper/tile/mma_tiling.h"

namespace tilewright::hopper {

template <Tile tile>
struct Shared {
    static constexpr int first_bytes = mma_a(tile).value_bytes();
    static constexpr int second_bytes = mma_b(tile).value_bytes();

    // The ring of k-blocks, of the tensor core's first and second operand: values in rows of 128 bytes, swizzled;
    // scales of their rows, A's for a chunk of k-blocks where it begins.
    alignas(tile_alignment) u8 first[tile.stages][first_bytes];
    alignas(tile_alignment) u8 second[tile.stages][second_bytes];
    // D on its way out.
    alignas(tile_alignment) u8 d[tile.shape.warpgroups][staging_bytes(tile)];
    alignas(128) float first_scales[tile.stages][mma_a_scales_per_stage(tile)];
    alignas(128) float second_scales[tile.stages][mma_b_scales_per_stage(tile)];

    // 128x128 scales, 32 k-blocks at a time, for each group of columns.
    alignas(16) float block_scales[scale_chunk_slots][scale_chunk_rows(tile)][scale_chunk_columns(tile)];

    // The scales that multiply finished sums, of the tensor core's rows and columns, for the tiles that come next.
    float row_scales[epilogue_scale_slots][epilogue_row_scales(tile)];
    alignas(8) float column_scales[epilogue_scale_slots][epilogue_column_scales(tile)];

    Barrier staged[tile.shape.warpgroups];
    Barrier stored[tile.shape.warpgroups];
    Barrier full[tile.stages];
    Barrier empty[tile.stages];
    Barrier final_scales_full[epilogue_scale_slots];
    Barrier final_scales_empty[epilogue_scale_slots];
    Barrier block_scales_full[scale_chunk_slots];
    Barrier block_scales_empty[scale_chunk_slots];

    // The tiles that come next, where only one warp walks them.
    Barrier work_full[work_slots(tile)];
    Barrier work_empty[work_slots(tile)];
    int work[work_slots(tile)][work_tile_words];

    // Split k: the sums that this block owns have come, from all slices; all blocks have read theirs.
    Barrier slices_full;
    Barrier slices_read;

    TILEWRIGHT_DEVICE u8* values_of_a(int stage) { return tile.swap_ab ? second[stage] : first[stage]; }
    TILEWRIGHT_DEVICE u8* values_of_b(int stage) { return tile.swap_ab ? first[stage] : second[stage]; }
    TILEWRIGHT_DEVICE float* scales_of_a(int stage) {
        return tile.swap_ab ? second_scales[stage] : first_scales[stage];
    }
    TILEWRIGHT_DEVICE float* scales_of_b(int stage) {
        return tile.swap_ab ? first_scales[stage] : second_scales[stage];
    }
};

/// A warp's arrival, once its lanes have met: one speaks for all.
template <Tile tile>
TILEWRIGHT_DEVICE void warp_arrives(Barrier& barrier, int lane) {
    if (tile.debug.every_lane_arrives || lane == 0) barrier_arrive(barrier);
}

/// A place in a ring, and the parity that its barriers are waited for with. Who fills starts with parity 1, because
/// every place is empty at first; who empties with 0.
template <int places>
struct Ring {
    int place = 0;
    u32 parity = 0;

    constexpr void advance() {
        if (++place != places) return;
        place = 0;
        parity ^= 1;
    }
};

/// The k-blocks of each tile that this block multiplies: all, or its slice.
struct Slice {
    int begin;
    int count;
};

template <Tile tile>
TILEWRIGHT_DEVICE Slice slice_of(const Arguments& arguments) {
    const int k_blocks = (arguments.k + tile.shape.k - 1) / tile.shape.k;
    if constexpr (!splits_k(tile)) return {.begin = 0, .count = k_blocks};
    const int begin = slice_begin(k_blocks, k_slices(tile), block_rank());
    return {.begin = begin, .count = slice_begin(k_blocks, k_slices(tile), block_rank() + 1) - begin};
}

}  // namespace tilewright::hopper
