// The Hopper backend: on the GPU that holds the tensors, on the caller's stream (a CUstream; null: the default one).
#pragma once

#include <tilewright/run.h>

#include "hopper/tile/tile.h"
#include "launch/quantize.h"
#include "problem/geometry.h"

namespace tilewright::cuda {

/// What this thread's last calls say of a problem.
enum class Known : unsigned char {
    launched,  // but for an alpha other than 1, it is one of them, and was launched again: nothing is left to do
    kind,      // one of them differs in addresses and alpha only, so that its shapes need no second validation
    nothing,
};

/// Launches a repetition at once: no allocation, no lock, no validation.
Known repeat(const Problem& problem, const RunOptions& options);

/// For a problem in which `validate` and `check_workspace` find nothing for the backend hopper. Throws Error where the
/// machine fails.
void run(const Problem& problem, const RunOptions& options);

/// This very tile, legal for the problem, on this GPU: for tuning, benchmarks and tests.
void run(const Geometry& geometry, const hopper::Tile& tile, int device, void* stream, const Workspace& workspace = {});

/// A quantiser's launches, one after another; no allocation and no wait on the host once the kernels are loaded.
void quantize(const std::vector<launch::QuantizeLaunch>& launches, int device, void* stream);

/// GPU 0 if the driver can be opened and it is a Hopper, the H200 otherwise. Decided at the first call; no context.
const DeviceDescription& present_device();

}  // namespace tilewright::cuda
