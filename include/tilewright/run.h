// Runs a problem on a backend.
#pragma once

#include <tilewright/plan.h>
#include <tilewright/problem.h>

#include <cstdint>
#include <functional>

namespace tilewright {

/// Memory of the GPU that holds the operands, aligned to 128 bytes and shared with none of them. A call overwrites it
/// until it has ended on its stream; calls that may run at once need one each.
struct Workspace {
    void* data = nullptr;
    std::int64_t bytes = 0;
};

/// Bytes of workspace that a call on a GPU needs beyond its operands: where no kernel reads an operand as it is,
/// kernels of the same call write a copy of it there, packed weights, what the scales of MXFP4 weights are to a kernel
/// that reads their codes as they are, or packed weights as e4m3 or bf16 where a group has many rows: at least 768 next
/// to 1x128 and MXFP8, 1,280 next to other fp8, next to bf16 2,048 of MXFP4 and 1,280 of NVFP4, and 1 GiB at most. 0
/// for most calls, and for those in which `validate` finds something. Follows from the shapes, strides and `expected_m`
/// alone, but for MXFP4 weights at an address that is no multiple of 16, which take more: all pointers may be null.
std::int64_t workspace_bytes(const Problem& problem);

struct RunOptions {
    Backend backend = Backend::automatic;
    void* stream = nullptr;  // GPU: the CUstream to launch on
    int threads = 0;         // CPU: OpenMP threads; 0 = OpenMP's own choice
    /// GPU: the kernel may start while the one ahead of it in the stream ends, and waits for it inside (programmatic
    /// dependent launch). The result is the same; what a sequence of short kernels gains, `tilewright bench --overlap`
    /// shows.
    bool overlap = false;
    /// GPU: `workspace_bytes(problem)` bytes or more; not looked at where that is 0.
    Workspace workspace{};
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

/// Computes D. Throws Error, before writing anything, with every finding of `validate`, or one about the workspace.
void run(const Problem& problem, const RunOptions& options = {});

}  // namespace tilewright
