// Calls back to back on one stream: measures the gain if a kernel starts while the previous one ends.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "measure/activity.h"
#include "measure/device.h"

namespace tilewright::measure {

constexpr int sequence_calls = 20;

/// Seconds of one call among `sequence_calls`: from the start of the first kernel to the end of the last one, over
/// their number. The time of a single call cannot show the gain of overlapping, because the intervals of such kernels
/// overlap too. L2 is not flushed between the calls: operands stay in it where they fit.
struct SequenceTimes {
    double apart = 0;        // each kernel starts when the one ahead of it has ended
    double overlapping = 0;  // RunOptions::overlap
};

/// The same from the activities, by start: `before` kernels of this program, then the kernels of `calls` calls. Throws
/// Error if the calls have fewer than one kernel each.
double sequence_seconds(std::span<const Activity> ran, std::size_t before, int calls);

using Call = std::function<void(cuda::StreamHandle)>;

/// Both kinds of sequence in turn, the median of `repeats` each. The GPU is kept busy until all calls are enqueued, so
/// that it never waits for the host within one.
SequenceTimes time_sequences(const Device& device, const Call& apart, const Call& overlapping, int repeats);

}  // namespace tilewright::measure
