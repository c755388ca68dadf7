#include "plan/pack.h"

#include <algorithm>
#include <iterator>

#include "hopper/tile/operands.h"
#include "hopper/tile/stage_layout.h"
#include "plan/packed_pack.h"

namespace tilewright::planner {
namespace {

using hopper::Scaling;
using hopper::split_k;
using hopper::Tile;
using hopper::Variant;

// Tiles that spill cannot ship; 192x128 does so with scales of both operands' rows (NVRTC 13.0).
struct Mode {
    Scaling a;
    Scaling b;
    bool promoted;
    bool (*serves)(const Tile&);
};

// Tile shapes: the planner's most frequent choices, and the tuned rows' tiles. Their ring is as deep as shared memory
// allows. tests/launch/pack_test.cpp compares the list with both. One warpgroup owns 64 rows or 128.
const std::vector<Tile>& tile_shapes() {
    static const std::vector<Tile> list{
        {.shape = {.m = 256, .n = 128}, .stages = 3},
        {.shape = {.m = 192, .n = 128, .warpgroups = 3}, .stages = 4},
        {.shape = {.m = 192, .n = 96, .warpgroups = 3}, .stages = 4},
        {.shape = {.m = 128, .n = 192}, .stages = 4},
        {.shape = {.m = 128, .n = 256}, .stages = 3},
        {.shape = {.m = 128, .n = 224}, .stages = 3},
        {.shape = {.m = 128, .n = 176}, .stages = 4},
        {.shape = {.m = 128, .n = 144}, .stages = 5},
        {.shape = {.m = 128, .n = 128}, .stages = 5},
        {.shape = {.m = 128, .n = 112}, .stages = 6},
        {.shape = {.m = 128, .n = 96}, .stages = 4},
        {.shape = {.m = 128, .n = 64}, .stages = 8},
        {.shape = {.m = 64, .n = 192, .warpgroups = 1}, .stages = 5},
        {.shape = {.m = 64, .n = 128, .warpgroups = 1}, .stages = 8},
        {.shape = {.m = 64, .n = 64, .warpgroups = 1}, .stages = 8},
    };
    return list;
}

/// Tiles for few rows, and for the last rows of more. They split k, so that all SMs read weights, or have weights on
/// the tensor core's rows, or both. On one H200, 149 dense shapes of 1 to 8192 rows were measured. With these tiles
/// they are within 0.2 % of the best of 75 tiles in the mean.
const std::vector<Tile>& shapes_for_few_rows() {
    static const std::vector<Tile> list{
        {.shape = {.m = 64, .n = 32, .warpgroups = 1}, .stages = 8, .cluster = split_k(2)},
        {.shape = {.m = 64, .n = 48, .warpgroups = 1}, .stages = 12, .cluster = split_k(2)},
        {.shape = {.m = 64, .n = 64, .warpgroups = 1}, .stages = 12, .cluster = split_k(2)},
        {.shape = {.m = 64, .n = 64, .warpgroups = 1}, .stages = 12, .cluster = split_k(4)},
        {.shape = {.m = 128, .n = 64}, .stages = 7, .cluster = split_k(2)},
        {.shape = {.m = 64, .n = 8, .warpgroups = 1}, .stages = 8, .swap_ab = true},
        {.shape = {.m = 64, .n = 8, .warpgroups = 1}, .stages = 8, .swap_ab = true, .cluster = split_k(2)},
        {.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 8, .swap_ab = true},
        {.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 8, .swap_ab = true, .cluster = split_k(2)},
        {.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 8, .swap_ab = true, .cluster = split_k(4)},
        {.shape = {.m = 64, .n = 32, .warpgroups = 1}, .stages = 16, .swap_ab = true},
        {.shape = {.m = 64, .n = 32, .warpgroups = 1}, .stages = 8, .swap_ab = true, .cluster = split_k(4)},
        {.shape = {.m = 128, .n = 16}, .stages = 8, .swap_ab = true},
        {.shape = {.m = 128, .n = 32}, .stages = 8, .swap_ab = true},
        // Rows that are not a multiple of 64: tokens in steps of 8, and the narrow tiles whose last row of tiles is
        // cheap.
        {.shape = {.m = 64, .n = 72, .warpgroups = 1}, .stages = 12, .swap_ab = true},
        {.shape = {.m = 64, .n = 72, .warpgroups = 1}, .stages = 10, .swap_ab = true, .cluster = split_k(2)},
        {.shape = {.m = 64, .n = 96, .warpgroups = 1}, .stages = 10},
        {.shape = {.m = 64, .n = 96, .warpgroups = 1}, .stages = 9, .cluster = split_k(4)},
        {.shape = {.m = 128, .n = 72}, .stages = 8, .swap_ab = true},
        {.shape = {.m = 128, .n = 96}, .stages = 6, .cluster = split_k(4)},
        {.shape = {.m = 128, .n = 136}, .stages = 4, .swap_ab = true, .cluster = split_k(2)},
        {.shape = {.m = 192, .n = 64, .warpgroups = 3}, .stages = 5},
    };
    return list;
}

/// Pairs of blocks pay where a tile loads much from L2.
bool may_share(const Tile& tile) { return tile.shape.m * tile.shape.n >= 192 * 128; }

/// Groups end in the middle of tiles. Therefore small tiles serve them in addition to the largest ones.
bool serves_groups(const Tile& tile) {
    constexpr Tile grouped[] = {{.shape = {.m = 256, .n = 128}, .stages = 3},
                                {.shape = {.m = 192, .n = 128, .warpgroups = 3}, .stages = 4},
                                {.shape = {.m = 192, .n = 96, .warpgroups = 3}, .stages = 4},
                                {.shape = {.m = 128, .n = 192}, .stages = 4},
                                {.shape = {.m = 128, .n = 256}, .stages = 3},
                                {.shape = {.m = 128, .n = 128}, .stages = 5},
                                {.shape = {.m = 64, .n = 192, .warpgroups = 1}, .stages = 5},
                                {.shape = {.m = 64, .n = 128, .warpgroups = 1}, .stages = 8},
                                {.shape = {.m = 64, .n = 64, .warpgroups = 1}, .stages = 8},
                                {.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 8, .swap_ab = true},
                                {.shape = {.m = 128, .n = 16}, .stages = 8, .swap_ab = true},
                                {.shape = {.m = 128, .n = 32}, .stages = 8, .swap_ab = true}};
    return std::ranges::find(grouped, tile) != std::end(grouped);
}

bool is_for_few_rows(const Tile& tile) {
    return std::ranges::find(shapes_for_few_rows(), tile) != shapes_for_few_rows().end();
}

/// More groups of columns with separate 128x128 scales cost more than a better fit gains.
bool scales_of_blocks(const Tile& tile) { return block_scales_per_k_block(tile) <= 3; }
bool promotes(const Tile& tile) {
    return !is_for_few_rows(tile) || (tile.swap_ab && !splits_k(tile) && tile.shape.n == 16);
}
bool scales_of_both(const Tile& tile) {
    return tile.shape.m <= 128 && (tile.shape.n == 64 || tile.shape.n == 128) && !is_for_few_rows(tile);
}
bool unpromoted(const Tile& tile) { return tile.shape.warpgroups < 3 && tile.shape.n >= 64 && !is_for_few_rows(tile); }

constexpr Mode modes[] = {{Scaling::epilogue, Scaling::epilogue, true, promotes},
                          {Scaling::epilogue, Scaling::epilogue, false, unpromoted},
                          {Scaling::block_1x128, Scaling::block_128x128, true, scales_of_blocks},
                          {Scaling::block_1x128, Scaling::block_1x128, true, scales_of_both}};

void add_pairs(Tile tile, std::vector<Tile>& list) {
    // The larger operand is shared. With three warpgroups the loop that scales rows has no register left for a
    // cluster's addresses (it spills), and the others were never the fastest.
    if (!may_share(tile) || tile.shape.warpgroups == 3 || !is_fast(tile)) return;
    tile.cluster = tile.shape.m > tile.shape.n ? hopper::share_a(2) : hopper::share_b(2);
    if (is_consistent(tile)) list.push_back(tile);
}

void add(const Tile& tile, bool groups, std::vector<Tile>& list) {
    list.push_back(tile);
    add_pairs(tile, list);
    if (!groups) return;
    list.push_back(tile);
    list.back().family = hopper::Family::m_grouped;
}

void add_variants(Tile tile, bool groups, std::vector<Tile>& list) {
    for (const Variant variant : {Variant::general, Variant::fast, Variant::fast_k_major_scales}) {
        if (variant == Variant::fast_k_major_scales && tile.a.scaling != Scaling::block_1x128) continue;
        tile.variant = variant;
        add(tile, groups, list);
    }
    if (has_f32_kernel(tile)) list.push_back(f32_kernel(tile));
}

/// Operands along their rows: weights as a forward pass has them (layout nn, dense and grouped), A of layout tt.
void add_mn_major(std::vector<Tile>& list) {
    constexpr hopper::OperandSpec along_k{}, along_rows{.major = hopper::Major::mn};
    constexpr hopper::OperandSpec rows{.scaling = Scaling::block_1x128};
    constexpr Tile square{.shape = {.m = 128, .n = 128}, .stages = 5};
    constexpr Tile weights[] = {
        {.shape = {.m = 128, .n = 160}, .stages = 5, .swap_ab = true, .a = along_k, .b = along_rows},
        {.shape = {.m = 128, .n = 256},
         .stages = 3,
         .swap_ab = true,
         .a = along_k,
         .b = along_rows,
         .mma = {.promoted = false}},
        {.shape = {.m = 128, .n = 128},
         .stages = 5,
         .swap_ab = true,
         .a = rows,
         .b = {.scaling = Scaling::block_128x128, .major = hopper::Major::mn}},
        {.shape = {.m = 256, .n = 128},
         .stages = 3,
         .swap_ab = true,
         .a = rows,
         .b = {.scaling = Scaling::block_128x128, .major = hopper::Major::mn}},
    };
    for (const Tile& tile : weights) add_variants(tile, true, list);
    Tile tile = square;
    tile.a.major = hopper::Major::mn;
    add_variants(tile, false, list);
    tile.a.scaling = Scaling::block_1x128;
    tile.b.scaling = Scaling::block_128x128;
    add_variants(tile, false, list);
}

/// k-grouped kernels, in all variants, because a choice among tiles does not know which variant a call takes. D has
/// many tiles, so the large ones serve, as far as registers allow. The smaller one is for the rest of few tiles.
/// Epilogue scales: 128x256 was up to 9 % faster than 256x128 in three shapes of short k, and 0.7 % slower in one of
/// f32 (docs/experiments/012-epilogue-scale-tiles.md).
void add_groups_of_k(std::vector<Tile>& list) {
    constexpr Tile wide{.shape = {.m = 128, .n = 256}, .stages = 3};
    constexpr Tile tall{.shape = {.m = 256, .n = 128}, .stages = 3};
    constexpr Tile square{.shape = {.m = 128, .n = 128}, .stages = 5};
    constexpr Scaling end = Scaling::epilogue, rows = Scaling::block_1x128, blocks = Scaling::block_128x128;
    const auto add_with = [&](Tile tile, Scaling a, Scaling b, hopper::Family family = hopper::Family::k_grouped) {
        tile.a.scaling = a;
        tile.b.scaling = b;
        tile.family = family;
        add_variants(tile, false, list);
    };
    for (const Tile& tile : {wide, square}) add_with(tile, end, end);
    for (const Tile& tile : {tall, square}) {
        add_with(tile, rows, blocks);
        add_with(tile, rows, Scaling::none);  // folded
    }
    add_with(square, rows, rows);
    // Groups that begin anywhere, as frameworks call them, and per-row scales.
    add_with(square, rows, rows, hopper::Family::k_mapped);
    add_with(wide, end, end, hopper::Family::k_mapped);
}

void add_packed(std::vector<Tile>& list) {
    for (const Tile& tile : shipped_packed_tiles()) add_variants(tile, false, list);
    for (const std::vector<Tile>& kernels : {shipped_bf16_kernels(), shipped_windowed_kernels()}) {
        list.insert(list.end(), kernels.begin(), kernels.end());
    }
}

void add_expanded(std::vector<Tile>& list) {
    for (const hopper::Family family : {hopper::Family::dense, hopper::Family::m_grouped}) {
        for (const Scaling a : {Scaling::block_1x128, Scaling::epilogue}) {
            list.push_back(expanded_tile);
            list.back().family = family;
            list.back().a.scaling = a;
        }
    }
}

}  // namespace

bool has_f32_kernel(const hopper::Tile& tile) {
    using hopper::Scaling;
    constexpr hopper::Shape shapes[] = {{.m = 256, .n = 128}, {.m = 128, .n = 128}};
    constexpr hopper::Shape of_groups{.m = 128, .n = 256};  // of k
    constexpr hopper::Shape of_row_scales[] = {{.m = 128, .n = 128},
                                               {.m = 128, .n = 64},
                                               {.m = 64, .n = 128, .warpgroups = 1},
                                               {.m = 64, .n = 64, .warpgroups = 1}};
    const bool of_rows = tile.a.scaling == Scaling::block_1x128 && tile.b.scaling == Scaling::block_1x128;
    const bool at_end = tile.a.scaling == Scaling::epilogue && tile.b.scaling == Scaling::epilogue;
    if (tile.family == hopper::Family::dense ? !of_rows && !at_end : !is_k_grouped(tile)) return false;
    if (!tile.mma.promoted || !is_consistent(f32_kernel(tile))) return false;
    if (of_rows) return std::ranges::find(of_row_scales, tile.shape) != std::end(of_row_scales);
    return std::ranges::find(shapes, tile.shape) != std::end(shapes) || (is_k_grouped(tile) && tile.shape == of_groups);
}

hopper::Tile fitted(hopper::Tile tile) {
    while (tile.stages > 2 && shared_bytes(tile) > hopper::shared_bytes_limit) --tile.stages;
    return tile;
}

hopper::Tile f32_kernel(hopper::Tile tile) {
    tile.variant = hopper::Variant::fast_f32;
    if (shares_operand(tile)) tile.cluster = {};
    tile.stages = std::max(tile.stages, 8);
    return fitted(tile);
}

std::vector<Tile> pack() {
    std::vector<Tile> all = tile_shapes();
    all.insert(all.end(), shapes_for_few_rows().begin(), shapes_for_few_rows().end());
    std::vector<Tile> list;
    for (const Mode& mode : modes) {
        for (Tile tile : all) {
            const bool groups = serves_groups(tile), serves = mode.serves(tile);
            tile.a.scaling = mode.a;
            tile.b.scaling = mode.b;
            tile.mma.promoted = mode.promoted;
            if (serves) add_variants(tile, groups, list);
        }
    }
    add_mn_major(list);
    add_groups_of_k(list);
    add_packed(list);
    add_expanded(list);
    return list;
}

}  // namespace tilewright::planner
