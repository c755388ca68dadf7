#include "measure/load.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <vector>

#include "measure/statistics.h"

namespace tilewright::measure {
namespace {

constexpr unsigned timed_event = 0;                   // CU_EVENT_DEFAULT
constexpr double least_batch_seconds = 5e-3;          // long compared with the time that the host needs to wake up
constexpr std::int64_t most_calls_of_a_batch = 4096;  // a stream holds some thousand launches before it blocks
constexpr std::size_t clock_readings = 1024;

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

class Event {
public:
    Event() { cuda::driver().require(cuda::driver().call.event_create(&handle_, timed_event), "cuEventCreate", 0); }
    ~Event() { cuda::driver().call.event_destroy(handle_); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    void record(cuda::StreamHandle stream) const {
        cuda::driver().require(cuda::driver().call.event_record(handle_, stream), "cuEventRecord", 0);
    }
    void synchronize() const {
        cuda::driver().require(cuda::driver().call.event_synchronize(handle_), "cuEventSynchronize", 0);
    }
    double seconds_since(const Event& earlier) const {
        float milliseconds = 0;
        const int result = cuda::driver().call.event_milliseconds(&milliseconds, earlier.handle_, handle_);
        cuda::driver().require(result, "cuEventElapsedTime", 0);
        return milliseconds * 1e-3;
    }

private:
    cuda::EventHandle handle_ = nullptr;
};

class Load {
public:
    Load(const Device& device, const Call& call) : device_(device), call_(call) {
        call_(device_.stream());  // includes one-time work: kernels are loaded
        for (std::int64_t next = 1; next != batch_;) {
            batch_ = next;
            device_.synchronize();
            const Clock::time_point begin = Clock::now();
            enqueue_batch();
            device_.synchronize();
            next = next_batch(batch_, since(begin));
        }
    }

    /// Batch after batch, of which two are enqueued at any time; how many calls.
    std::int64_t run(double seconds) {
        std::int64_t calls = 0;
        for (const Clock::time_point begin = Clock::now(); calls == 0 || since(begin) < seconds; calls += batch_) {
            enqueue_batch();
            const Event& ahead = ends_[turn_];
            turn_ = 1 - turn_;
            ends_[turn_].record(device_.stream());
            if (begun_) ahead.synchronize();
            begun_ = true;
        }
        return calls;
    }

private:
    void enqueue_batch() {
        for (std::int64_t i = 0; i < batch_; ++i) call_(device_.stream());
    }

    const Device& device_;
    const Call& call_;
    std::int64_t batch_ = 0;
    std::array<Event, 2> ends_;
    std::size_t turn_ = 0;
    bool begun_ = false;
};

std::vector<ClockReading> readings(const Buffer& buffer) {
    std::vector<ClockReading> list(clock_readings);
    buffer.download(list.data(), buffer.size());
    return list;
}

}  // namespace

std::int64_t next_batch(std::int64_t batch, double seconds) {
    if (seconds >= least_batch_seconds) return batch;
    return std::min(2 * batch, most_calls_of_a_batch);
}

SustainedTime sustain(const Device& device, const Call& call, const LoadSeconds& length, PowerMeter* meter) {
    const Buffer clocks_before(clock_readings * sizeof(ClockReading));
    const Buffer clocks_after(clock_readings * sizeof(ClockReading));
    const Event begin;
    const Event end;
    clocks_before.fill(0);
    clocks_after.fill(0);
    Load load(device, call);
    load.run(length.warm_up);
    device.enqueue_clocks(clocks_before, device.stream());
    begin.record(device.stream());
    if (meter != nullptr) meter->start();
    SustainedTime time{.calls = load.run(length.measured)};
    // Two batches are still enqueued: the last reading is one of a loaded GPU too.
    if (meter != nullptr) time.watts = meter->stop();
    end.record(device.stream());
    device.enqueue_clocks(clocks_after, device.stream());
    device.synchronize();
    time.seconds = end.seconds_since(begin) / static_cast<double>(time.calls);
    time.hertz = average_hertz(readings(clocks_before), readings(clocks_after));
    return time;
}

}  // namespace tilewright::measure
