// The cases of `tilewright verify`. Small sizes: every combination of operation, recipe, layout, output and arithmetic
// that a problem accepts. Sizes of real models: every operation and recipe family once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "check/case.h"

namespace tilewright::verify {

/// A row of the table: an operation and a pair of granularities, with all value and scale formats that go with them.
struct Family {
    Grouping grouping = Grouping::dense;
    Granularity a = Granularity::none;
    Granularity b = Granularity::none;
    std::vector<Recipe> recipes{};

    /// "1x128:128x128"; "unscaled" for operands without scales.
    std::string recipe_name() const;
};

/// All of them: the recipes in all_recipes() by granularity, for every grouping.
std::vector<Family> all_families();

/// The same data in each of the arithmetics.
struct VerifyCase {
    check::CaseSpec spec{};
    std::vector<Arithmetic> arithmetics{};
    bool real_size = false;  // of DeepSeek-V3, Qwen3-235B or gpt-oss
    bool wide_rows = false;  // of MXFP4 weights with bf16 activations

    /// Another case has the same combination.
    bool is_more() const { return real_size || wide_rows || spec.accumulation == Accumulation::unpromoted; }
};

/// The cases of a family:
/// - every recipe x layout x output, on small sizes that are not multiples of the blocks;
/// - one size of a real model;
/// - MXFP4 weights that are multiplied in bf16: also once with rows whose scales are more than 2^120 apart. These have
///   a separate order and kernels. Weights for fp8 have such rows in every other case;
/// - per tensor and per row scales: also once with sums that are not promoted.
///
/// Distributions, alpha, C and the format of group sizes change from case to case. `quick`: one layout and one output
/// per recipe, real sizes only for dense.
std::vector<VerifyCase> cases_of(const Family& family, const std::vector<Arithmetic>& arithmetics, bool quick);

/// The number of combinations of operation x recipe x layout x output x arithmetic. It is counted from the definition
/// of the recipes and not from the cases. f16 and f32 operands have only `fast` arithmetic.
std::int64_t accepted_combinations(const std::vector<Arithmetic>& arithmetics);

}  // namespace tilewright::verify
