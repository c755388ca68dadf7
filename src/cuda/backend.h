// The Hopper backend: on the GPU that the tensors lie on, on the caller's stream (a CUstream; null: the default one).
#pragma once

#include <tilewright/error.h>
#include <tilewright/run.h>

#include "hopper/tile/tile.h"
#include "problem/geometry.h"

namespace tilewright::cuda {

/// Launches a problem that, but for an alpha other than 1, this thread ran a moment ago; false if it is none of those.
/// The fast path: no allocation, no lock, and nothing is validated again.
bool repeat(const Problem& problem, const RunOptions& options);

/// Whether this thread ran a problem lately that differs from this one in addresses and alpha only, so that its shapes
/// need no second validation.
bool knows_kind(const Problem& problem);

/// For a problem in which `validate` finds nothing for the backend hopper. Throws Error where the machine fails.
void run(const Problem& problem, const RunOptions& options);

/// This very tile, legal for the problem, on this GPU: for tuning, benchmarks and tests.
void run(const Geometry& geometry, const hopper::Tile& tile, int device, void* stream);

}  // namespace tilewright::cuda
