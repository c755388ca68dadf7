// 1x32 scales: every pair of sides that has them is planned, in the shapes that serve MXFP8 on both sides or, of packed
// weights, bf16, as general kernels whose loop promotes each step.
#include <gtest/gtest.h>
#include <tilewright/plan.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "hopper/tile/mma_tiling.h"
#include "plan/choose.h"
#include "plan/k_splits.h"
#include "plan/legality.h"
#include "plan/problems.h"
#include "plan/shipped_tiles.h"
#include "plan/variant.h"
#include "plan/workload.h"
#include "problem/canonical_order.h"

namespace tilewright::planner {
namespace {

using hopper::Scaling;

ProblemSizes step_call(const char* recipe, Grouping grouping, Layout layout, std::int64_t m) {
    return {.grouping = grouping,
            .recipe = parse_recipe(recipe).value(),
            .layout = layout,
            .m = m,
            .n = 4096,
            .k = 7168,
            .groups = grouping == Grouping::dense ? 1 : 4};
}

TEST(Steps, EveryPairTakesAShapeThatServesThem) {
    for (const char* recipe :
         {"row:mxfp8", "tensor:e5m2.1x32", "1x128:mxfp8", "1x128.ue8m0:mxfp8", "mxfp8:row", "mxfp8:tensor",
          "mxfp8:1x128", "mxfp8:128x128", "bf16:mxfp8", "nvfp4:mxfp8", "mxfp8:nvfp4", "mxfp8:mxfp8"}) {
        for (const Grouping grouping : planned_groupings) {
            for (const Layout layout : {Layout::nt, Layout::nn}) {
                for (const std::int64_t m : {1, 64, 1000, 8192}) {
                    const bool packs = std::string(recipe).ends_with(":nvfp4");
                    if (is_k_grouped(grouping) || (packs && layout == Layout::nn)) continue;
                    const Workload work = describe(problem_of(step_call(recipe, grouping, layout, m)));
                    ASSERT_TRUE(obstacles(work).empty()) << recipe << " " << obstacles(work)[0].message();
                    const hopper::Tile family = family_tile(work), tile = choose(work, h200(), {});
                    const std::vector<hopper::Tile> list = shipped_tiles(family);
                    EXPECT_NE(std::ranges::find(list, tile), list.end()) << recipe << " " << m;
                    EXPECT_TRUE(is_consistent(tile) && promotes_each_step(tile)) << recipe;
                    EXPECT_LE(mma_registers(tile), mma_register_budget(tile)) << recipe;
                    EXPECT_EQ(variant(work.geometry, tile), tile) << "else the general one";
                }
            }
        }
    }
}

/// Other scales of fp8 are repeated, whatever they are; FP8 shapes hold as many bytes of bf16.
TEST(Steps, ScalesAndStagesFollowTheSides) {
    const auto family = [](const char* recipe) {
        return family_tile(describe(problem_of(step_call(recipe, Grouping::dense, Layout::nt, 512))));
    };
    for (const char* recipe : {"row:mxfp8", "tensor:mxfp8", "1x128:mxfp8"}) {
        EXPECT_EQ(family(recipe).a.scaling, Scaling::repeated) << recipe;
        EXPECT_EQ(family(recipe).b.scaling, Scaling::block_1x32) << recipe;
    }
    for (const char* recipe : {"mxfp8:row", "mxfp8:128x128"}) {
        EXPECT_EQ(family(recipe).a.scaling, Scaling::block_1x32) << recipe;
        EXPECT_EQ(family(recipe).b.scaling, Scaling::repeated) << recipe;
    }
    EXPECT_EQ(family("bf16:mxfp8").a.scaling, Scaling::none);
    EXPECT_EQ(family("nvfp4:mxfp8").a.scaling, Scaling::alpha);
    EXPECT_EQ(family("bf16:mxfp8").shape.k, 64);
    EXPECT_EQ(family("mxfp8:nvfp4").shape.k, 128);
    EXPECT_FALSE(family("mxfp8:nvfp4").mma.promoted);
    const auto shapes = [](const hopper::Tile& of) { return shipped_tiles(of).size(); };
    EXPECT_EQ(shapes(family("bf16:mxfp8")), shapes(family("mxfp8:mxfp8")));
    EXPECT_EQ(shapes(family("row:mxfp8")), shapes(family("mxfp8:mxfp8")));
}

/// Slices of k begin at multiples of 128, where a stage has 64 as well; what is decoded or packed before changes none.
TEST(Steps, SlicesBeginAtPromotionIntervals) {
    for (const char* recipe : {"row:mxfp8", "bf16:mxfp8", "mxfp8:nvfp4"}) {
        const Problem problem = problem_of(step_call(recipe, Grouping::dense, Layout::nt, 4));
        const std::vector<std::int64_t> splits = planned_k_splits(problem, h200());
        EXPECT_FALSE(splits.empty()) << recipe;
        for (const std::int64_t split : splits) EXPECT_EQ(split % tilewright::promotion_interval, 0) << recipe;
    }
}

}  // namespace
}  // namespace tilewright::planner
