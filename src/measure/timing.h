// Device times of calls that compete in the same run: one after another, round by round, each with L2 flushed before
// it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "measure/activity.h"
#include "measure/device.h"

namespace tilewright::measure {

/// The flush before a call. Each kind moves 256 MB, more than any L2 holds.
enum class Flush {
    clean,  // written, then as much read: the operands are not in L2, and no line is dirty
    dirty,  // written
    none,
};

struct Contestant {
    std::string name;
    std::function<void(cuda::StreamHandle)> call;  // enqueues on that stream, and does not wait
};

struct Measurement {
    double seconds = 0;  // median over the calls of all kernels of one added up
    double hertz = 0;    // the SM clock, median
    int calls = 0;
};

/// Seconds of the call among the activities, by start: `before` kernels of this program, the call's, `after` more of
/// this program. Throws Error if none is left for the call.
double call_seconds(std::span<const Activity> ran, std::size_t before, std::size_t after);

class Stopwatch {
public:
    Stopwatch(const Device& device, Flush flush);

    /// In the order of the contestants; each is called once before anything is timed.
    std::vector<Measurement> race(std::span<const Contestant> contestants, int repeats);

private:
    struct Lap {
        double seconds = 0;
        double hertz = 0;
    };
    Lap time(const Contestant& contestant);
    std::size_t enqueue_flush();
    double hertz() const;

    const Device& device_;
    Flush flush_;
    Buffer written_;
    Buffer read_;
    Buffer clocks_before_;
    Buffer clocks_after_;
    std::uint32_t turn_ = 0;
};

}  // namespace tilewright::measure
