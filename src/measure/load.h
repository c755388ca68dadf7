// Continuous load: one call back to back for seconds, so that the clock is the one that the power limit leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "measure/device.h"
#include "measure/power.h"
#include "measure/sequence.h"

namespace tilewright::measure {

struct LoadSeconds {
    double warm_up = 4;
    double measured = 4;
};

/// L2 is not flushed: each call finds what the previous one left there.
struct SustainedTime {
    double seconds = 0;  // per call: the total over the number of calls
    double hertz = 0;    // the SM clock's mean
    std::int64_t calls = 0;
    std::optional<double> watts{};
};

/// The GPU never waits for the host if a call takes longer than enqueuing it. `meter` may be null.
SustainedTime sustain(const Device& device, const Call& call, const LoadSeconds& length, PowerMeter* meter);

/// The number of calls to enqueue at once next, after `batch` calls took `seconds`: `batch` itself if that is long
/// enough.
std::int64_t next_batch(std::int64_t batch, double seconds);

}  // namespace tilewright::measure
