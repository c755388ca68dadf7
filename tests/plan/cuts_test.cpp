// Where k is split: by the tile's rule, and for a problem as its plan says.
#include "plan/cuts.h"

#include <gtest/gtest.h>

#include "plan/problems.h"
#include "plan/work.h"

namespace tilewright::planner {
namespace {

TEST(Cuts, AreMultiplesOfAStageThatDivideKEvenly) {
    EXPECT_TRUE(cuts({}, 1000).empty());
    EXPECT_EQ(cuts({.cluster = hopper::split_k(4)}, 1000), (std::vector<std::int64_t>{256, 512, 768}));
    EXPECT_EQ(cuts({.cluster = hopper::split_k(2)}, 7168), (std::vector<std::int64_t>{3584}));
    EXPECT_EQ(cuts({.cluster = hopper::split_k(8)}, 3 * 128),
              (std::vector<std::int64_t>{0, 0, 128, 128, 128, 256, 256}));
}

TEST(Cuts, OfAProblemAreThoseOfTheTileThatRuns) {
    for (const std::int64_t m : {1, 64, 4096}) {
        const Problem problem = problem_of(dense(m, 2112, 7168));
        const Work work = describe(problem);
        const hopper::Tile tile = device_tile(plan(problem).tile, family_tile(work));
        EXPECT_EQ(planned_cuts(problem), cuts(tile, 7168)) << m;
    }
    Sizes bf16 = dense(64, 256, 256);
    bf16.recipe = plain_bf16;
    EXPECT_TRUE(planned_cuts(problem_of(bf16)).empty()) << "no kernel, no plan";
}

}  // namespace
}  // namespace tilewright::planner
