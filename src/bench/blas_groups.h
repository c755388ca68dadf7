// The groups of a benchmark's product in the form of cuBLASLt's grouped product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "measure/blas_lt.h"
#include "problem/problem_sizes.h"

namespace tilewright::bench {

/// Groups that have all of their rows, or of their k, one after another.
bool has_blas_groups(Grouping grouping);

/// Operands along k (layout nt), and an output in which each group of k has a matrix.
struct BlasMatrices {
    const std::byte* a = nullptr;
    const std::byte* b = nullptr;
    std::byte* d = nullptr;
};

/// Bytes of an output of bf16.
std::size_t blas_output_bytes(const ProblemSizes& sizes);

/// group_sizes: rows of each group, or its k. sizes.k of k-grouped calls is the sum over all groups, as an operand has
/// it.
std::vector<measure::BlasGroup> blas_groups(const ProblemSizes& sizes, const std::vector<std::int64_t>& group_sizes,
                                            const BlasMatrices& at, Format values);

}  // namespace tilewright::bench
