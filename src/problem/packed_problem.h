// Calls whose weights a GPU reads only when packed, and the same calls with packed weights.
#pragma once

#include <tilewright/problem.h>

#include "problem/problem_sizes.h"

namespace tilewright {

/// Whether the weights are FP4, K-major, dense or m-grouped, and have a route with these activations (gpu_routes.h).
bool takes_packed_weights(const Problem& problem);

/// The same call with packed weights of the same shape without memory, with as many windows of scales (PackedWeights).
/// Packed weights are along k: of layouts nn and tn the others become nt and tt.
Problem with_packed_shape(const Problem& problem, int windows);

/// The same with the wide rows that the problem of these sizes has.
Problem with_packed_shape(const Problem& problem, const ProblemSizes& sizes);

}  // namespace tilewright
