// The library's side of `tilewright explain`: it answers everything that a person asks about a choice.
#include <gtest/gtest.h>
#include <tilewright/plan.h>

#include <set>

#include "plan/choose.h"
#include "plan/planned_tile.h"
#include "plan/problems.h"

namespace tilewright::planner {
namespace {

TEST(Explain, NamesTheNextBestThatIsReallyAnother) {
    const Explanation explanation = explain(problem_of(dense(4096, 7168, 2048)), h200(), {});
    ASSERT_TRUE(explanation.chosen && explanation.next_best);
    const PlannedTile chosen = planned_tile(*explanation.chosen);
    PlannedTile same_stages = planned_tile(*explanation.next_best);
    same_stages.stages = chosen.stages;
    EXPECT_FALSE(same_stages == chosen);
    EXPECT_GE(explanation.next_best->cost.seconds, explanation.chosen->cost.seconds);
}

TEST(Explain, EveryKindOfRejectionOccurs) {
    ProblemSizes sizes = dense(64, 2112, 512);
    std::set<std::string> rules;
    for (const RejectedTile& tile : explain(problem_of(sizes)).rejected) rules.insert(tile.rule);
    EXPECT_EQ(rules, (std::set<std::string>{"registers", "shared memory", "cluster", "split k"}));
}

TEST(Explain, FewTokensArePutOnN) {
    ProblemSizes few = dense(8, 7168, 16384);
    const Explanation one = explain(problem_of(few));
    EXPECT_TRUE(planned_tile(*one.chosen).swap_ab) << one.chosen->tile;
    const Explanation many = explain(problem_of(dense(8192, 8192, 8192)));
    EXPECT_FALSE(planned_tile(*many.chosen).swap_ab) << many.chosen->tile;
    EXPECT_EQ(planned_tile(*many.chosen).cluster.k_slices, 1);
}

TEST(Explain, SaysWhyThereIsNoKernel) {
    ProblemSizes sizes = dense(64, 256, 256);
    sizes.recipe = parse_recipe("mxfp8:bf16").value();
    const Explanation explanation = explain(problem_of(sizes));
    EXPECT_FALSE(explanation.chosen);
    EXPECT_TRUE(explanation.legal.empty() && explanation.rejected.empty());
    ASSERT_EQ(explanation.unavailable.size(), 1U);
    EXPECT_EQ(explanation.unavailable[0].operand, "b");
    EXPECT_EQ(explanation.unavailable[0].given, "bf16");
    sizes.recipe = parse_recipe("bf16:bf16").value();
    EXPECT_EQ(explain(problem_of(sizes)).unavailable.size(), 2U) << "a and b";
}

}  // namespace
}  // namespace tilewright::planner
