// Runs a problem on a backend.
#pragma once

#include <tilewright/plan.h>
#include <tilewright/problem.h>

#include <functional>

namespace tilewright {

struct RunOptions {
    Backend backend = Backend::automatic;
    void* stream = nullptr;  // GPU: the CUstream to launch on
    int threads = 0;         // CPU: OpenMP threads; 0 = OpenMP's own choice
    /// GPU: the kernel may start while the one ahead of it in the stream ends, and waits for it inside (programmatic
    /// dependent launch). The result is the same; what a sequence of short kernels gains, `tilewright bench --overlap`
    /// shows.
    bool overlap = false;
    /// CPU: called by the calling thread about every 50 ms of a long call. Where it returns true, the call ends by
    /// `Cancelled`; where it throws, by that exception. D is then written in part, never outside its elements.
    std::function<bool()> cancelled{};
    /// Whose bits: where k is split follows from the plan, and the plan from the device. CPU, bit-exact results: the
    /// device whose kernels are followed; null: `default_device()`. GPU: plan as this device would, anew at each call;
    /// null: the GPU that holds the tensors.
    const DeviceDescription* device = nullptr;
};

/// GPU 0 if there is a driver and it is a Hopper, the H200 otherwise. Decided once in a process, at the first call that
/// asks: a bit-exact result on the CPU that names no device. It initialises the driver (cuInit, no context), after
/// which a forked child cannot use CUDA: name a device to leave the driver closed.
const DeviceDescription& default_device();

/// Computes D. Throws Error, before writing anything, with every finding of `validate`.
void run(const Problem& problem, const RunOptions& options = {});

}  // namespace tilewright
