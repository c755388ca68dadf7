// Sizes as users have them, drawn from a seed: rows of any number, weights of models' layers, groups as a router of
// tokens makes them. `tilewright tune --random` measures them, and the planner's tests ask about them.
#pragma once

#include <tilewright/problem.h>

#include <cstdint>
#include <vector>

#include "check/random.h"

namespace tilewright::check {

struct UserSizes {
    std::int64_t groups = 1;
    std::int64_t m =
        0;  // dense, batched: rows; k-grouped: rows of D; else the groups' mean, rounded down, but at least 1
    std::int64_t n = 0;
    std::int64_t k = 0;                       // k-grouped: the groups' mean
    std::int64_t max_m = 0;                   // masked only: capacity of a group, in rows
    std::vector<std::int64_t> group_sizes{};  // rows of each group (k-grouped: its k, a multiple of 128)
};

/// Random sizes, as users have them. Draws of more than `most_bytes` of operands and output are made again.
///
/// - Dense: m from 1 to 4,096, n from 512 to 32,768 in steps of 8, k from 512 to 16,384 in steps of 16. Each order of
///   magnitude is equally likely. In one draw of four none of the three is a multiple of 64; in the others n and k are,
///   as in most layers.
/// - Grouped: 2 to 128 groups; n and k up to 8,192; the rows are `routed_rows` of 1 to 16,384 tokens.
/// - Batched: the same number of rows in each group.
UserSizes user_sizes(Grouping grouping, Random& random);

inline constexpr double most_bytes = 2147483648.0;

/// The rows of each group if each token takes `choices` different groups. Groups differ in popularity: its logarithm is
/// normal with a deviation of `skew`. 0 is even, and 1.5 leaves some groups nearly empty.
std::vector<std::int64_t> routed_rows(std::int64_t groups, std::int64_t tokens, std::int64_t choices, double skew,
                                      Random& random);

}  // namespace tilewright::check
