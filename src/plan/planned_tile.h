// How a kernel divides its work, in numbers: internal, because a public Plan has it as text.
#pragma once

#include <tilewright/plan.h>

#include <optional>
#include <string>
#include <string_view>

#include "hopper/description/kernel.h"

namespace tilewright::planner {

/// The operand that the thread blocks of a cluster share: it is loaded once and delivered to all of them.
enum class Multicast : std::uint8_t { none, a, b };

/// m and n are the tensor core's: with `swap_ab`, m counts columns of D and n counts rows.
struct PlannedTile {
    int m = 128;
    int n = 128;
    int k = 128;         // k-elements per stage
    int stages = 4;      // stages of the ring in shared memory
    int warpgroups = 2;  // warpgroups that multiply; one more loads
    int cluster = 1;
    Multicast multicast = Multicast::none;
    bool swap_ab = false;  // weights on the tensor core's m, tokens on its n
    int split_k = 1;       // split-K: slices of k, computed in parallel and added in ascending order

    bool operator==(const PlannedTile&) const = default;
};

/// "256x128x128 stages=4", followed by the values that are not the default, such as "warpgroups=3", "cluster=2",
/// "multicast=b", "swap" and "split=4".
std::string name(const PlannedTile& tile);

/// The inverse of `name`, with the words in any order; nothing if the text is not a tile.
std::optional<PlannedTile> parse_tile(std::string_view text);

/// The tile of a plan that the planner made.
PlannedTile planned_tile(const Plan& plan);

/// The kernel's tile for `tile`, with everything else from `family`; and back.
hopper::Kernel device_tile(const PlannedTile& tile, const hopper::Kernel& family);
PlannedTile planned_tile(const hopper::Kernel& tile);

}  // namespace tilewright::planner
