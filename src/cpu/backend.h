// The CPU backend: every operation, every recipe, in two arithmetics.
#pragma once

#include "problem/geometry.h"

namespace tilewright::cpu {

/// fp32 arithmetic in the fastest order. `threads` 0: OpenMP's own choice.
void run_fast(const Geometry& geometry, int threads);

/// Bit for bit what a Hopper GPU returns (docs/numerics.md).
void run_hopper(const Geometry& geometry, int threads);

}  // namespace tilewright::cpu
