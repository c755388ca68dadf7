#include "plan/packed_pack.h"

namespace tilewright::planner {

using hopper::Scaling;
using hopper::split_k;
using hopper::Tile;
using hopper::Variant;

/// Tiles for few tokens, chosen by the bytes in flight and by registers, not by measurements. With many groups four
/// warpgroups hide each other's decoding; with one group k is split. From some 30 tokens per group, two warpgroups of
/// 128 rows are faster: they decode one half while the other is multiplied.
std::vector<Tile> shipped_packed_tiles() {
    constexpr Tile dense[] = {
        {.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 16},
        {.shape = {.m = 64, .n = 64, .warpgroups = 1}, .stages = 12},
        {.shape = {.m = 128, .n = 128}, .stages = 6},
        {.shape = {.m = 64, .n = 8, .warpgroups = 1}, .stages = 10, .cluster = split_k(4)},
        {.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 10, .cluster = split_k(4)},
        {.shape = {.m = 64, .n = 32, .warpgroups = 1}, .stages = 8, .cluster = split_k(4)},
        {.shape = {.m = 64, .n = 64, .warpgroups = 1}, .stages = 6, .cluster = split_k(4)},
    };
    constexpr Tile groups[] = {
        {.shape = {.m = 128, .n = 16}, .stages = 12}, {.shape = {.m = 128, .n = 32}, .stages = 10},
        {.shape = {.m = 128, .n = 128}, .stages = 6}, {.shape = {.m = 256, .n = 32, .warpgroups = 4}, .stages = 8},
        {.shape = {.m = 256, .n = 64}, .stages = 6},  {.shape = {.m = 256, .n = 96}, .stages = 5},
    };
    std::vector<Tile> list;
    const auto add = [&](Tile tile, hopper::Family family) {
        tile.swap_ab = true;
        tile.b = {.storage = hopper::Storage::packed_e2m1, .scaling = Scaling::factor};
        tile.family = family;
        for (const Scaling a : {Scaling::epilogue, Scaling::block_1x128}) {
            tile.a.scaling = a;
            list.push_back(tile);
        }
    };
    for (const Tile& tile : dense) add(tile, hopper::Family::dense);
    for (const Tile& tile : groups) add(tile, hopper::Family::m_grouped);
    return list;
}

/// For bf16 only MXFP4's general kernels ship, because the fast variants have the same mainloop. The same tiles serve
/// NVFP4, compiled on first use. They were compared with the best of 10 to 12 tiles each, for products of 1, 16 and 32
/// rows and 128 groups of 4. They are within 1.2 % (one H200, 2026-11-24).
std::vector<Tile> shipped_bf16_kernels() {
    constexpr Tile dense[] = {
        {.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 10, .cluster = split_k(4)},
        {.shape = {.m = 256, .n = 16, .warpgroups = 4}, .stages = 9, .cluster = split_k(4)},
        {.shape = {.m = 256, .n = 32, .warpgroups = 4}, .stages = 7, .cluster = split_k(4)},
        {.shape = {.m = 256, .n = 64, .warpgroups = 4}, .stages = 4, .cluster = split_k(4)},
        {.shape = {.m = 256, .n = 64, .warpgroups = 4}, .stages = 5},
    };
    constexpr Tile groups[] = {
        {.shape = {.m = 256, .n = 8, .warpgroups = 4}, .stages = 8},
        {.shape = {.m = 256, .n = 16, .warpgroups = 4}, .stages = 9},
        {.shape = {.m = 256, .n = 32, .warpgroups = 4}, .stages = 7},
        {.shape = {.m = 256, .n = 64, .warpgroups = 4}, .stages = 5},
    };
    std::vector<Tile> list;
    const auto add = [&](Tile tile, hopper::Family family) {
        tile.swap_ab = true;
        tile.a = {.storage = hopper::Storage::bf16, .scaling = Scaling::none};
        tile.b = {.storage = hopper::Storage::packed_mxfp4_bf16, .scaling = Scaling::factor};
        tile.mma.promoted = false;
        tile.family = family;
        list.push_back(tile);
    };
    for (const Tile& tile : dense) add(tile, hopper::Family::dense);
    for (const Tile& tile : groups) add(tile, hopper::Family::m_grouped);
    return list;
}

/// Wide rows are rare: the fast kernels of one tile for one product and of one for groups. The others are compiled on
/// first use.
std::vector<Tile> shipped_windowed_kernels() {
    constexpr Tile dense{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 10, .cluster = split_k(4)};
    constexpr Tile groups{.shape = {.m = 256, .n = 32, .warpgroups = 4}, .stages = 8};
    std::vector<Tile> list;
    for (Tile tile : {dense, groups}) {
        tile.swap_ab = true;
        tile.b = {.storage = hopper::Storage::windowed_e2m1, .scaling = Scaling::factor};
        tile.family = splits_k(tile) ? hopper::Family::dense : hopper::Family::m_grouped;
        tile.variant = Variant::fast;
        list.push_back(tile);
        tile.a.scaling = Scaling::block_1x128;
        list.push_back(tile);
        tile.variant = Variant::fast_k_major_scales;
        list.push_back(tile);
    }
    return list;
}

}  // namespace tilewright::planner
