// Layers of experts as rows of `tilewright verify moe`. The CPU's are judged by float64 (check/moe_oracle.h), a GPU's
// by the CPU's bytes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "check/moe_case.h"
#include "verify/row.h"

namespace tilewright::verify {

/// A row: recipes of the same granularities.
struct MoeFamily {
    std::string name{};  // "1x128:128x128"
    std::vector<Recipe> recipes{};
};

std::vector<MoeFamily> all_moe_families();

/// Whether `bit_exact` and invariant products exist: not for f16 and f32.
bool has_canonical_order(const Recipe& recipe);

/// The first recipe in each form with each unit and place of weights; the other recipes in one form each. FP4 weights
/// are also packed. Routing, shared experts, biases, addends and formats change from case to case. `quick`: a few
/// cases.
std::vector<check::MoeSpec> moe_cases_of(const MoeFamily& family, bool quick);

RowResult run_moe(const MoeFamily& family, const VerifySettings& settings, const std::function<void()>& progress);

/// How many times `run_moe` will call `progress`.
std::int64_t count_cases(const MoeFamily& family, const VerifySettings& settings);

}  // namespace tilewright::verify
