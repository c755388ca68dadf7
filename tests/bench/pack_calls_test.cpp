// The problems that compare two packs reach every kernel that ships; what is slower is found.
#include "bench/pack_calls.h"

#include <gtest/gtest.h>

#include <set>

#include "launch/tile_code.h"
#include "plan/pack.h"

namespace tilewright::bench {
namespace {

TEST(PackCalls, ReachEveryKernelForKMajorOperandsThatShips) {
    std::set<std::string> reached;
    std::size_t calls = 0;
    for (const PackProblem& problem : pack_problems(h200(), 3)) {
        calls += problem.calls.size();
        for (const KernelCall& call : problem.calls) reached.insert(launch::kernel_expression(call.kernel));
    }
    std::size_t expected = 0;
    for (const hopper::Kernel& tile : planner::pack()) {
        if (!is_called(tile)) continue;
        ++expected;
        EXPECT_TRUE(reached.contains(launch::kernel_expression(tile))) << launch::describe(tile);
    }
    EXPECT_EQ(reached.size(), expected);
    EXPECT_GE(expected, 220U);
    EXPECT_LE(calls, 3 * expected);
}

TEST(PackCalls, ASlowKernelOrKindIsFound) {
    const std::vector<KernelRatio> level{{"a", "groups", 1.019}, {"b", "groups", 0.99}, {"c", "groups", 1.0}};
    EXPECT_FALSE(judge_ratios(level, 0.02, 0.005).slower) << judge_ratios(level, 0.02, 0.005).text;
    EXPECT_TRUE(judge_ratios({{"a", "groups", 1.03}, {"b", "groups", 0.97}}, 0.02, 0.005).slower);
    EXPECT_TRUE(judge_ratios({{"a", "groups", 1.006}, {"b", "groups", 1.006}}, 0.02, 0.005).slower);
    EXPECT_FALSE(judge_ratios({{"a", "groups", 1.03}, {"a", "groups", 1.0}}, 0.02, 0.02).slower);
    EXPECT_NE(judge_ratios(level, 0.02, 0.005).text.find("slowest x1.0190: a"), std::string::npos);
}

}  // namespace
}  // namespace tilewright::bench
