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
};

/// "dense 1x128:128x128 nt bf16, m 4096, n 7168, k 2048"
std::string sizes_text(const ProblemSizes& sizes);

/// Which of the device's figures were not measured.
std::string figures_text(const DeviceDescription& device);

/// `all_reasons`: every reason for which a candidate was rejected, not a few of each kind.
std::string explanation_text(const ExplainedProblem& problem, bool all_reasons);

nlohmann::ordered_json explanation_json(const ExplainedProblem& problem);

}  // namespace tilewright::cli
