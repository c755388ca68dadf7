// 1x32 scales: every pair with them is planned, with kernels for any output that promote each step. Their shapes
// serve MXFP8 on both sides or, for packed weights, bf16.
#include <gtest/gtest.h>
#include <tilewright/plan.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "hopper/description/design.h"
#include "plan/choose.h"
#include "plan/kernel_class.h"
#include "plan/problems.h"
#include "plan/shipped_tiles.h"
#include "plan/variant.h"
#include "plan/workload.h"
#include "problem/canonical_order.h"
#include "problem/hopper_rules.h"

namespace tilewright::planner {
namespace {

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
                    const Workload work = workload(problem_of(step_call(recipe, grouping, layout, m)));
                    ASSERT_TRUE(unsupported_on_hopper(work.asked).empty())
                        << recipe << " " << unsupported_on_hopper(work.asked)[0].message();
                    const hopper::Kernel shapeless = shapeless_kernel(work), tile = choose(work, h200(), {});
                    const std::vector<hopper::Kernel> list = shipped_tiles(shapeless);
                    EXPECT_NE(std::ranges::find(list, tile), list.end()) << recipe << " " << m;
                    const hopper::Design design = hopper::Design(tile);
                    EXPECT_EQ(contradiction(tile), nullptr) << recipe;
                    EXPECT_EQ(design.order.chain, hopper::step_k) << recipe;
                    EXPECT_LE(design.mma_registers, design.mma_register_budget) << recipe;
                    EXPECT_EQ(variant(work.geometry, tile), tile) << "else the general one";
                }
            }
        }
    }
}

/// Both sides have a scale per row that multiplies each step, for as many k-elements.
void expect_scales(const hopper::Kernel& kernel, int k_of_a, int k_of_b, const char* recipe) {
    EXPECT_EQ(kernel.order.chain, hopper::step_k) << recipe;
    EXPECT_TRUE(kernel.order.a == ScaleUse::chains && kernel.order.b == ScaleUse::chains) << recipe;
    EXPECT_TRUE(kernel.a.scale_rows == 1 && kernel.b.scale_rows == 1) << recipe;
    EXPECT_EQ(kernel.a.scale_k, k_of_a) << recipe;
    EXPECT_EQ(kernel.b.scale_k, k_of_b) << recipe;
}

/// Other scales of fp8 multiply each step too, whatever they are; FP8 shapes hold as many bytes of bf16.
TEST(Steps, ScalesAndStagesFollowTheSides) {
    constexpr int any_k = 0;
    const auto shapeless = [](const char* recipe) {
        return shapeless_kernel(workload(problem_of(step_call(recipe, Grouping::dense, Layout::nt, 512))));
    };
    for (const char* recipe : {"row:mxfp8", "tensor:mxfp8", "1x128:mxfp8"}) {
        expect_scales(shapeless(recipe), any_k, hopper::step_k, recipe);
    }
    for (const char* recipe : {"mxfp8:row", "mxfp8:128x128"}) {
        expect_scales(shapeless(recipe), hopper::step_k, any_k, recipe);
    }
    EXPECT_EQ(shapeless("bf16:mxfp8").a.scale_rows, 0);
    EXPECT_TRUE(shapeless("nvfp4:mxfp8").a.is_nvfp4());
    EXPECT_EQ(shapeless("nvfp4:mxfp8").order.a, ScaleUse::none);
    EXPECT_EQ(hopper::Design(shapeless("bf16:mxfp8")).stage_k, 64);
    EXPECT_EQ(hopper::Design(shapeless("bf16:mxfp8")).stage_k / hopper::step_k, 2);
    EXPECT_EQ(hopper::Design(shapeless("mxfp8:nvfp4")).stage_k, 128);
    EXPECT_EQ(hopper::Design(shapeless("mxfp8:nvfp4")).stage_k / hopper::step_k, 4);
    EXPECT_EQ(shapeless("mxfp8:nvfp4").order.step, StepKind::bf16);
    EXPECT_EQ(shapeless("mxfp8:nvfp4").order.chain, hopper::step_k);
    const auto shapes = [](const hopper::Kernel& of) { return shipped_tiles(of).size(); };
    EXPECT_EQ(shapes(shapeless("bf16:mxfp8")), shapes(shapeless("mxfp8:mxfp8")));
    EXPECT_EQ(shapes(shapeless("row:mxfp8")), shapes(shapeless("mxfp8:mxfp8")));
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
