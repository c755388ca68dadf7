// Not every tile has a general kernel that ships. Calls that need one get it from another tile: with the same bits,
// without a compiler, and with a bounded loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "check/general_calls.h"
#include "hopper/description/design.h"
#include "plan/choose.h"
#include "plan/general_losses.h"
#include "plan/random_problems.h"
#include "plan/shipped_kernels.h"
#include "plan/shipped_tiles.h"
#include "plan/variant.h"
#include "problem/problem_sizes.h"
#include "sample.h"

namespace tilewright::planner {
namespace {

bool is_in_pack(const hopper::Kernel& kernel) {
    static const std::vector<hopper::Kernel> all = shipped_kernels();
    return std::ranges::find(all, kernel) != all.end();
}

constexpr int calls_of_a_kind = tests::sampled(121, 20);

/// The calls that the general kernels were chosen for.
std::vector<check::GeneralCall> fitted_calls() { return check::general_calls(calls_of_a_kind, check::fitted_seed); }

/// Any call that had a kernel in the pack when each tile had a general one.
TEST(GeneralKernels, ShipForEveryCallOfTheirKinds) {
    std::map<std::string, int> calls;
    for (const check::GeneralCall& call : fitted_calls()) {
        const Workload work = workload(call.problem);
        if (work.if_not_expanded != nullptr && shapeless_kernel(work).order.step == StepKind::bf16)
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
        if (!(tiles.usual == tiles.general)) ++replaced[tiles.usual.cluster.k_slices];
    };
    for (const check::GeneralCall& call : fitted_calls()) expect_same(call.problem);
    for (const Problem& problem : random_problems(tests::sampled(1000, 23))) expect_same(problem);
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

/// By the model. Single calls may lose more (docs/contributing/planner.md).
void expect_little(const GeneralLosses& found) {
    EXPECT_GT(found.lost.mean, 0) << "not every tile has a general kernel";
    EXPECT_LE(found.lost.mean, most_mean_loss);
    EXPECT_LE(found.lost.of_99_in_100, most_loss) << "at worst " << found.lost.worst << ": " << found.worst_call;
}

TEST(GeneralKernels, LoseLittle) { expect_little(general_losses(fitted_calls())); }

TEST(GeneralKernels, LoseLittleInOtherCalls) {
    expect_little(general_losses(check::general_calls(calls_of_a_kind, check::test_seed)));
}

}  // namespace
}  // namespace tilewright::planner
