// A block's shared memory, as one struct, and the places in its rings.
#pragma once

#include "hopper/ptx/ptx.h"
#include "hopper/schedule/dense.h"

namespace tilewright::hopper {

constexpr int at_least_one(int count) { return count > 0 ? count : 1; }

template <Tile tile>
struct Shared {
    static constexpr int first_bytes = tile.first().value_bytes(tile.k);
    static constexpr int second_bytes = tile.second().value_bytes(tile.k);

    // The ring of k-blocks, of the tensor core's first and second operand: values in rows of 128 bytes, swizzled;
    // scales of their rows, A's for a chunk of k-blocks where it begins.
    alignas(tile_alignment) u8 first[tile.stages][first_bytes];
    alignas(tile_alignment) u8 second[tile.stages][second_bytes];
    // D on its way out.
    alignas(tile_alignment) u8 d[tile.warpgroups][tile.staging_bytes()];
    alignas(128) float first_scales[tile.stages]
                                   [at_least_one(tile.scales_rows() ? round_up(tile.m * tile.scale_chunk(), 32) : 0)];
    alignas(128) float second_scales[tile.stages][at_least_one(tile.scales_columns() ? round_up(tile.n, 32) : 0)];

    // 128x128 scales, 32 k-blocks at a time, for each group of columns.
    alignas(16) float block_scales[block_scale_slots][at_least_one(tile.scales_blocks() ? tile.column_groups() : 0)]
                                  [tile.scales_blocks() ? block_scale_columns : 1];

    // The scales that multiply finished sums, of the tensor core's rows and columns, for the tiles that come next.
    float row_scales[final_scale_slots][at_least_one(tile.scales_after() ? tile.m : 0)];
    alignas(8) float column_scales[final_scale_slots][at_least_one(tile.scales_after() ? tile.n : 0)];

    Barrier staged[tile.warpgroups];
    Barrier stored[tile.warpgroups];
    Barrier full[tile.stages];
    Barrier empty[tile.stages];
    Barrier final_scales_full[final_scale_slots];
    Barrier final_scales_empty[final_scale_slots];
    Barrier block_scales_full[block_scale_slots];
    Barrier block_scales_empty[block_scale_slots];

    // The tiles that come next, where only one warp walks them.
    Barrier work_full[tile.grouped() ? work_slots : 1];
    Barrier work_empty[tile.grouped() ? work_slots : 1];
    int work[tile.grouped() ? work_slots : 1][work_words];

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
    if (tile.every_lane_arrives || lane == 0) barrier_arrive(barrier);
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
    const int k_blocks = (arguments.k + tile.k - 1) / tile.k;
    if constexpr (!tile.splits_k()) return {.begin = 0, .count = k_blocks};
    const int begin = slice_begin(k_blocks, tile.split_k, block_rank());
    return {.begin = begin, .count = slice_begin(k_blocks, tile.split_k, block_rank() + 1) - begin};
}

}  // namespace tilewright::hopper
