// Not every tile has a general kernel that ships. Calls that need one get it from another tile: with the same bits,
// without a compiler, and with a bounded loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "hopper/description/derive.h"
#include "plan/choose.h"
#include "plan/cost.h"
#include "plan/general_calls.h"
#include "plan/k_splits.h"
#include "plan/pack.h"
#include "plan/random_problems.h"
#include "plan/runnable.h"
#include "plan/shipped_tiles.h"
#include "plan/variant.h"
#include "problem/problem_sizes.h"

namespace tilewright::planner {
namespace {

bool is_in_pack(const hopper::Kernel& kernel) {
    static const std::vector<hopper::Kernel> all = pack();
    return std::ranges::find(all, kernel) != all.end();
}

constexpr int calls_of_a_kind = 120 / TILEWRIGHT_PLAN_STEP + 1;

/// Any call that had a kernel in the pack when each tile had a general one.
TEST(GeneralKernels, ShipForEveryCallOfTheirKinds) {
    std::map<std::string, int> calls;
    for (const GeneralCall& call : general_calls(calls_of_a_kind)) {
        const Workload work = workload(call.problem);
        if (work.if_not_expanded != nullptr && family_tile(work).order.step == StepKind::bf16)
            continue;  // compiled on first use
        const hopper::Kernel kernel = variant(work.geometry, choose(work, h200(), tuned_rows()));
        EXPECT_TRUE(is_in_pack(kernel)) << call.kind << ": " << work.key << ": " << name(planned_tile(kernel));
        ++calls[call.kind];
    }
    EXPECT_GE(calls.size(), 28U);
}

/// A call may need the general kernel or not by its alpha and addresses, of which its bits must not depend.
TEST(GeneralKernels, SplitKAsTheUsualTile) {
    std::map<int, int> replaced;
    const auto expect_same = [&](const Problem& problem) {
        const Geometry g = geometry(problem);
        const TileChoice tiles = chosen_tiles(problem, gpu_call(g), h200());
        EXPECT_EQ(k_splits(tiles.usual, g.k), k_splits(tiles.general, g.k)) << workload(problem).key;
        if (!(tiles.usual == tiles.general)) ++replaced[design_of(tiles.usual).k_slices];
    };
    for (const GeneralCall& call : general_calls(calls_of_a_kind)) expect_same(call.problem);
    for (const Problem& problem : random_problems(1000 / TILEWRIGHT_PLAN_STEP)) expect_same(problem);
    EXPECT_GT(replaced[1], 20);
    EXPECT_GT(replaced[2] + replaced[4], 0) << "k is split in some";
}

/// Addresses do not decide between tiles, only whether the usual one or the general one runs.
TEST(GeneralKernels, FollowFromTheKindOfACall) {
    Problem problem = problem_of({.recipe = parse_recipe("1x128:128x128").value(), .m = 4096, .n = 7168, .k = 2048});
    const TileChoice tiles = chosen_tiles(problem, gpu_call(problem), h200());
    ASSERT_FALSE(serves_general_calls(tiles.usual)) << "the largest tiles have no general kernels";
    EXPECT_EQ(chosen_tile(problem, gpu_call(problem), h200()), tiles.usual);
    problem.alpha = 2;
    const TileChoice scaled = chosen_tiles(problem, gpu_call(problem), h200());
    EXPECT_EQ(scaled.usual, tiles.usual);
    EXPECT_EQ(scaled.general, tiles.general);
    EXPECT_EQ(chosen_tile(problem, gpu_call(problem), h200()), tiles.general);
    EXPECT_EQ(plan(problem).tile, name(planned_tile(tiles.general)));
    EXPECT_EQ(explain(problem, h200()).chosen->tile, plan(problem).tile);
}

/// By the model; tools/choose_general_kernels chooses them for it.
TEST(GeneralKernels, LoseLittle) {
    double sum = 0, worst = 0;
    int calls = 0;
    std::string at;
    for (const GeneralCall& call : general_calls(calls_of_a_kind)) {
        const Workload work = workload(call.problem);
        const TileChoice tiles = choose_tiles(work, h200(), tuned_rows());
        if (variant(work.geometry, tiles.usual).output != hopper::Output::any) continue;
        const auto seconds = [&](const hopper::Kernel& tile) {
            return cost(variant(work.geometry, tile), work, h200()).seconds;
        };
        const double lost = seconds(tiles.general) / seconds(tiles.usual) - 1;
        sum += std::max(0.0, lost);
        ++calls;
        if (lost <= worst) continue;
        worst = lost;
        at = call.kind + ": " + work.key;
    }
    RecordProperty("mean", std::to_string(sum / calls));
    EXPECT_LE(sum / calls, 0.03) << "in the mean of " << calls;
    EXPECT_LE(worst, 0.35) << at;
}

}  // namespace
}  // namespace tilewright::planner
