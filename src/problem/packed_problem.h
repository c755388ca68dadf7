// Calls whose weights a GPU takes packed alone, and how they are with packed ones.
#pragma once

#include <tilewright/problem.h>

#include "problem/problem_sizes.h"

namespace tilewright {

/// FP4 weights in rows along k, dense or in groups of m: what `goes_with_fp4` says, in the order that the
/// activations ask for.
bool takes_packed_weights(const Problem& problem);

/// The same call with packed weights of the same shape without memory, with as many windows of scales (PackedWeights).
Problem with_packed_shape(const Problem& problem, int windows);

/// The same with the wide rows that the problem of these sizes has.
Problem with_packed_shape(const Problem& problem, const ProblemSizes& sizes);

}  // namespace tilewright
