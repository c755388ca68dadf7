#include "plan/shipped_tiles.h"

#include <algorithm>

#include "hopper/tile/operands.h"
#include "plan/pack.h"

namespace tilewright::planner {

using hopper::Scaling;
using hopper::Tile;
using hopper::Variant;

namespace {

Tile with_shape(Tile family, const Tile& tile) {
    family.shape = tile.shape;
    family.stages = tile.stages;
    return family;
}

}  // namespace

std::vector<Tile> shipped_tiles(const Tile& family) {
    static const std::vector<Tile> all = pack();
    std::vector<Tile> list;
    for (Tile tile : all) {
        if (stores_f32(tile)) continue;        // it may have other stages than the tile that it is one of
        if (!has_fast_scales(tile)) continue;  // unshipped_tiles has it among all others
        if (has_packed_weights(tile) != has_packed_weights(family)) continue;
        // A tile ships in several kernels; which of them runs depends on the call.
        tile.variant = Variant::general;
        // Next to 1x32 scales bf16 on both sides has fp8's shapes, in as many bytes.
        const bool as_fp8 = promotes_each_step(family) && !has_packed_weights(family);
        if (multiplies_bf16(tile) != (multiplies_bf16(family) && !as_fp8)) continue;
        if (multiplies_bf16(tile)) tile.a.scaling = family.a.scaling;
        // Shapes for 1x128 scales also serve 1x32, compiled on first use, with 64 rows per warpgroup.
        if (tile.a.scaling == Scaling::block_1x128 && promotes_each_step(family) && !has_mn_major(tile)) {
            if (has_packed_weights(tile)) tile.shape.warpgroups = tile.shape.m / hopper::wgmma_m;
            if (rows_per_warpgroup(tile) != hopper::wgmma_m) continue;
            tile.shape.k = family.shape.k;
            tile.a.scaling = family.a.scaling;
            tile.b.scaling = family.b.scaling;
            tile.mma = family.mma;
        }
        tile.a.storage = family.a.storage;
        tile.b = {family.b.storage, has_packed_weights(family) ? family.b.scaling : tile.b.scaling, tile.b.major};
        // Stages hold more scales than those of the tile that ships.
        if (multiplies_bf16(tile) && scales_in_mainloop(tile)) tile = fitted(tile);
        const bool serves =
            tile.a == family.a && tile.b == family.b && tile.mma == family.mma && tile.family == family.family;
        if (serves && std::ranges::find(list, tile) == list.end()) list.push_back(tile);
    }
    if (promotes_each_step(family) && !has_packed_weights(family)) {
        list.push_back(with_shape(family, step_tile));
        list.back().shape.k = family.shape.k;
    }
    return list;
}

std::vector<Tile> unshipped_tiles(const Tile& family) {
    if (has_fast_scales(family)) return {};
    Tile model = family;
    model.a.scaling = Scaling::block_1x128;
    model.b.scaling = Scaling::block_128x128;
    if (maps_groups(family)) model.family = hopper::Family::k_grouped;
    if (family.family == hopper::Family::dense && !has_mn_major(family)) model.family = hopper::Family::m_grouped;
    std::vector<Tile> list = shipped_tiles(model);
    // The model assumes that general kernels are as fast as kernels that load scales by TMA. For 1x128 : row, 192x128
    // takes 1.40 times as long as FP8's fast 128x256, and 128x256 1.11 times
    // (docs/experiments/020-expanded-weights.md).
    std::erase_if(list, [](const Tile& tile) { return tile.cluster.size > 1 || tile.shape.warpgroups == 3; });
    for (Tile& tile : list) {
        tile.a.scaling = family.a.scaling;
        tile.b.scaling = family.b.scaling;
        tile.family = family.family;
    }
    return list;
}

bool ships(const Tile& tile) {
    const std::vector<Tile> list = shipped_tiles(tile);
    return std::ranges::find(list, tile) != list.end();
}

std::vector<Tile> expanded_tiles(const Tile& family) {
    if (multiplies_bf16(family)) return {with_shape(family, expanded_bf16_tile)};
    return {with_shape(family, promotes_each_step(family) ? expanded_step_tile : expanded_tile)};
}

}  // namespace tilewright::planner
