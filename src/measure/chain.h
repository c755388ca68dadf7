// Calls back to back on one stream: what it saves that a kernel starts while the one ahead of it ends.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "measure/activity.h"
#include "measure/device.h"

namespace tilewright::measure {

constexpr int chain_calls = 20;

/// Seconds of one call among `chain_calls`: from the start of the first kernel to the end of the last one, over their
/// number. The time of a call by itself cannot show what overlapping saves, as the intervals of such kernels overlap
/// too. L2 is not flushed between the calls: operands stay in it where they fit.
struct ChainTimes {
    double apart = 0;        // each kernel starts when the one ahead of it has ended
    double overlapping = 0;  // RunOptions::overlap
};

/// Of the call among what ran, by start: `before` of our own kernels, then those of `calls` calls. Throws Error if
/// these are fewer than one for each call.
double chain_seconds(std::span<const Activity> ran, std::size_t before, int calls);

using Call = std::function<void(cuda::StreamHandle)>;

/// Both kinds of chain in turn, the median of `repeats` each. The GPU is kept busy until a chain is enqueued whole, so
/// that it never waits for the host within one.
ChainTimes time_chains(const Device& device, const Call& apart, const Call& overlapping, int repeats);

}  // namespace tilewright::measure
