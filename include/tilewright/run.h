// Runs a problem on a backend, and computes how much workspace a GPU needs for it.
#pragma once

#include <tilewright/plan.h>
#include <tilewright/problem.h>

#include <cstdint>
#include <functional>

namespace tilewright {

/// Memory on the GPU that holds the operands, aligned to 128 bytes, which overlaps no operand. A call may overwrite it
/// until the call has ended on its stream. Calls that may run at the same time need separate workspaces.
struct Workspace {
    void* data = nullptr;
    std::int64_t bytes = 0;
};

/// Bytes of workspace that a call on a GPU needs in addition to its operands. 0 for most calls, and for calls that
/// `validate` rejects. Computed from shapes, strides and `expected_m`: all pointers may be null. One exception: MXFP4
/// weights at an address that is not a multiple of 16 need more.
///
/// Kernels of the same call write there what no kernel can read in place:
/// - a copy of an operand along k;
/// - activations or weights, decoded;
/// - unpacked FP4 weights, packed;
/// - for MXFP4 weights that a kernel reads unpacked, their scales in the form that it needs;
/// - packed weights expanded to e4m3 or bf16, for groups with many rows, up to 1 GiB.
///
/// Packed weights are expanded from this many rows per group on (src/problem/expansion.cpp has further limits):
/// - MXFP4 weights with fp8 1x128 or MXFP8 activations: 768.
/// - MXFP4 weights with fp8 tensor or row activations: 1,280.
/// - MXFP4 weights with bf16 or NVFP4 activations: 2,048.
/// - NVFP4 weights with bf16 or NVFP4 activations: 1,280.
std::int64_t workspace_bytes(const Problem& problem);

struct RunOptions {
    Backend backend = Backend::automatic;
    void* stream = nullptr;  // GPU: the CUstream to launch on
    int threads = 0;         // CPU: OpenMP threads; 0 = OpenMP's own choice
    /// GPU: programmatic dependent launch. The kernel may start while the previous kernel in the stream ends, and waits
    /// for it inside. The result is the same. A layer of experts of up to 4,096 rows does so between its own kernels;
    /// with this, its first kernel does too. `tilewright bench --overlap` shows the gain for a sequence of short
    /// kernels.
    bool overlap = false;
    /// GPU, with `overlap`: a promise about B, its scales and the sizes of groups. No kernel that may still run when
    /// this one starts writes them. A kernel with groups of rows then loads weights while it waits; other kernels
    /// ignore the promise. It holds for weights that do not change and sizes that were written two kernels ago. A
    /// kernel of this library lets the next one start after its own predecessor has ended.
    bool weights_ready = false;
    /// GPU: at least `workspace_bytes(problem)` bytes; ignored where that is 0.
    Workspace workspace{};
    /// CPU: called by the calling thread about every 50 ms of a long call. If it returns true, the call throws
    /// `Cancelled`; if it throws, the call ends with that exception. D is then written in part, never outside its
    /// elements.
    std::function<bool()> cancelled{};
    /// The device whose bits are returned: the split of k follows from the plan, and the plan from the device. It is
    /// one of `known_devices` or that of a file (`read_device`), and lives until the call returns.
    ///
    /// - CPU, bit-exact results: follow the kernels of this device; null: `default_device()`.
    /// - GPU: plan as for this device, again at each call; null: the GPU that holds the tensors.
    const DeviceDescription* device = nullptr;
};

/// The device that bit-exact CPU calls follow if they name none: GPU 0 if it is a Hopper with a driver, otherwise the
/// H200. Decided once per process, at the first call that needs it. It initialises the driver (cuInit, no context),
/// after which a forked child cannot use CUDA. To avoid that, name a device.
const DeviceDescription& default_device();

/// Computes D. Throws Error, before anything is written, with every finding of `validate` or one about the workspace.
void run(const Problem& problem, const RunOptions& options = {});

}  // namespace tilewright
