// An explanation of a plan, as text for people and as JSON for programs.
#pragma once

#include <tilewright/plan.h>

#include <nlohmann/json.hpp>
#include <string>

#include "problem/problem_sizes.h"

namespace tilewright::cli {

struct ExplainedProblem {
    ProblemSizes sizes;
    DeviceDescription device;
    Explanation explanation;
    bool has_wide_rows_for_bf16 = false;
    bool expands_weights = false;  // packed ones, before the product (problem/preparation.h)
    bool has_raw_codes = false;
};

/// Whether the kernel is the one for MXFP4 weights with wide rows and bf16 activations (mainloop/wide_rows.h). It is if
/// packed weights have wide rows, or if weights are packed at each call, when the host cannot know.
bool has_wide_rows_for_bf16(const Problem& problem);

/// Whether the kernel reads unpacked MXFP4 codes in place, with scales that are prepared first.
bool has_raw_codes(const Problem& problem);

/// "dense 1x128:128x128 nt bf16, m 4096, n 7168, k 2048"
std::string sizes_text(const ProblemSizes& sizes);

/// `all_reasons`: every reason for which a candidate was rejected, not a few of each kind.
std::string explanation_text(const ExplainedProblem& problem, bool all_reasons);

nlohmann::ordered_json explanation_json(const ExplainedProblem& problem);

}  // namespace tilewright::cli
