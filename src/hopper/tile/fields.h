// The fields of a tile as a list. All code that prints a tile (kernel expressions, names for people) uses this list.
#pragma once

#include "hopper/tile/tile.h"

namespace tilewright::hopper {

/// Calls visit.group(name, fields) for each nested struct, where fields() visits its members, and
/// visit.field(name, value) for each member, in order of declaration.
template <class Visitor>
constexpr void visit_fields(const Tile& tile, Visitor& visit) {
    const auto operand = [&](const char* name, const OperandSpec& spec) {
        visit.group(name, [&] {
            visit.field("storage", spec.storage);
            visit.field("scaling", spec.scaling);
            visit.field("major", spec.major);
        });
    };
    visit.group("shape", [&] {
        visit.field("m", tile.shape.m);
        visit.field("n", tile.shape.n);
        visit.field("k", tile.shape.k);
        visit.field("warpgroups", tile.shape.warpgroups);
    });
    visit.field("stages", tile.stages);
    visit.field("swap_ab", tile.swap_ab);
    visit.group("cluster", [&] {
        visit.field("use", tile.cluster.use);
        visit.field("size", tile.cluster.size);
    });
    operand("a", tile.a);
    operand("b", tile.b);
    visit.group("mma", [&] { visit.field("promoted", tile.mma.promoted); });
    visit.field("family", tile.family);
    visit.field("variant", tile.variant);
    if (tile.debug == Debug{}) return;  // for tests only: not part of the names of kernels that ship
    visit.group("debug", [&] {
        visit.field("every_lane_arrives", tile.debug.every_lane_arrives);
        visit.field("stamps", tile.debug.stamps);
    });
}

}  // namespace tilewright::hopper
