// What the fake libcuda.so.1 was asked to do, and how it should behave: one struct, shared by the fake and
// the tests that open it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "cuda/driver.h"
#include "hopper/arguments.h"

namespace tilewright::test {

struct FakeLaunch {
    cuda::LaunchConfig config{};
    cuda::LaunchAttribute attribute{};
    void* kernel = nullptr;
    int device = -1;  // of the context that was current
    hopper::Arguments arguments{};
};

struct FakeDriver {
    // What the machine is.
    int devices = 2;
    int capability_major = 9;
    int capability_minor = 0;
    int multiprocessors = 132;
    int clock_kilohertz = 1980000;
    int l2_bytes = 52428800;
    const char* name = "NVIDIA H200";
    const char* failing_call = nullptr;  // this function returns `failure`
    int failure = 2;

    // What was done.
    std::atomic<int> maps{0};
    std::atomic<int> launches{0};
    std::atomic<int> libraries{0};
    std::atomic<int> pushes{0};
    std::atomic<int> pops{0};
    std::atomic<int> host_allocations{0};
    std::atomic<int> strict_loads{0};  // kernels loaded or memory allocated while captures are not relaxed
    std::atomic<int> shared_bytes{0};  // the last attribute of a kernel
    FakeLaunch last{};
    FakeLaunch before_last{};
    bool record_last = true;                        // off where many threads launch
    bool record_arguments = true;                   // off where kernels take others
    int others_first = 0;                           // so many launches whose kernels take others are next
    std::array<hopper::KernelReport, 8> reports{};  // what was allocated in host memory, one after another
};

}  // namespace tilewright::test

extern "C" tilewright::test::FakeDriver* tilewright_fake_driver();
extern "C" void tilewright_fake_make_current(int device);  // -1: no context
