// Functions of a warp's lanes together, in which each lane has a separate number.
#pragma once

#include "hopper/ptx/ptx.h"

namespace tilewright::hopper {

/// The sum over this lane and all earlier lanes.
TILEWRIGHT_DEVICE int sum_of_lanes(int value) {
    const int lane = lane_index();
#pragma unroll
    for (int step = 1; step < warp_threads; step *= 2) {
        const int before = from_lane(value, lane - step);
        if (lane >= step) value += before;
    }
    return value;
}

/// The maximum over this lane and all earlier lanes. Values that ascend already, as the usual ends of groups, take one
/// step in place of five.
TILEWRIGHT_DEVICE int largest_of_lanes(int value) {
    const int lane = lane_index(), left = from_lane(value, lane - 1);
    if (ballot(lane > 0 && left > value) == 0) return value;
#pragma unroll
    for (int step = 1; step < warp_threads; step *= 2) {
        const int before = from_lane(value, lane - step);
        if (lane >= step && before > value) value = before;
    }
    return value;
}

}  // namespace tilewright::hopper
