#include "measure/timing.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include "measure/statistics.h"

namespace tilewright::measure {
namespace {

constexpr std::size_t flush_bytes = std::size_t{256} << 20;

/// SM identifiers may have holes, so there is room for more than are counted.
constexpr std::size_t clock_readings = 1024;

}  // namespace

double call_seconds(std::span<const Activity> ran, std::size_t before, std::size_t after) {
    if (ran.size() <= before + after) {
        throw Error(fmt::format("CUPTI recorded {} kernels where there must be more than {}; stop other profilers",
                                ran.size(), before + after));
    }
    std::uint64_t nanoseconds = 0;
    for (const Activity& each : ran.subspan(before, ran.size() - before - after)) nanoseconds += each.end - each.start;
    return static_cast<double>(nanoseconds) * 1e-9;
}

Stopwatch::Stopwatch(const Device& device, Flush flush)
    : device_(device),
      flush_(flush),
      written_(flush == Flush::none ? 0 : flush_bytes),
      read_(flush == Flush::clean ? flush_bytes : 0),
      clocks_before_(clock_readings * sizeof(ClockReading)),
      clocks_after_(clock_readings * sizeof(ClockReading)) {
    ActivityRecorder::instance();
    read_.fill(0);
}

/// How many kernels that takes.
std::size_t Stopwatch::enqueue_flush() {
    if (flush_ == Flush::none) return 0;
    device_.enqueue_fill(written_, ++turn_, device_.stream());
    if (flush_ == Flush::dirty) return 1;
    device_.enqueue_read(read_, clocks_before_, device_.stream());
    return 2;
}

double Stopwatch::hertz() const {
    std::vector<ClockReading> before(clock_readings);
    std::vector<ClockReading> after(clock_readings);
    clocks_before_.download(before.data(), clocks_before_.size());
    clocks_after_.download(after.data(), clocks_after_.size());
    return average_hertz(before, after);
}

Stopwatch::Lap Stopwatch::time(const Contestant& contestant) {
    clocks_before_.fill(0);
    clocks_after_.fill(0);
    device_.synchronize();
    ActivityRecorder::instance().take_all();
    const std::size_t flushes = enqueue_flush();
    device_.enqueue_clocks(clocks_before_, device_.stream());
    contestant.call(device_.stream());
    device_.enqueue_clocks(clocks_after_, device_.stream());
    device_.synchronize();
    const std::vector<Activity> ran = ActivityRecorder::instance().take_all();
    return {.seconds = call_seconds(ran, flushes + 1, 1), .hertz = hertz()};
}

std::vector<Measurement> Stopwatch::race(std::span<const Contestant> contestants, int repeats) {
    for (const Contestant& contestant : contestants) contestant.call(device_.stream());
    std::vector<std::vector<double>> seconds(contestants.size());
    std::vector<std::vector<double>> hertz(contestants.size());
    for (int round = 0; round < repeats; ++round) {
        for (std::size_t i = 0; i < contestants.size(); ++i) {
            const Lap lap = time(contestants[i]);
            seconds[i].push_back(lap.seconds);
            hertz[i].push_back(lap.hertz);
        }
    }
    std::vector<Measurement> measured;
    for (std::size_t i = 0; i < contestants.size(); ++i) {
        measured.push_back({.seconds = median(seconds[i]), .hertz = median(hertz[i]), .calls = repeats});
    }
    return measured;
}

}  // namespace tilewright::measure
