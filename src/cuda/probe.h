// What of CUDA this machine has: driver, GPUs, NVRTC. Opened at run time, so that the same binary runs without any.
// Probing allocates nothing on a GPU and creates no context.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilewright::cuda {

/// A library that was looked for.
struct Library {
    bool usable = false;
    std::string path{};     // what was opened; empty if nothing was
    std::string version{};  // "13.0"
    std::string problem{};  // why it is not usable, and ...
    std::string advice{};   // ... what to do about it
};

struct Gpu {
    int index = 0;
    std::string name{};
    int major = 0;  // compute capability
    int minor = 0;
    int multiprocessors = 0;
    std::uint64_t memory_bytes = 0;

    /// Kernels for sm_90a run on compute capability 9.0 and on nothing else.
    bool is_hopper() const { return major == 9 && minor == 0; }
};

struct Probe {
    Library driver;  // libcuda.so.1
    std::vector<Gpu> gpus;
    Library nvrtc;  // libnvrtc.so.*
};

/// Never throws for lack of a driver, a GPU or a library.
Probe probe();

}  // namespace tilewright::cuda
