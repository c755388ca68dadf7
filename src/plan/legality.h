// What cannot be: each reason is stated once, in words with its numbers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/work.h"

namespace tilewright::planner {

/// Why no Hopper kernel serves the problem, whatever the tile; empty if one does.
std::vector<Finding> obstacles(const Work& work);

/// Whether gemm.h can be compiled for this tile, if it is otherwise legal.
constexpr bool has_kernel(const hopper::Tile& tile) {
    const bool fp8 = hopper::bits(tile.a) == 8 && hopper::bits(tile.b) == 8;
    return fp8 && tile.family != hopper::Family::k_grouped;
}

struct Objection {
    std::string rule;  // as RejectedTile has it
    std::string reason;
};

/// Why this tile cannot be built, or not for this work on this device; nothing if it can.
std::optional<Objection> why_illegal(const hopper::Tile& tile, const Work& work, const DeviceDescription& device);

}  // namespace tilewright::planner
