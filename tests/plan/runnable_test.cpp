// What `explain` shows is what the runtime takes: every plan that it lists has a kernel.
#include "plan/choose.h"

#include <gtest/gtest.h>
#include <tilewright/error.h>

#include "plan/shipped_tiles.h"
#include "plan/workload.h"
#include "problem/problem_sizes.h"
#include "sample.h"

namespace tilewright::planner {
namespace {

ProblemSizes sizes_of(const char* recipe, std::int64_t m) {
    return {.recipe = parse_recipe(recipe).value(), .m = m, .n = 7168, .k = 2048};
}

TEST(RunnablePlans, AreThoseOfExplainInItsOrder) {
    tests::Sample sample(23);
    for (const char* recipe : {"1x128:128x128", "1x128:1x128", "row:row", "tensor:tensor", "e5m2.row:e4m3.row"}) {
        for (const std::int64_t m : {1, 16, 64, 128, 1000, 4096}) {
            if (!sample.takes_next()) continue;
            const Problem problem = problem_of(sizes_of(recipe, m));
            const Explanation explanation = explain(problem);
            const std::vector<Plan> plans = runnable_plans(problem, h200());
            EXPECT_EQ(plans.front().tile, explanation.chosen->tile) << recipe << " m " << m;
            const hopper::Kernel chosen = chosen_tile(problem, gpu_call(problem), h200());
            EXPECT_EQ(name(planned_tile(chosen)), explanation.chosen->tile) << recipe << " m " << m;
            EXPECT_TRUE(ships(chosen)) << name(planned_tile(chosen));
            EXPECT_EQ(plans.size(), explanation.legal.size()) << recipe << " m " << m;
            for (const Plan& plan : plans) EXPECT_NO_THROW(runnable_tile(planned_tile(plan), problem, h200()));
        }
    }
}

TEST(RunnablePlans, AreRefusedInWords) {
    const Problem problem = problem_of(sizes_of("1x128:128x128", 16));
    try {
        (void)runnable_tile(parse_tile("128x16x128 swap split=16").value(), problem, h200());
        FAIL() << "there are no clusters of 16";
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(),
                     "tile '128x16x128 stages=4 swap split=16': cluster: clusters have at most 8 blocks, not 16");
    }
    ProblemSizes bf16 = sizes_of("bf16:bf16", 16);
    EXPECT_THROW((void)runnable_plans(problem_of(bf16), h200()), Error);
}

}  // namespace
}  // namespace tilewright::planner
