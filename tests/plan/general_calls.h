// Calls that need general kernels: D in another format than bf16, alpha, C, a bias, or rows of D that TMA cannot step
// by. They decide which general kernels ship (tools/choose_general_kernels), and general_kernels_test.cpp states what
// those calls lose that get another one.
#pragma once

#include <tilewright/problem.h>

#include <string>
#include <vector>

namespace tilewright::planner {

struct GeneralCall {
    std::string kind;  // the recipe, the accumulation and the kind of groups that kernels are made for
    Problem problem;
};

/// `count` calls of each kind with kernels, in sizes as users have them; always the same ones. Addresses are null.
std::vector<GeneralCall> general_calls(int count);

}  // namespace tilewright::planner
