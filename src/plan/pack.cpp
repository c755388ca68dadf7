#include "plan/pack.h"

#include <algorithm>
#include <iterator>

namespace tilewright::planner {
namespace {

using hopper::Multicast;
using hopper::Scaling;
using hopper::Tile;

// Tiles that spill cannot ship; 192x128 does so with scales of both operands' rows (NVRTC 13.0).
struct Mode {
    Scaling a;
    Scaling b;
    bool promoted;
    bool (*serves)(const Tile&);
};

// How a tile is cut: what the planner picks most, its ring as deep as shared memory allows, and the tuned rows' tiles.
// tests/launch/pack_test.cpp holds it against both.
// One warpgroup owns 64 rows or 128.
const std::vector<Tile>& cuts() {
    static const std::vector<Tile> list{
        {.m = 256, .n = 128, .stages = 3},
        {.m = 192, .n = 128, .stages = 4, .warpgroups = 3},
        {.m = 192, .n = 96, .stages = 4, .warpgroups = 3},
        {.m = 128, .n = 192, .stages = 4},
        {.m = 128, .n = 256, .stages = 3},
        {.m = 128, .n = 224, .stages = 3},
        {.m = 128, .n = 176, .stages = 4},
        {.m = 128, .n = 144, .stages = 5},
        {.m = 128, .n = 128, .stages = 5},
        {.m = 128, .n = 112, .stages = 6},
        {.m = 128, .n = 64, .stages = 8},
        {.m = 64, .n = 192, .stages = 5, .warpgroups = 1},
        {.m = 64, .n = 128, .stages = 8, .warpgroups = 1},
        {.m = 64, .n = 64, .stages = 8, .warpgroups = 1},
    };
    return list;
}

/// For few rows: k in slices, so that all SMs read weights, or weights on the tensor core's rows, or both. With these
/// 57 shapes of up to 400 rows, measured on one H200, come within 0.4 % of the best of 293 kernels in the mean, 5 % in
/// the worst; one more tile would gain 0.1 % in the mean.
const std::vector<Tile>& cuts_for_few_rows() {
    static const std::vector<Tile> list = [] {
        std::vector<Tile> tiles{
            {.m = 64, .n = 64, .stages = 12, .warpgroups = 1},
            {.m = 64, .n = 32, .stages = 8, .split_k = 2, .warpgroups = 1},
            {.m = 64, .n = 48, .stages = 12, .split_k = 2, .warpgroups = 1},
            {.m = 64, .n = 64, .stages = 12, .split_k = 2, .warpgroups = 1},
            {.m = 64, .n = 8, .stages = 8, .swap_ab = true, .warpgroups = 1},
            {.m = 64, .n = 8, .stages = 8, .swap_ab = true, .split_k = 2, .warpgroups = 1},
            {.m = 64, .n = 16, .stages = 8, .swap_ab = true, .warpgroups = 1},
            {.m = 64, .n = 16, .stages = 8, .swap_ab = true, .split_k = 2, .warpgroups = 1},
            {.m = 64, .n = 16, .stages = 8, .swap_ab = true, .split_k = 4, .warpgroups = 1},
            {.m = 64, .n = 32, .stages = 16, .swap_ab = true, .warpgroups = 1},
            {.m = 64, .n = 32, .stages = 8, .swap_ab = true, .split_k = 4, .warpgroups = 1},
            {.m = 128, .n = 16, .stages = 8, .swap_ab = true},
            {.m = 128, .n = 16, .stages = 8, .swap_ab = true, .split_k = 2},
            {.m = 128, .n = 32, .stages = 8, .swap_ab = true},
        };
        for (Tile& tile : tiles) tile.cluster = tile.split_k;
        return tiles;
    }();
    return list;
}

/// Pairs of blocks pay where a tile brings much from L2.
bool may_share(const Tile& tile) { return tile.m * tile.n >= 192 * 128; }

/// Groups end in the middle of tiles: what serves them besides the largest tiles are small ones.
bool serves_groups(const Tile& tile) {
    constexpr Tile grouped[] = {{.m = 256, .n = 128, .stages = 3},
                                {.m = 192, .n = 128, .stages = 4, .warpgroups = 3},
                                {.m = 128, .n = 192, .stages = 4},
                                {.m = 128, .n = 256, .stages = 3},
                                {.m = 128, .n = 128, .stages = 5},
                                {.m = 64, .n = 128, .stages = 8, .warpgroups = 1},
                                {.m = 64, .n = 64, .stages = 8, .warpgroups = 1},
                                {.m = 128, .n = 32, .stages = 8, .swap_ab = true}};
    return std::ranges::find(grouped, tile) != std::end(grouped);
}

bool is_for_few_rows(const Tile& tile) {
    return std::ranges::find(cuts_for_few_rows(), tile) != cuts_for_few_rows().end();
}

/// More groups of columns with a 128x128 scale of their own cost more than a better fit gains.
bool scales_of_blocks(const Tile& tile) { return tile.column_groups() <= 3; }
bool promotes(const Tile& tile) { return !is_for_few_rows(tile) || (tile.swap_ab && !tile.splits_k() && tile.n == 16); }
bool scales_of_both(const Tile& tile) {
    return tile.m <= 128 && (tile.n == 64 || tile.n == 128) && !is_for_few_rows(tile);
}
bool plain_sum(const Tile& tile) { return tile.warpgroups < 3 && tile.n >= 64 && !is_for_few_rows(tile); }

constexpr Mode modes[] = {{Scaling::after, Scaling::after, true, promotes},
                          {Scaling::after, Scaling::after, false, plain_sum},
                          {Scaling::row_128, Scaling::block_128, true, scales_of_blocks},
                          {Scaling::row_128, Scaling::row_128, true, scales_of_both}};

void add_pairs(Tile tile, std::vector<Tile>& list) {
    // The larger operand is shared. With three warpgroups the loop that scales rows has no register left for a
    // cluster's addresses (it spills), and the others were never the fastest.
    if (!may_share(tile) || tile.warpgroups == 3 || !tile.plain) return;
    tile.cluster = 2;
    tile.multicast = tile.m > tile.n ? Multicast::a : Multicast::b;
    list.push_back(tile);
}

void add(const Tile& tile, bool groups, std::vector<Tile>& list) {
    list.push_back(tile);
    add_pairs(tile, list);
    if (!groups) return;
    list.push_back(tile);
    list.back().family = hopper::Family::m_grouped;
}

}  // namespace

std::vector<Tile> pack() {
    std::vector<Tile> all = cuts();
    all.insert(all.end(), cuts_for_few_rows().begin(), cuts_for_few_rows().end());
    std::vector<Tile> list;
    for (const Mode& mode : modes) {
        for (Tile tile : all) {
            const bool groups = serves_groups(tile), serves = mode.serves(tile);
            tile.a_scaling = mode.a;
            tile.b_scaling = mode.b;
            tile.promoted = mode.promoted;
            if (!serves) continue;
            for (bool plain : {false, true}) {
                tile.plain = plain;
                add(tile, groups, list);
            }
            // Other tiles' plain kernels load such scales, launch.cpp.
            if (mode.a != Scaling::row_128 || tile.swap_ab || tile.splits_k()) continue;
            tile.scales_by_row = true;
            add(tile, groups, list);
        }
    }
    return list;
}

std::vector<Tile> shipped_tiles(const Tile& family) {
    static const std::vector<Tile> all = pack();
    std::vector<Tile> list;
    for (Tile tile : all) {
        // A tile ships in several kernels; which of them runs depends on the call.
        tile.plain = tile.scales_by_row = false;
        tile.a = family.a;
        tile.b = family.b;
        const bool serves = tile.k == family.k && tile.a_scaling == family.a_scaling &&
                            tile.b_scaling == family.b_scaling && tile.promoted == family.promoted &&
                            tile.family == family.family;
        if (serves && std::ranges::find(list, tile) == list.end()) list.push_back(tile);
    }
    return list;
}

bool ships(const Tile& tile) {
    const std::vector<Tile> list = shipped_tiles(tile);
    return std::ranges::find(list, tile) != list.end();
}

}  // namespace tilewright::planner
