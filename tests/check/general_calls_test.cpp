#include "check/general_calls.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace tilewright::check {
namespace {

TEST(GeneralCalls, HaveEveryKindAndEveryNeed) {
    std::set<std::string> kinds;
    std::set<Need> needs;
    for (const GeneralCall& call : general_calls(60, test_seed)) {
        kinds.insert(call.kind);
        needs.insert(call.need);
        const Problem& problem = call.problem;
        EXPECT_EQ(problem.alpha != 1, call.need == Need::alpha) << call.kind;
        EXPECT_EQ(problem.d.format == Format::f16, call.need == Need::f16) << call.kind;
        EXPECT_EQ(problem.d.format == Format::f32, call.need == Need::f32 || call.need == Need::f32_with_c);
        EXPECT_EQ(problem.c.shape.rank() > 0, call.need == Need::c || call.need == Need::f32_with_c) << call.kind;
        EXPECT_EQ(problem.bias.shape.rank() > 0, call.need == Need::bias) << call.kind;
        const int rank = problem.d.shape.rank();
        EXPECT_EQ(problem.d.strides[rank - 2] % 8 != 0, call.need == Need::odd_rows) << call.kind;
    }
    EXPECT_EQ(kinds.size(), 28U);
    EXPECT_EQ(needs.size(), 7U);
}

TEST(GeneralCalls, BeginAlikeForEachCountAndDifferBySeed) {
    const std::vector<GeneralCall> one = general_calls(1, test_seed), three = general_calls(3, test_seed);
    const std::vector<GeneralCall> fitted = general_calls(1, fitted_seed);
    ASSERT_EQ(three.size(), 3 * one.size());
    ASSERT_EQ(fitted.size(), one.size());
    const auto sizes = [](const GeneralCall& call) { return std::tuple(call.sizes.m, call.sizes.n, call.sizes.k); };
    for (std::size_t i = 0; i < one.size(); ++i) {
        EXPECT_EQ(sizes(one[i]), sizes(three[3 * i])) << one[i].kind;
        EXPECT_NE(sizes(one[i]), sizes(fitted[i])) << one[i].kind;
    }
}

TEST(GeneralCalls, LossesAreTheMeanTheNinetyNinthOfAHundredAndTheWorst) {
    std::vector<double> each(98, 0.0);
    each.insert(each.begin(), {0.5, 0.2});
    EXPECT_DOUBLE_EQ(losses(each).mean, 0.007);
    EXPECT_EQ(losses(each).of_99_in_100, 0.2);
    EXPECT_EQ(losses(each).worst, 0.5);
    each.pop_back();
    EXPECT_EQ(losses(each).of_99_in_100, 0.5) << "of 99 calls none may exceed it";
    EXPECT_EQ(losses({}).worst, 0);
}

}  // namespace
}  // namespace tilewright::check
