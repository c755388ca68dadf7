// The calls that a tile of the pack serves.
#pragma once

#include <tilewright/problem.h>

#include "check/far_scales.h"
#include "hopper/tile/operands.h"

namespace tilewright::test {

inline const char* tile_recipe(const hopper::Tile& tile) {
    if (multiplies_bf16(tile))
        return tile.b.storage == hopper::Storage::packed_nvfp4_bf16 ? "bf16:nvfp4" : "bf16:mxfp4";
    if (has_packed_weights(tile)) {
        return tile.a.scaling == hopper::Scaling::epilogue ? "row:mxfp4" : "1x128:mxfp4";
    }
    if (tile.b.scaling == hopper::Scaling::factor) {
        // No recipe has scales of both sides in the order of factors; packed_test.cpp has weights with them.
        return tile.a.scaling == hopper::Scaling::epilogue ? "row:e4m3" : "1x128:row";
    }
    if (tile.a.scaling == hopper::Scaling::epilogue) return "row:row";
    if (tile.b.scaling == hopper::Scaling::none) return "1x128:e4m3";
    return tile.b.scaling == hopper::Scaling::block_1x128 ? "1x128:1x128" : "1x128:128x128";
}

/// Kernels for windows of scales take weights with wide rows.
inline check::FarScales tile_far_scales(const hopper::Tile& tile) { return {.one_row_in = has_windows(tile) ? 2 : 0}; }

/// Where groups begin anywhere, TMA takes K-major scales alone: other fast kernels run masked groups.
inline Grouping tile_groups_of(const hopper::Tile& tile) {
    const bool separate = is_fast(tile) && has_row_scales(tile) && !has_k_major_scales(tile);
    return separate ? Grouping::m_grouped_masked : Grouping::m_grouped_offsets;
}

inline Grouping tile_grouping(const hopper::Tile& tile) {
    if (maps_groups(tile)) return Grouping::k_grouped_flat;
    if (is_k_grouped(tile)) return Grouping::k_grouped_aligned_offsets;
    return is_grouped(tile) ? tile_groups_of(tile) : Grouping::dense;
}

/// How many groups most tests have.
inline int tile_groups(const hopper::Tile& tile) { return has_scheduler(tile) ? 3 : 1; }

}  // namespace tilewright::test
