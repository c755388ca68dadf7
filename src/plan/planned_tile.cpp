#include "plan/planned_tile.h"

#include "hopper/description/derive.h"

namespace tilewright::planner {

hopper::Kernel device_tile(const PlannedTile& tile, const hopper::Kernel& family) {
    hopper::Kernel result = family;
    result.shape = {.m = tile.m, .n = tile.n, .warpgroups = tile.warpgroups};
    result.stages = tile.stages;
    result.swap_ab = tile.swap_ab;
    switch (tile.multicast) {
        case Multicast::none: result.cluster = hopper::split_k(tile.split_k); break;
        case Multicast::a: result.cluster = hopper::share_a(tile.cluster); break;
        case Multicast::b: result.cluster = hopper::share_b(tile.cluster); break;
    }
    return result;
}

PlannedTile planned_tile(const hopper::Kernel& tile) {
    const hopper::Design design = design_of(tile);
    const auto multicast = [&] {
        if (!tile.cluster.shares_operand()) return Multicast::none;
        return tile.cluster.use == hopper::ClusterUse::share_a ? Multicast::a : Multicast::b;
    };
    return {.m = tile.shape.m,
            .n = tile.shape.n,
            .k = design.stage_k,
            .stages = tile.stages,
            .warpgroups = tile.shape.warpgroups,
            .cluster = tile.cluster.size,
            .multicast = multicast(),
            .swap_ab = tile.swap_ab,
            .split_k = design.k_slices};
}

}  // namespace tilewright::planner
