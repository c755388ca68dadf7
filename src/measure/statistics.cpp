#include "measure/statistics.h"

#include <algorithm>
#include <cmath>

namespace tilewright::measure {

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double geometric_mean(std::span<const double> values) {
    if (values.empty()) return 0;
    double sum = 0;
    for (const double value : values) sum += std::log(value);
    return std::exp(sum / static_cast<double>(values.size()));
}

double average_hertz(std::span<const ClockReading> before, std::span<const ClockReading> after) {
    double cycles = 0;
    double nanoseconds = 0;
    for (std::size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
        const bool read_twice = before[i].nanoseconds != 0 && after[i].nanoseconds > before[i].nanoseconds;
        if (!read_twice || after[i].cycles <= before[i].cycles) continue;
        cycles += static_cast<double>(after[i].cycles - before[i].cycles);
        nanoseconds += static_cast<double>(after[i].nanoseconds - before[i].nanoseconds);
    }
    return nanoseconds > 0 ? cycles / nanoseconds * 1e9 : 0;
}

}  // namespace tilewright::measure
