// Pairs of scales without shipped kernels. The tests check:
// - among which tiles the planner chooses;
// - that their kernels are of one block, for D of bf16, or of f32 where gradients are accumulated;
// - that epilogue scales without scales of B take the kernels of row : row.
#include <gtest/gtest.h>
#include <tilewright/plan.h>

#include <algorithm>
#include <string>

#include "hopper/description/design.h"
#include "plan/choose.h"
#include "plan/kernel_class.h"
#include "plan/problems.h"
#include "plan/shipped_kernels.h"
#include "plan/shipped_tiles.h"
#include "plan/tma.h"
#include "plan/variant.h"
#include "plan/workload.h"

namespace tilewright::planner {
namespace {

constexpr const char* unshipped[] = {"1x128:e4m3", "1x128:row", "1x128:tensor", "128x128:e4m3", "128x128:128x128"};

ProblemSizes call(const char* recipe, Grouping grouping, Layout layout, std::int64_t size) {
    const bool along_k = is_k_grouped(grouping);
    return {.grouping = grouping,
            .recipe = parse_recipe(recipe).value(),
            .layout = layout,
            .output = along_k ? Format::f32 : Format::bf16,
            .m = along_k ? 4096 : size,
            .n = 7168,
            .k = along_k ? size : 2048,
            .groups = grouping == Grouping::dense ? 1 : 4,
            .with_c = along_k};
}

TEST(ScalePairs, TakeKernelsOfOneBlockWithoutSlices) {
    for (const char* recipe : unshipped) {
        for (const Grouping grouping : planned_groupings) {
            for (const Layout layout : {Layout::nt, Layout::nn, Layout::tn, Layout::tt}) {
                for (const std::int64_t size : {1, 64, 1000, 8192}) {
                    const Problem problem = problem_of(call(recipe, grouping, layout, size));
                    const Workload work = workload(problem);
                    const hopper::Kernel shapeless = shapeless_kernel(work), tile = choose(work, h200(), {});
                    if (!shipped_tiles(shapeless).empty())
                        continue;  // folded gradients of weights: FoldedGradientsOfWeightsShip
                    const std::vector<hopper::Kernel> list = unshipped_tiles(shapeless);
                    EXPECT_NE(std::ranges::find(list, tile), list.end())
                        << recipe << " " << name(grouping) << " " << name(layout) << " " << size;
                    EXPECT_EQ(tile.cluster.size(), 1);
                    const hopper::Kernel kernel = variant(work.geometry, tile);
                    hopper::Kernel expected = is_k_grouped(grouping) ? f32_kernel(tile) : tile;
                    if (!is_k_grouped(grouping)) expected.output = hopper::Output::bf16_by_tma;
                    expected.scales_along_k = kernel.scales_along_k;  // by the strides and ends of groups
                    EXPECT_EQ(contradiction(kernel), nullptr);
                    EXPECT_EQ(kernel, expected) << recipe << " " << name(layout) << " " << size;
                    EXPECT_TRUE(planned_k_splits(problem, h200()).empty());
                }
            }
        }
    }
}

TEST(ScalePairs, ThatShipHaveNoOthers) {
    for (const char* recipe : {"1x128:128x128", "1x128:1x128", "row:row", "row:e4m3", "tensor:tensor", "bf16:mxfp4"}) {
        const Problem problem = problem_of(call(recipe, Grouping::dense, Layout::nt, 64));
        EXPECT_TRUE(unshipped_tiles(shapeless_kernel(workload(problem))).empty()) << recipe;
    }
}

TEST(ScalePairs, FoldedGradientsOfWeightsShip) {
    const Grouping grouping = Grouping::k_grouped_aligned_offsets;
    const Workload folded = workload(problem_of(call("1x128:e4m3", grouping, Layout::nt, 8192)));
    EXPECT_TRUE(ships(choose(folded, h200(), {})));
    for (const char* recipe : {"1x128:e4m3", "1x128:row", "128x128:e4m3"}) {
        for (const Grouping other :
             {Grouping::dense, Grouping::m_grouped_offsets, Grouping::k_grouped_flat, grouping}) {
            if (recipe == std::string("1x128:e4m3") && other == grouping) continue;
            const Workload work = workload(problem_of(call(recipe, other, Layout::nt, 8192)));
            EXPECT_TRUE(shipped_tiles(shapeless_kernel(work)).empty()) << recipe << " " << name(other);
        }
    }
}

/// 128x128 scales of A are not where TMA would load 1x128 ones from, whatever their strides.
TEST(ScalePairs, TmaLoadsScalesOfRowsAlone) {
    for (const char* recipe : unshipped) {
        Geometry g = geometry(problem_of(call(recipe, Grouping::dense, Layout::nt, 1024)));
        g.a.scale_strides = {.row = 1, .k = 1024};
        const hopper::Kernel tile =
            choose(workload(problem_of(call(recipe, Grouping::dense, Layout::nt, 1024))), h200(), {});
        const bool of_rows = g.a.recipe.granularity == Granularity::block_1x128;
        EXPECT_EQ(loads_scales_by_tma(g, hopper::Design(tile)), of_rows) << recipe;
    }
}

TEST(ScalePairs, ScalesOfTheEndAloneRunTheKernelsOfRowAndRow) {
    for (const Grouping grouping : planned_groupings) {
        for (const Layout layout : {Layout::nt, Layout::nn}) {
            for (const char* recipe : {"row:e4m3", "tensor:e4m3"}) {
                const Workload folded = workload(problem_of(call(recipe, grouping, layout, 8192)));
                const Workload rows = workload(problem_of(call("row:row", grouping, layout, 8192)));
                const hopper::Kernel tile = choose(folded, h200(), {});
                EXPECT_EQ(tile, choose(rows, h200(), {})) << recipe << " " << name(grouping) << " " << name(layout);
                EXPECT_TRUE(ships(tile));
                EXPECT_EQ(variant(folded.geometry, tile), variant(rows.geometry, tile));
            }
        }
    }
}

}  // namespace
}  // namespace tilewright::planner
