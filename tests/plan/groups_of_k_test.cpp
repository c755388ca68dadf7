// k-grouped calls: the kernels that ship for them, and how the model counts them.
#include <gtest/gtest.h>
#include <tilewright/plan.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "hopper/description/design.h"
#include "plan/choose.h"
#include "plan/cost.h"
#include "plan/problems.h"
#include "plan/shipped_kernels.h"
#include "plan/tile_distribution.h"
#include "plan/variant.h"
#include "plan/workload.h"

namespace tilewright::planner {
namespace {

ProblemSizes gradient(const Recipe& recipe, std::int64_t groups, std::int64_t k) {
    return {.grouping = Grouping::k_grouped_aligned_offsets,
            .recipe = recipe,
            .output = Format::f32,
            .m = 4096,
            .n = 7168,
            .k = k,
            .groups = groups};
}

std::vector<std::pair<Grouping, Recipe>> every_grouping_with(const std::vector<Recipe>& recipes) {
    std::vector<std::pair<Grouping, Recipe>> list;
    for (const Grouping grouping : all_groupings) {
        for (const Recipe& recipe : recipes) {
            if (is_k_grouped(grouping)) list.emplace_back(grouping, recipe);
        }
    }
    return list;
}

/// All but 1x128 : 128x128 of groups that begin anywhere.
TEST(GroupsOfK, EveryPromotedCallHasAKernelThatShips) {
    const std::vector<hopper::Kernel> kernels = shipped_kernels();
    const Recipe rows = parse_recipe("row:row").value();
    for (const auto& [grouping, recipe] : every_grouping_with({block_scaled, both_row_scaled, per_tensor, rows})) {
        for (const Format output : {Format::bf16, Format::f16, Format::f32}) {
            for (const bool with_c : {false, true}) {
                for (const std::int64_t size : {1, 64, 200, 1024, 7168}) {
                    if (grouping != Grouping::k_grouped_aligned_offsets && recipe == block_scaled) continue;
                    ProblemSizes sizes = gradient(recipe, 8, 8192);
                    sizes.grouping = grouping;
                    sizes.m = sizes.n = size;
                    sizes.output = output;
                    sizes.with_c = with_c;
                    const Problem problem = problem_of(sizes);
                    const hopper::Kernel tile =
                        variant(geometry(problem), choose(workload(problem), h200(), tuned_rows()));
                    EXPECT_NE(std::ranges::find(kernels, tile), kernels.end())
                        << name(grouping) << " " << name(recipe) << " " << name(output) << (with_c ? " C" : "")
                        << " m = n = " << size;
                }
            }
        }
    }
}

TEST(GroupsOfK, HaveATileOfEachGroupForEachTileOfDAndShareOperands) {
    const Workload work = workload(problem_of(gradient(both_row_scaled, 8, 8192)));
    const hopper::Design tile = hopper::Design(choose(work, h200(), {}));
    const TileDistribution over = tile_distribution(tile, work, h200());
    EXPECT_EQ(over.tiles, 8.0 * (4096 / tile.d_rows) * (7168 / tile.d_columns));
    EXPECT_EQ(over.k_blocks, 8192 / 8 / 128);
    const double operands = (4096 + 7168) * (8192 + 8192 / 128 * 4.0);
    EXPECT_DOUBLE_EQ(compulsory_bytes(work), operands + 8 * 4096 * 7168 * 4.0);
}

TEST(GroupsOfK, TakeAsLongAsTheKOfAllTogetherAndEachGroupsD) {
    const double few = plan(problem_of(gradient(both_row_scaled, 4, 32768))).cost.seconds;
    const double more_k = plan(problem_of(gradient(both_row_scaled, 4, 65536))).cost.seconds;
    const double more_groups = plan(problem_of(gradient(both_row_scaled, 8, 32768))).cost.seconds;
    EXPECT_GT(more_k, 1.7 * few);
    EXPECT_LT(more_k, 2.1 * few);
    EXPECT_GT(more_groups, few) << "twice as much of D";
    EXPECT_LT(more_groups, 1.5 * few) << "and no more products";
}

}  // namespace
}  // namespace tilewright::planner
