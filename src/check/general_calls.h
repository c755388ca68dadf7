// Calls that need general kernels: D in another format than bf16, alpha, C, a bias, or rows of D that TMA cannot step
// by. They decide which general kernels ship (tools/choose_general_kernels). The planner's tests state by its model,
// and compare_general_kernels measures, what those calls lose whose tile has no general kernel.
#pragma once

#include <tilewright/problem.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "check/user_sizes.h"
#include "problem/problem_sizes.h"

namespace tilewright::check {

/// Why a call needs a general kernel.
enum class Need : std::uint8_t { alpha, f16, f32, c, bias, f32_with_c, odd_rows };
std::string_view name(Need need);

struct GeneralCall {
    std::string kind{};  // the recipe, the accumulation and the kind of groups that kernels are made for
    Need need = Need::alpha;
    UserSizes drawn{};
    ProblemSizes sizes{};
    Problem problem{};  // of these sizes, with what is needed; all addresses null
};

/// The general kernels that ship were chosen for calls of the first seed. Losses are stated for the second seed too.
inline constexpr std::uint64_t fitted_seed = 632, test_seed = 633;

/// `count` calls of each kind with kernels, in sizes as users have them: the first calls of a seed are always the same
/// ones.
std::vector<GeneralCall> general_calls(int count, std::uint64_t seed);

/// Parts of their time that calls lose.
struct Losses {
    double mean = 0;
    double of_99_in_100 = 0;  // that 99 of 100 calls do not exceed
    double worst = 0;
};
/// All zero for none.
Losses losses(std::vector<double> each);

}  // namespace tilewright::check
