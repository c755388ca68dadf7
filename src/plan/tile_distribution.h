// How the tiles of D are distributed over the SMs. Counts are doubles, so that no size, however absurd, overflows.
// Cheap units are in a last row of tiles that is computed last (hopper/schedule/dense.h).
#pragma once

#include <cmath>

#include "hopper/description/design.h"
#include "plan/workload.h"

namespace tilewright::planner {

struct TileDistribution {
    double row_tiles = 0;     // Per product; padded to whole clusters where a cluster extends along rows.
    double column_tiles = 0;  // The same along columns.
    double tiles = 0;         // All products together.
    double units = 0;         // Tiles times slices of k. A block computes one unit at a time.
    double full_units = 0;    // Full units that cost as much: a cheap one counts for its warpgroups that have rows.
    double k_blocks = 0;      // Per unit.
    int resident_blocks = 0;  // Blocks that run at once.
    double sharing = 1;       // Blocks on one SM.
    double rounds = 0;        // Full units of the busiest block.

    double waves() const { return resident_blocks == 0 ? 0 : full_units / resident_blocks; }
    int grid() const { return units < resident_blocks ? static_cast<int>(std::ceil(units)) : resident_blocks; }
};

/// The time of a unit in which only some warpgroups have rows, relative to a full one. It is more than their share of
/// the products, because a single warpgroup waits for its promotion.
double relative_time(const hopper::Design& tile, int warpgroups);

/// Blocks of this tile that run at once, in whole clusters.
int resident_blocks(const hopper::Design& tile, int sms);

TileDistribution tile_distribution(const hopper::Design& tile, const Workload& work, const DeviceDescription& device);

/// SMs that this call may use.
int usable_sms(const Workload& work, const DeviceDescription& device);

}  // namespace tilewright::planner
