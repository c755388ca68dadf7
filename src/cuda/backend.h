// The Hopper backend. It runs on the GPU that holds the tensors and on the caller's stream (a CUstream; null: the
// default stream).
#pragma once

#include <tilewright/run.h>

#include "hopper/description/kernel.h"
#include "launch/kernels.h"
#include "problem/gpu_call.h"

namespace tilewright::cuda {

/// The answer of the call cache (call_cache.h) to a problem.
enum class CacheAnswer : unsigned char {
    // The problem equals one of this thread's last calls, except for an alpha other than 1. It was launched again.
    launched,
    // It differs from one of them only in addresses and alpha, so that its shapes need no second validation.
    known_kind,
    nothing,
};

/// Asks the call cache, which stands in front of `run` and launches a repetition at once: no allocation, no lock, no
/// validation.
CacheAnswer ask_call_cache(const Problem& problem, const RunOptions& options);

/// For a problem without findings of `validate` and `check_workspace` for the backend hopper. `call` describes it with
/// the addresses in the workspace. Throws Error if the machine fails.
void run(const Problem& problem, const GpuCall& call, const RunOptions& options);

/// Runs exactly this tile, legal for the problem, on this GPU: for tuning, benchmarks and tests.
void run(const Geometry& geometry, const hopper::Kernel& tile, int device, void* stream,
         const Workspace& workspace = {});

/// Runs launches, one after another. No allocation and no wait on the host once the kernels are loaded. `overlap`: as
/// `RunOptions::overlap`, for kernels that wait for earlier work by themselves.
void run(const std::vector<launch::OtherLaunch>& launches, int device, void* stream, bool overlap = false);

/// GPU 0 if the driver can be opened and it is a Hopper GPU, otherwise the H200. Decided at the first call; creates no
/// context.
const DeviceDescription& present_device();

}  // namespace tilewright::cuda
