// Integers of the caller in the device's memory: group sizes, ends, counts, ids. They are int32 or int64, and never
// trusted.
#pragma once

#include "hopper/ptx/lanes.h"

namespace tilewright::hopper {

/// The integer at `at` of an array.
TILEWRIGHT_DEVICE i64 load_integer(const void* data, bool is_64_bit, i64 at) {
    if (is_64_bit) return load_global(static_cast<const i64*>(data) + at);
    return load_global(static_cast<const int*>(data) + at);
}

/// Within 0 .. `most`.
TILEWRIGHT_DEVICE int clamped(i64 value, int most) { return value < 0 ? 0 : value < most ? int(value) : most; }

/// The next multiple of the alignment, limited to `most`.
TILEWRIGHT_DEVICE int next_aligned(int value, int alignment, int most) {
    if (alignment == 1) return value;
    const int rest = value % alignment, missing = rest == 0 ? 0 : alignment - rest;
    return missing <= most - value ? value + missing : most;
}

/// Where each lane's range begins: at the furthest end of the earlier lanes' ranges, and not before `next`. `next`
/// becomes the beginning of the range after the last lane's. By a warp together.
TILEWRIGHT_DEVICE int begin_after_earlier(int end, int& next) {
    const int furthest = largest_of_lanes(end);
    const int before = from_lane(furthest, lane_index() - 1);
    const int begin = lane_index() > 0 && before > next ? before : next;
    const int last = from_lane(furthest, warp_threads - 1);
    next = last > next ? last : next;
    return begin;
}

}  // namespace tilewright::hopper
