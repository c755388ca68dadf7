// The problems of the benchmarks' records, as calls of tensors in memory: dense, exact ends and masked, scales along m
// or k. Addresses are made up; nothing is read.
#pragma once

#include <tilewright/problem.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "problem/problem_sizes.h"

namespace tilewright::planner {

/// What one line of a record says of its problem.
ProblemSizes recorded_sizes(const nlohmann::json& row);

/// The problem of that line.
Problem record_problem(const nlohmann::json& row);

/// Each problem of the files once, in the order of their lines. Throws std::runtime_error where there is none.
std::vector<Problem> record_problems(const std::vector<std::string>& paths);

}  // namespace tilewright::planner
