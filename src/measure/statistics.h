// Statistics of repeated measurements: medians, geometric means, a clock from two readings of its counters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tilewright::measure {

/// For an even number the mean of the middle two; zero for none.
double median(std::vector<double> values);

/// For positive numbers; zero for none.
double geometric_mean(std::span<const double> values);

/// One SM's counters: its own clock, and nanoseconds. Zero: this SM was not read.
struct ClockReading {
    std::uint64_t cycles = 0;
    std::uint64_t nanoseconds = 0;
};

/// Cycles over time between two readings of all SMs, in hertz; SMs that were not read twice do not count. Zero if none
/// was, or no time has passed.
double average_hertz(std::span<const ClockReading> before, std::span<const ClockReading> after);

}  // namespace tilewright::measure
