// Seeded random problems with the sizes of users (src/check/user_sizes.h), for all groupings with kernels, every order
// of scales and every alignment. The planner's choices for them are compared with those of an earlier version.
// Addresses are made up, and nothing is read.
#pragma once

#include <tilewright/problem.h>

#include <vector>

namespace tilewright::planner {

/// Problems in which `validate` finds nothing for the backend hopper; always the same ones.
std::vector<Problem> random_problems(int count);

}  // namespace tilewright::planner
