// Seeded random problems of sizes as users have them (src/check/user_sizes.h), of all groupings that have kernels, in
// every order of scales and at every alignment: on which
// the planner's choices are compared with those of an earlier version. Addresses are made up; nothing is read.
#pragma once

#include <tilewright/problem.h>

#include <vector>

namespace tilewright::planner {

/// Problems in which `validate` finds nothing for the backend hopper; always the same ones.
std::vector<Problem> random_problems(int count);

}  // namespace tilewright::planner
