// How the tiles of D spread over the SMs. Counts are doubles, so that no size, however absurd, overflows.
#pragma once

#include "plan/work.h"

namespace tilewright::planner {

struct Spread {
    double row_tiles = 0;     // of one product; padded to whole clusters where a cluster lies along rows
    double column_tiles = 0;  // likewise
    double tiles = 0;         // of all products
    double units = 0;         // tiles times slices of k: what a block computes at a time
    double k_blocks = 0;      // of one unit
    int slots = 0;            // blocks that run at once
    double sharing = 1;       // of them on one SM
    double rounds = 0;        // units of the busiest block

    double waves() const { return slots == 0 ? 0 : units / slots; }
    int grid() const { return units < slots ? static_cast<int>(units) : slots; }
};

/// Blocks of this tile that run at once, in whole clusters.
int slots(const hopper::Tile& tile, int sms);

Spread spread(const hopper::Tile& tile, const Work& work, const DeviceDescription& device);

/// SMs that this call may use.
int usable_sms(const Work& work, const DeviceDescription& device);

}  // namespace tilewright::planner
