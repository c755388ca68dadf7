// The calls that a tile of the pack serves.
#pragma once

#include <tilewright/problem.h>

#include "check/far_scales.h"
#include "hopper/description/design.h"

namespace tilewright::test {

inline const char* tile_recipe(const hopper::Kernel& tile) {
    if (tile.order.step == StepKind::bf16) return tile.b.is_nvfp4() ? "bf16:nvfp4" : "bf16:mxfp4";
    const bool in_loop = tile.order.a == ScaleUse::chains;
    if (tile.b.is_packed()) return in_loop ? "1x128:mxfp4" : "row:mxfp4";
    // No recipe has scales of both sides in the order of folded scales; packed_test.cpp has weights with them.
    if (tile.order.folded == Folded::b) return in_loop ? "1x128:row" : "row:e4m3";
    if (!in_loop) return "row:row";
    if (tile.b.scale_rows == 0) return "1x128:e4m3";
    return tile.b.scale_rows == 1 ? "1x128:1x128" : "1x128:128x128";
}

/// Kernels for windows of scales take weights with wide rows.
inline check::FarScales tile_far_scales(const hopper::Kernel& tile) {
    return {.one_row_in = hopper::Design(tile).feed == hopper::FeedKind::windowed ? 2 : 0};
}

/// Where groups begin anywhere, TMA can load only K-major scales: other kernels for one output run masked groups.
inline Grouping tile_groups_of(const hopper::Kernel& tile) {
    const bool along_rows = !tile.scales_along_k;
    const bool separate = tile.output != hopper::Output::any && along_rows && tile.order.has(ScaleUse::chains);
    return separate ? Grouping::m_grouped_masked : Grouping::m_grouped_offsets;
}

inline Grouping tile_grouping(const hopper::Kernel& tile) {
    switch (tile.groups) {
        case hopper::Groups::none: return Grouping::dense;
        case hopper::Groups::rows: return tile_groups_of(tile);
        case hopper::Groups::k_aligned: return Grouping::k_grouped_aligned_offsets;
        case hopper::Groups::k_anywhere: return Grouping::k_grouped_flat;
    }
    return Grouping::dense;
}

/// How many groups most tests have.
inline int tile_groups(const hopper::Kernel& tile) { return tile.groups == hopper::Groups::none ? 1 : 3; }

}  // namespace tilewright::test
