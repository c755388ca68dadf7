// The CUDA parts of this machine: driver, GPUs, NVRTC. They are opened at run time, so that one binary also runs on
// machines without them. Probing allocates nothing on a GPU and creates no context.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tilewright::cuda {

/// A library that was searched.
struct Library {
    bool usable = false;
    std::string path{};     // The opened file; empty if none was opened.
    std::string version{};  // For example "13.0".
    std::string problem{};  // The reason that it is not usable.
    std::string advice{};   // The remedy.
};

struct Gpu {
    int index = 0;
    std::string name{};
    int major = 0;  // compute capability
    int minor = 0;
    int multiprocessors = 0;
    std::uint64_t memory_bytes = 0;

    /// Kernels for sm_90a run only on compute capability 9.0.
    bool is_hopper() const { return major == 9 && minor == 0; }
};

struct Probe {
    Library driver;  // libcuda.so.1
    std::vector<Gpu> gpus;
    std::string unreached{};  // as unreached_gpu
    Library nvrtc;            // libnvrtc.so.*
};

/// The first of `gpus` that does not reach the memory of another one, in words; empty if all do.
std::string unreached_gpu(int gpus, const std::function<bool(int index, int other)>& reaches);

/// Never throws because a driver, a GPU or a library is missing.
Probe probe();

}  // namespace tilewright::cuda
