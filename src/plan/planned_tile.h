// How a kernel divides its work, in numbers: internal, because a public Plan has it as text.
#pragma once

#include <tilewright/plan.h>

#include <optional>
#include <string>
#include <string_view>

#include "hopper/description/kernel.h"

namespace tilewright::planner {

/// The fields of a kernel that the planner chooses. With `swap_ab`, shape.m counts columns of D and shape.n counts
/// rows.
struct PlannedTile {
    hopper::Shape shape{};
    int k = 128;  // k-elements per stage, which follow from the operands
    int stages = 4;
    hopper::Cluster cluster{};
    bool swap_ab = false;

    bool operator==(const PlannedTile&) const = default;
};

/// "256x128x128 stages=4", followed by the values that are not the default, such as "warpgroups=3", "cluster=2",
/// "multicast=b", "swap" and "split=4".
std::string name(const PlannedTile& tile);

/// The inverse of `name`, with the words in any order. Nothing if the text is not a tile, or its cluster has two uses
/// or none.
std::optional<PlannedTile> parse_tile(std::string_view text);

/// The tile of a plan that the planner made.
PlannedTile planned_tile(const Plan& plan);

/// `shapeless` with the tile of another kernel or of a plan.
template <class Tile>
constexpr hopper::Kernel device_tile(const Tile& tile, hopper::Kernel shapeless) {
    shapeless.shape = tile.shape;
    shapeless.stages = tile.stages;
    shapeless.swap_ab = tile.swap_ab;
    shapeless.cluster = tile.cluster;
    return shapeless;
}

/// The tile of a kernel.
PlannedTile planned_tile(const hopper::Kernel& tile);

}  // namespace tilewright::planner
