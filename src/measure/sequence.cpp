#include "measure/sequence.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "measure/statistics.h"

namespace tilewright::measure {
namespace {

constexpr std::size_t filled_bytes = std::size_t{256} << 20;
constexpr std::size_t first_fills = 8;  // half a millisecond of an H200
constexpr std::size_t most_fills = 64;

class Sequence {
public:
    explicit Sequence(const Device& device) : device_(device), filled_(filled_bytes) {}

    double seconds(const Call& call) {
        for (;; fills_ *= 2) {
            device_.synchronize();
            ActivityRecorder::instance().take_all();
            const double enqueued = enqueue(call);
            device_.synchronize();
            const std::vector<Activity> ran = ActivityRecorder::instance().take_all();
            const double of_a_call = sequence_seconds(ran, fills_, sequence_calls);
            // The first fill started after the host began: the host was done before the last one ended.
            const double busy = static_cast<double>(ran[fills_ - 1].end - ran[0].start) * 1e-9;
            if (enqueued <= busy) return of_a_call;
            if (fills_ >= most_fills) {
                throw Error(
                    fmt::format("the host takes {:.0f} us to enqueue {} calls, longer than the GPU can be kept busy "
                                "({:.0f} us); stop other work on this machine",
                                enqueued * 1e6, sequence_calls, busy * 1e6));
            }
        }
    }

private:
    /// The host's time for it.
    double enqueue(const Call& call) {
        const auto begin = std::chrono::steady_clock::now();
        for (std::size_t i = 0; i < fills_; ++i) device_.enqueue_fill(filled_, ++turn_, device_.stream());
        for (int i = 0; i < sequence_calls; ++i) call(device_.stream());
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }

    const Device& device_;
    Buffer filled_;
    std::size_t fills_ = first_fills;
    std::uint32_t turn_ = 0;
};

}  // namespace

double sequence_seconds(std::span<const Activity> ran, std::size_t before, int calls) {
    if (ran.size() < before + static_cast<std::size_t>(calls)) {
        throw Error(fmt::format("CUPTI recorded {} kernels where there must be {} or more; stop other profilers",
                                ran.size(), before + static_cast<std::size_t>(calls)));
    }
    const std::span<const Activity> calls_alone = ran.subspan(before);
    const auto ends_first = [](const Activity& x, const Activity& y) { return x.end < y.end; };
    const std::uint64_t end = std::max_element(calls_alone.begin(), calls_alone.end(), ends_first)->end;
    return static_cast<double>(end - calls_alone.front().start) * 1e-9 / calls;
}

SequenceTimes time_sequences(const Device& device, const Call& apart, const Call& overlapping, int repeats) {
    Sequence sequence(device);
    std::vector<double> apart_seconds;
    std::vector<double> overlapping_seconds;
    for (int round = 0; round < repeats; ++round) {
        apart_seconds.push_back(sequence.seconds(apart));
        overlapping_seconds.push_back(sequence.seconds(overlapping));
    }
    return {.apart = median(apart_seconds), .overlapping = median(overlapping_seconds)};
}

}  // namespace tilewright::measure
