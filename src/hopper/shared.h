// A block's shared memory, as one struct, and the places in its rings.
#pragma once

#include "hopper/ptx.h"
#include "hopper/schedule.h"

namespace tilewright::hopper {

constexpr int at_least_one(int count) { return count > 0 ? count : 1; }

template <Tile tile>
struct Shared {
    static constexpr int bytes_a = tile.first().value_bytes(tile.k);
    static constexpr int bytes_b = tile.second().value_bytes(tile.k);

    // The ring of k-blocks: values in rows of 128 bytes, swizzled; scales of A's rows, for a chunk of k-blocks where it
    // begins; scales of B's rows.
    alignas(tile_alignment) u8 a[tile.stages][bytes_a];
    alignas(tile_alignment) u8 b[tile.stages][bytes_b];
    // D on its way out.
    alignas(tile_alignment) u8 d[tile.warpgroups][tile.staging_bytes()];
    alignas(128) float a_scales[tile.stages]
                               [at_least_one(tile.scales_rows() ? round_up(tile.m * tile.scale_chunk(), 32) : 0)];
    alignas(128) float b_scales[tile.stages][at_least_one(tile.scales_columns() ? round_up(tile.n, 32) : 0)];

    // 128x128 scales, 32 k-blocks at a time, for each group of columns.
    alignas(16) float block_scales[block_scale_slots][at_least_one(tile.scales_blocks() ? tile.column_groups() : 0)]
                                  [tile.scales_blocks() ? block_scale_columns : 1];

    // The scales that multiply finished sums, for the tiles that come next.
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
};

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

/// Stages that one tile takes.
template <Tile tile>
TILEWRIGHT_DEVICE int k_blocks_of(const Arguments& arguments) {
    return (arguments.k + tile.k - 1) / tile.k;
}

}  // namespace tilewright::hopper
