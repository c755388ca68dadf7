// What a fake libcuda.so.1 with a GPU that only takes time has seen: shared by the fake and the test that opens it.
#pragma once

#include <chrono>
#include <cstdint>

namespace tilewright::test {

struct FakeGpu {
    using Clock = std::chrono::steady_clock;
    using Time = Clock::time_point;

    std::chrono::microseconds call_time{1000};
    double hertz = 1.5e9;
    Time free_at = Clock::now();  // when all that is enqueued has run

    int calls = 0;
    int idle = 0;            // calls before which the GPU had nothing to do
    Clock::duration most{};  // that was enqueued at any time
    int clock_readings = 0;
    int live_events = 0;
};

}  // namespace tilewright::test

extern "C" tilewright::test::FakeGpu* tilewright_fake_gpu();
/// Enqueues a call.
extern "C" void tilewright_fake_call();
