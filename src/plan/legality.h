// What cannot be: each reason is stated once, in words with its numbers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/work.h"

namespace tilewright::planner {

/// Why no Hopper kernel serves the problem, whatever the tile; empty if one does.
std::vector<Finding> obstacles(const Work& work);

struct Objection {
    std::string rule;  // as RejectedTile has it
    std::string reason;
};

/// Why this tile cannot be built, or not for this work on this device; nothing if it can.
std::optional<Objection> why_illegal(const hopper::Tile& tile, const Work& work, const DeviceDescription& device);

/// The same for a tile that a person or a tuned row named, whose fields may contradict each other.
std::optional<Objection> why_illegal(const PlannedTile& tile, const Work& work, const DeviceDescription& device);

}  // namespace tilewright::planner
