// A problem without memory, made from its sizes only: `explain` and the planner's tests use it.
#pragma once

#include <tilewright/problem.h>

#include <cstdint>

namespace tilewright {

struct ProblemSizes {
    Grouping grouping = Grouping::dense;
    Recipe recipe{};
    Layout layout = Layout::nt;
    Format output = Format::bf16;
    std::int64_t m = 0;  // rows of D; masked and batched: of one group
    std::int64_t n = 0;
    std::int64_t k = 0;  // k-grouped: the sum over groups
    std::int64_t groups = 1;
    std::int64_t expected_m = 0;
    int sm_limit = 0;
    bool with_c = false;
    bool with_bias = false;  // bf16, one for each group of b
    Accumulation accumulation = Accumulation::promoted;
    Reproducibility reproducibility = Reproducibility::repeatable;
    /// MXFP4 weights: one row in `wide_rows` is wide for the activations of the recipe (docs/numerics.md); 0: none. A
    /// wide row packed for fp8 has two exponent windows in each k-block.
    int wide_rows = 0;

    /// The first of them, of all groups, or -1: they are wide_rows / 2 and every wide_rows'th row from there on.
    std::int64_t first_wide_row() const;
    /// By how much the exponents of a wide row's neighbouring blocks differ.
    int wide_difference() const;
};

/// Row-major tensors of the right shapes, all pointers null. What `validate` (Check::shapes) finds in it is a mistake
/// in the sizes.
Problem problem_of(const ProblemSizes& sizes);

}  // namespace tilewright
