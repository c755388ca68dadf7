// The record and the settings of the fake libcuda.so.1: one struct, shared by the fake and the tests that open it.
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
    int device = -1;                   // of the context that was current
    hopper::AllArguments arguments{};  // of a product; other kernels take others
};

struct FakeDriver {
    // The machine.
    int devices = 2;
    int capability_major = 9;
    int capability_minor = 0;
    int multiprocessors = 132;
    int clock_kilohertz = 1980000;
    int l2_bytes = 52428800;
    const char* name = "NVIDIA H200";
    const char* failing_call = nullptr;  // this function returns `failure`
    int failure = 2;
    int failing_device = -1;           // only where this one is current; -1: on all
    void* capturing = nullptr;         // this stream is
    bool reaches_peers = true;         // each device the others
    std::atomic<int> busy_queries{0};  // the next N queries of a stream find it busy
    int largest_cluster = 16;          // blocks
    bool refuses_large = false;        // to allow a kernel clusters of more than 8

    // The calls so far.
    std::atomic<int> maps{0};
    std::atomic<int> launches{0};
    std::atomic<int> libraries{0};
    std::atomic<int> pushes{0};
    std::atomic<int> misplaced_questions{0};  // of the current context's device, where there is no context
    std::atomic<int> pops{0};
    std::atomic<int> host_allocations{0};
    std::atomic<int> strict_loads{0};       // kernels loaded or memory allocated while captures are not relaxed
    std::atomic<int> allocations{0};        // that are not freed
    std::atomic<std::size_t> allocated{0};  // bytes of the last one
    std::atomic<int> imports{0};            // that are not closed
    std::atomic<int> waits{0};              // for streams
    std::atomic<int> shared_bytes{0};       // the last attribute of a kernel
    std::atomic<bool> allows_large{false};  // clusters of more than 8 blocks, of some kernel
    FakeLaunch last{};
    FakeLaunch before_last{};
    bool record_last = true;                        // off where many threads launch
    std::array<hopper::KernelReport, 8> reports{};  // what was allocated in host memory, one after another
};

}  // namespace tilewright::test

extern "C" tilewright::test::FakeDriver* tilewright_fake_driver();
extern "C" void tilewright_fake_make_current(int device);  // -1: no context
