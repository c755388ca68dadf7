// The problems that compare two packs reach every kernel that ships; what is slower is found.
#include "bench/pack_calls.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "launch/kernels.h"
#include "plan/choose.h"
#include "plan/shipped_kernels.h"
#include "plan/variant.h"
#include "problem/geometry.h"

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
    for (const hopper::Kernel& tile : planner::shipped_kernels()) {
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

/// benchmarks/compare_general_kernels times them.
TEST(PackCalls, HaveCallsThatNeedGeneralKernels) {
    int replaced = 0;
    for (const check::GeneralCall& call : check::general_calls(6, check::test_seed)) {
        const std::optional<PackProblem> problem = pack_problem(call);
        ASSERT_EQ(problem.has_value(), call.need != check::Need::bias && call.need != check::Need::odd_rows);
        if (!problem) continue;
        const Problem shapes = shapes_of(*problem);
        EXPECT_TRUE(validate(shapes, Backend::hopper, Check::shapes).empty()) << call.kind;
        EXPECT_EQ(shapes.alpha, call.problem.alpha) << call.kind;
        EXPECT_EQ(shapes.d.format, call.problem.d.format) << call.kind;
        EXPECT_EQ(shapes.c.shape.rank(), call.problem.c.shape.rank()) << call.kind;
        const Geometry g = geometry(shapes);
        const planner::TileChoice tiles = planner::chosen_tiles(shapes, gpu_call(g), h200());
        replaced += planner::tile_of(tiles, g) == tiles.usual ? 0 : 1;
    }
    EXPECT_GT(replaced, 10);
}

}  // namespace
}  // namespace tilewright::bench
