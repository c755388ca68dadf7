// The definition of every operation, in float64.
#pragma once

#include "problem/geometry.h"

#include <functional>

namespace tilewright::cpu {

/// Computes D of a validated problem in double and rounds once to the output format. Runs on one thread. `cancelled` as
/// in RunOptions.
void run_reference(const Geometry& geometry, const std::function<bool()>& cancelled = {});

/// One element in double, without the rounding. Row and column count from the GEMM's beginning.
double reference_element(const Geometry& geometry, const GroupGemm& gemm, std::int64_t row, std::int64_t column);

}  // namespace tilewright::cpu
